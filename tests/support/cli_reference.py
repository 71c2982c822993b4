"""Writes the parts of docs/reference/cli.md that the code knows: headings, help texts and tables of options.

    python tests/support/cli_reference.py

Examples and further sentences are kept as they are; a new command gets a section without an example, which
`test_cli_docs.py` then asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.__main__ import COMMANDS, holdfast

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
_TABLE = re.compile(r"^\| option \| \|\n\|---\|---\|\n(?:\|.*\n)*", re.MULTILINE)
_HELP = re.compile(r"\A\n(?:`holdfast [^`\n]*`\n\n)?.*?(?=\n\n|\Z)", re.DOTALL)


def leaves(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that can be run, by its path."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{prefix}{name} ")
        if not isinstance(command, click.Group) or command.params:
            yield f"{prefix}{name}", command


def page(text: str) -> str:
    """The page with the facts of the code in it."""
    head = text[: text.index("\n## ") + 1]
    old = dict(re.findall(r"^### holdfast (.*)\n((?:(?!^##).*\n)*)", text, re.MULTILINE))
    sections: dict[str, list[str]] = {}
    for path, command in leaves(holdfast):
        section = sections.setdefault(COMMANDS[path.split()[0]].section, [])
        section.append(f"### holdfast {path}\n{_body(path, command, old.get(path, '')).rstrip()}\n")
    return head + "\n".join(f"## {title}\n\n" + "\n".join(parts) for title, parts in sections.items())


def _body(path: str, command: click.Command, old: str) -> str:
    usage = "".join(f" {param.make_metavar(click.Context(command))}" for param in _arguments(command))
    first = (command.help or "").splitlines()[0]
    said = (f"`holdfast {path} [OPTIONS]{usage}`\n\n" if usage else "") + first
    table = _table(command)
    if not old:
        return f"\n{said}\n\n{table}"
    if not all(part in old for part in said.split("\n\n")):
        old = _HELP.sub(lambda _: f"\n{said}", old, count=1)
    return _TABLE.sub(lambda _: table, old, count=1)


def _arguments(command: click.Command) -> list[click.Parameter]:
    return [param for param in command.params if isinstance(param, click.Argument)]


def _table(command: click.Command) -> str:
    options = [param for param in command.params if isinstance(param, click.Option)]
    rows = [f"| `{_names(option, command)}` | {option.help} |\n" for option in options]
    return "| option | |\n|---|---|\n" + "".join(rows)


def _names(option: click.Option, command: click.Command) -> str:
    names = ", ".join(option.opts + option.secondary_opts)
    metavar = "" if option.is_flag else " " + option.make_metavar(click.Context(command)).replace("|", "\\|")
    return names + metavar


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
