"""Every `holdfast …` command named in a message, a help text, a doctor remedy or a page exists, with its options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.__main__ import holdfast

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".sql", ".yml"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("architecture/*.md")])

# Words that follow the name in a sentence and are not commands.
PROSE = {"running", "wrote", "migrate", "is", "and"}
NAMED = re.compile(r"(?<!from )(?<!import )(?<![\w./:'\"-])holdfast ((?:--)?[a-z][^\n`'\"<>]*)")
END = re.compile(r"[.,;:!?)\]]+$")


def unknown_part(text: str) -> str | None:
    """The first command or option that does not exist, or None. Placeholders and values are not checked."""
    command: click.Command = holdfast
    for word in text.partition(" #")[0].split():
        bare = END.sub("", word)
        if isinstance(command, click.Group):
            found = [command.get_command(click.Context(command), name) for name in bare.split("|")]
            if bare.startswith("-") or not all(found):
                is_prose = command is holdfast and bare in PROSE
                return None if is_prose or bare.startswith("-") else bare
            command = found[0] or command
        elif bare.startswith("--"):
            known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
            if bare.partition("=")[0] not in known:
                return bare
        if bare != word:
            break
    return None


def texts(path: Path) -> Iterator[str]:
    """The string literals of a module, with `VALUE` for each replacement field; the whole text of any other file."""
    if path.suffix != ".py":
        yield path.read_text(encoding="utf-8")
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src" / "holdfast")))
def test_a_command_that_the_code_names_exists(path: Path) -> None:
    named = {command for text in texts(path) for command in NAMED.findall(text)}
    assert {command: unknown_part(command) for command in named if unknown_part(command)} == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_that_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = {*re.findall(r"`holdfast ([a-z][^`\n]*)`", text), *re.findall(r"^\$ holdfast ([a-z].*)$", text, re.M)}
    assert {command: unknown_part(command) for command in named if unknown_part(command)} == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_line_in_a_page_is_accepted(path: Path) -> None:
    """Values included: an unknown choice or a superfluous argument is an error too."""
    for line in re.findall(r"^\$ holdfast ([a-z].*)$", path.read_text(encoding="utf-8"), re.M):
        words = shlex.split(re.split(r" [|>] | &(?: |$)| {2,}#", line)[0], comments=True)
        command, context = holdfast, click.Context(holdfast)
        while isinstance(command, click.Group) and not (command.invoke_without_command and _has_no_command(words)):
            command = command.get_command(context, words.pop(0))
        command.make_context("holdfast", words)


def _has_no_command(words: list[str]) -> bool:
    """Whether a group is called by itself, with its own options at most."""
    return not words or words[0].startswith("-")


def test_an_unknown_command_or_option_is_detected() -> None:
    assert unknown_part("dlq show") == "show"
    assert unknown_part("repair everything") == "repair"
    assert unknown_part("deliveries list --staet pending") == "--staet"
    assert unknown_part("hooks install|remove") == "install|remove"
    assert unknown_part("up, or have it run always") is None
    assert unknown_part("deliveries list --state pending") is None
