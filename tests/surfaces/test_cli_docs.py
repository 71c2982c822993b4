"""docs/reference/cli.md agrees with the code: every command and option, its help text, and examples that run."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from cli_reference import PAGE, leaves, page
from holdfast.__main__ import UNREACHABLE, holdfast

TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = dict(leaves(holdfast))
EXAMPLES = re.findall(r"^\$ holdfast (.*)$", TEXT, re.MULTILINE)


def section(path: str) -> str:
    found = re.search(rf"^### holdfast {re.escape(path)}\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/reference/cli.md has no heading '### holdfast {path}'"
    return found[1]


def test_the_page_shows_the_commands_as_they_are() -> None:
    assert page(TEXT) == TEXT, "run: python tests/support/cli_reference.py"


def test_no_heading_is_left_over() -> None:
    assert re.findall(r"^### holdfast (.*)$", TEXT, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_a_section_says_what_the_help_says(path: str) -> None:
    command, text = COMMANDS[path], section(path)
    assert (command.help or "").splitlines()[0] in text
    options = [param for param in command.params if isinstance(param, click.Option)]
    for option in options:
        for name in option.opts + option.secondary_opts:
            assert re.search(
                rf"^\| `[^`]*{re.escape(name)}\b[^`]*` \| {re.escape(option.help or '')} \|$", text, re.M
            ), name
    named = set(re.findall(r"--[a-z][a-z-]*", " ".join(re.findall(r"^\| `([^`]*)`", text, re.M))))
    assert named == {name for option in options for name in option.opts + option.secondary_opts}


@pytest.mark.parametrize("path", COMMANDS)
def test_a_section_has_a_real_example(path: str) -> None:
    assert f"$ holdfast {path}" in section(path)


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_can_be_typed(line: str) -> None:
    words = shlex.split(line.partition(" > ")[0])
    path = max((path for path in COMMANDS if words[: len(path.split())] == path.split()), key=len)
    COMMANDS[path].make_context(path, words[len(path.split()) :])


def test_every_exit_code_is_explained() -> None:
    assert re.findall(r"^\| (\d) \|", TEXT, re.MULTILINE) == [str(code) for code in range(UNREACHABLE + 1)]
