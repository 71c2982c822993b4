"""The command itself: help, loading, exit codes, what is printed and what never is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from daemon import clean_env, run_cli
from holdfast import __version__
from holdfast.__main__ import COMMANDS, holdfast
from holdfast.domain.errors import HoldfastError
from holdfast.surfaces.cli.options import Command
from holdfast.surfaces.cli.output import cell, show, visible

HEAVY = ("fastapi", "starlette", "uvicorn", "aiohttp", "apsw", "yaml", "asyncio", "sqlite3")


def test_help_lists_every_command_with_one_line(tmp_path: Path) -> None:
    said = run_cli(tmp_path, "--help")
    assert said.code == 0
    for name, entry in COMMANDS.items():
        assert any(line.split() == [name, *entry.help.split()] for line in said.out.splitlines()), name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_the_table_is_the_commands_own(name: str) -> None:
    command = holdfast.get_command(click.Context(holdfast), name)
    assert command is not None
    assert (command.help or "").splitlines()[0] == COMMANDS[name].help


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["contracts", "add", "--url", "https://a.example", "--url", "https://b.example"],
            "--url can be given only once",
        ),
        (["emit", "a.b", "--stream=a", "--stream", "a"], "--stream can be given only once"),
        (["token", "create", "ci", "--scope", "read", "--scope", "admin"], "--scope can be given only once"),
        (["contracts", "test", "--ordered", "--unordered"], "--ordered/--unordered can be given only once"),
        (["prove", "--quick", "--full"], "--quick and --full cannot be combined"),
    ],
)
def test_a_second_value_for_a_single_value_option_is_a_usage_error(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    said = run_cli(tmp_path, *arguments)
    assert (said.code, message in said.err) == (2, True), said.err


def test_repeatable_options_and_flags_may_be_repeated(tmp_path: Path) -> None:
    said = run_cli(tmp_path, "emit", "a.b", "--property", "a=1", "--property", "b=2", "--json", "--json")
    assert said.code == 0, said.err


def test_every_command_refuses_second_values() -> None:
    """`hook` is the exception: it passes its arguments on unparsed."""
    assert [path for path, command in leaves(holdfast) if not isinstance(command, Command)] == ["hook"]


def leaves(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


@pytest.mark.parametrize("arguments", [["--help"], ["emit", "hello.world"], ["status"], ["hooks", "status"]])
def test_nothing_heavy_is_loaded_for_a_light_command(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom holdfast.__main__ import run\nrun(sys.argv[1:])\n"
        f"sys.stderr.write('LOADED ' + ' '.join(n for n in {HEAVY!r} if n in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=clean_env(tmp_path), capture_output=True, text=True, timeout=30
    )
    assert done.stderr.rpartition("LOADED")[2].strip() == ""


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run_cli(tmp_path, "--version").out == f"holdfast {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [(["evnts"], "did you mean events?"), (["dlq", "reproces"], "did you mean reprocess?"), (["zzz"], "--help")],
)
def test_an_unknown_command_names_the_near_one(arguments: list[str], hint: str, tmp_path: Path) -> None:
    said = run_cli(tmp_path, *arguments)
    assert said.code == 2
    assert hint in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["emit"],
        ["emit", "no spaces allowed"],
        ["emit", "a.b", "--payload", "{"],
        ["emit", "a.b", "--property", "novalue"],
        ["emit", "a.b", "--property", "n=1", "--property", "n=2"],
        ["emit", "a.b", "--to", "nowhere"],
        ["dlq", "discard"],
        ["dlq", "discard", "7", "--all"],
        ["dlq", "discard", "seven"],
        ["pause"],
        ["pause", "--contract", "a", "--lane", "b"],
        ["contracts", "add", "--id", "x"],
        ["contracts", "add", "--id", "x", "--url", "https://a.example", "--handler", "h"],
        ["contracts", "add", "--id", "x", "--url", "https://a.example", "--secret-env", "NOT_SET_ANYWHERE"],
        ["contracts", "add", "--id", "x", "--handler", "h", "--property", "a=b*", "--property", "a=c"],
        ["events", "list", "--limit", "0"],
        ["up", "--port", "70000"],
        ["token", "create", "bob", "--scope", "king"],
    ],
)
def test_wrong_use_is_2_and_changes_nothing(arguments: list[str], tmp_path: Path) -> None:
    said = run_cli(tmp_path / "home", *arguments)
    assert (said.code, said.out) == (2, ""), said
    assert said.err
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("arguments", [["status"], ["events", "list"], ["dlq", "count", "--json"], ["prune"]])
def test_without_a_daemon_it_is_4_and_says_how_to_start_one(arguments: list[str], tmp_path: Path) -> None:
    said = run_cli(tmp_path, *arguments, env={"HOLDFAST_URL": "http://127.0.0.1:1"})
    assert (said.code, said.out) == (4, "")
    assert said.err.startswith("holdfast: no daemon answers at http://127.0.0.1:1")
    assert "holdfast up" in said.err


@pytest.mark.parametrize("url", ["127.0.0.1:4653", "ftp://a.example", "http://", "http://u:p@a.example", "http://["])
def test_an_address_that_is_none_is_said(url: str, tmp_path: Path) -> None:
    said = run_cli(tmp_path, "status", env={"HOLDFAST_URL": url})
    assert said.code == 1
    assert "HOLDFAST_URL" in said.err


def test_a_token_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_secret\n")
    (tmp_path / "token").chmod(0o644)
    said = run_cli(tmp_path, "status")
    assert said.code == 1
    assert f"chmod 600 {tmp_path / 'token'}" in said.err
    assert "hf_secret" not in said.out + said.err


def test_a_token_no_header_could_carry_is_refused_without_being_shown(tmp_path: Path) -> None:
    said = run_cli(tmp_path, "status", env={"HOLDFAST_TOKEN": "hf_sec\nret"})
    assert said.code == 1
    assert "HOLDFAST_TOKEN" in said.err
    assert "hf_sec" not in said.err


def test_an_argument_that_is_not_text_is_wrong_use(tmp_path: Path) -> None:
    wish = ["contracts", "add", "--id", "x", "--handler", "h"]
    commands = (
        ["events", "list", "--type"],
        ["events", "show"],
        ["emit"],
        [*wish, "--policy"],
        ["emit", "a", "--payload"],
    )
    for command in commands:
        said = run_cli(tmp_path, *command, os.fsdecode(b"\xff"))
        assert said.code == 2, said
        assert "Traceback" not in said.err


def test_control_characters_are_shown_as_escapes() -> None:
    assert visible("a\x1b]0;t\x07\r\n\x9b\u202e b") == "a\\x1b]0;t\\x07\\r\\n\\x9b\\u202e b"
    assert cell({"k": "\x1b[2J", "back": "\\u001b"}) == '{"k": "\\x1b[2J", "back": "\\\\u001b"}'


def test_an_answer_of_another_version_is_named_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HoldfastError, match="the answer has no 'receipts'; the daemon is of another version"):
        show({}, False, lambda answer: answer["receipts"])
    show({}, True, lambda answer: answer["receipts"])
    assert capsys.readouterr().out == "{}\n"


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "db", "print"],
            stdout=gone, stderr=subprocess.PIPE, env=clean_env(tmp_path), text=True, timeout=30,
        )  # fmt: skip
    assert "Traceback" not in done.stderr


def test_json_stays_json_where_the_terminal_knows_ascii_only(tmp_path: Path) -> None:
    said = run_cli(tmp_path, "emit", "a.b", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert json.loads(said.out)["spooled"] is True
