"""Lists and status as people see them, in a real terminal (tmux) of two sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli_reference import leaves
from daemon import Daemon, shop
from holdfast.__main__ import holdfast
from holdfast.surfaces.cli.text_width import text_width
from hooks import claude, write_hook
from screen import Screen

SIZES = ((80, 24), (120, 40))
URL = "http://127.0.0.1:9/a/long/path/that/does/not/fit/into/a/narrow/terminal/at/all"
LISTS = {
    "events list": "", "deliveries list": "", "dlq list": "", "sessions list": "", "sessions": "", "streams list": "",
    "streams readers": "", "streams events": "order:1", "contracts list": "--inactive", "contracts properties": "",
    "receipts list": "", "receipts heads": "", "receipts appended": "", "token list": "", "fleet": "",
    "archive list": "", "dlq count": "", "hooks status": "",
}  # fmt: skip
"""Commands that print a table, each with the arguments it needs."""
OTHERS = {
    "status": "", "dlq inspect": "", "contracts show": "conf", "events show": "EVENT", "explain": "EVENT",
    "deliveries show": "DELIVERY", "sessions show": "SESSION", "streams show": "order:1",
    "contracts test": "--type 'bad.*'", "receipts verify": "", "doctor": "", "config show": "",
}  # fmt: skip
"""Commands that print something else to read."""
CONFIG = """
egress: {allow: [127.0.0.0/8]}
hooks:
  subscriptions:
    - {id: conf, contract: {type: agent.agent_stop}, target: {url: "https://example.com/notify"}}
fleet:
  - {name: another-component, url: "http://127.0.0.1:9", token_env: HOME}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with shop(tmp_path_factory.mktemp("shop"), config=CONFIG) as daemon:
        contract = {"id": "a-contract-with-a-long-name", "target": {"url": URL}, "attempts": 1}
        contract |= {"type_criterion": {"match": ["bad.order", "order.of.a.long.type"]}, "properties": {"a": "b"}}
        ok(daemon, "/hooks/contracts", contract)
        ok(daemon, "/hooks/contracts", {"id": "unserved", "target": {"handler": "nope"}})
        for number in range(30):
            payload = {"n": number, "text": "tea ☕ お茶 and more words, so that it is long"}
            event = {"type": "order.of.a.long.type", "stream": f"order:{number % 4}", "source": "till"}
            ok(daemon, "/api/events", {**event, "payload": payload, "properties": {"a": "b"}})
        for _ in range(3):
            ok(daemon, "/api/events", {"type": "bad.order", "payload": {"n": [1, 2], "token": "x"}})
        ok(daemon, "/hooks/contracts", {"id": "off", "target": {"handler": "ship"}})
        ok(daemon, "/hooks/contracts/off/disable", {})
        for number, native in enumerate(("3f6c0a44-aaaa-bbbb-cccc-1234567890ab", "short")):
            for event in ("SessionStart", "UserPromptSubmit", "Stop"):
                about = {
                    "prompt": "修复 the flaky test",
                    "last_assistant_message": "Done: three files changed, all pass.",
                }
                hook = claude(event, native, cwd="/home/you/projects/backend", **about)
                write_hook(daemon.home / "spool", 10 * number + len(event), "claude", hook)
        daemon.wait_for("/api/sessions", lambda page: len([i for i in page["items"] if i["state"] == "idle"]) == 2)
        daemon.wait_for("/api/dlq/count", lambda answer: len(answer["by_queue"]) == 2)
        assert daemon.cli("token", "create", "a-token-of-a-machine", "--scope", "read,append").code == 0
        receipt = {"source_system": "crm", "source_table": "people", "source_id": "42", "action_type": "person.changed"}
        ok(daemon, "/api/substrate/receipts", receipt)
        yield daemon


def ok(daemon: Daemon, path: str, body: object) -> None:
    status, answer = daemon.request("POST", path, body)
    assert status in (200, 201), answer


@pytest.fixture(scope="module", params=SIZES, ids=str)
def screen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, daemon: Daemon
) -> Iterator[Screen]:
    screen = Screen(tmp_path_factory.mktemp("tmux"), daemon.home, *request.param)
    yield screen
    screen.close()


def no_line_is_wrapped(screen: Screen) -> None:
    """As the terminal knows it. A URL is not divided, so that it can be copied."""
    width = int(screen._call("display-message", "-p", "#{pane_width}"))
    whole = screen._call("capture-pane", "-p", "-J", "-S", "-").splitlines()
    assert [line for line in whole if text_width(line.rstrip()) > width and URL not in line] == []


def test_every_command_that_lists_is_here() -> None:
    listing = {path for path, _ in leaves(holdfast) if path.split()[-1] in ("list", "heads", "readers", "properties")}
    assert listing <= LISTS.keys()


@pytest.mark.parametrize("command", LISTS)
def test_a_list_fits_the_terminal(screen: Screen, command: str) -> None:
    lines = screen.run(f"{command} {LISTS[command]}")
    no_line_is_wrapped(screen)
    items = [line for line in lines if line.strip()]
    assert items, "nothing was printed"
    assert not any(re.search(r"[{}\[\]]", line) for line in items), f"raw JSON: {items}"
    if command == "dlq count":
        items = items[1:]
    if len(items) == 1:
        assert items == ["none"]
        return
    assert not any("…" in word for word in items[0].split()), f"a heading is cut: {items[0]}"
    starts = [match.start() for match in re.finditer(r"(?<=  )\S|^\S", items[0])]
    rows = [line for line in items[1:] if not line.startswith(("(", "! ", "this: ", "another-component: "))]
    for row in rows[: None if command != "hooks status" else 7]:
        for start in starts[1:]:
            before = cut_to(row, start)
            assert before == "" or before.endswith(" "), f"column at {start} is not aligned: {row!r} under {items[0]!r}"


def cut_to(text: str, width: int) -> str:
    """The part of a line left of a terminal column."""
    while text_width(text) > width:
        text = text[:-1]
    return text


@pytest.mark.parametrize("command", OTHERS)
def test_what_is_read_fits_the_terminal(screen: Screen, daemon: Daemon, command: str) -> None:
    letter = daemon.cli("dlq", "list", "--contract", "refuse", "--json").json["items"][0]
    session = daemon.cli("sessions", "--json").json["items"][0]
    arguments = {"EVENT": letter["event_id"], "DELIVERY": str(letter["id"]), "SESSION": session["id"]}
    lines = screen.run(f"{command} {arguments.get(OTHERS[command], OTHERS[command])}")
    if command != "doctor":  # a command in a remedy is not divided, so that it can be copied
        no_line_is_wrapped(screen)
    assert len([line for line in lines if line.strip()]) >= 1
    if command not in ("dlq inspect", "events show", "config show"):  # they show payloads and YAML
        assert not any(re.search(r"[{}\[\]]", line) for line in lines), lines


def test_status_is_one_screen_with_what_needs_attention(screen: Screen) -> None:
    lines = screen.run("status")
    assert len(lines) <= 22
    text = "\n".join(lines)
    assert "is healthy" in text
    for word in ("exhausted", "rejected", "idle", "Disabled contracts: off", "unserved is misconfigured", "dlq list"):
        assert word in text, word


def test_ids_that_commands_take_are_whole(screen: Screen) -> None:
    assert any("claude-3f6c0a44-aaaa-bbbb-cccc-1234567890ab" in line for line in screen.run("sessions"))
    assert any("a-contract-with-a-long-name" in line for line in screen.run("contracts list"))


def test_times_are_relative_and_event_ids_short(screen: Screen) -> None:
    lines = screen.run("events list --type order.of.a.long.type")
    assert any("ago" in line for line in lines)
    (id,) = {match[0] for line in lines[1:2] if (match := re.match(r"evt_[0-9a-f]+", line))}
    assert len(id) == 17
    assert any("order.of.a.long.type" in line for line in screen.run(f"events show {id}"))


def test_states_have_colors_unless_they_are_unwanted(screen: Screen) -> None:
    assert any("\x1b[31m" in line for line in screen.run("deliveries list --state dead", colors=True))
    screen._call("send-keys", "-l", "export NO_COLOR=1")
    screen.press("Enter")
    assert not any("\x1b[31m" in line for line in screen.run("deliveries list --state dead", colors=True))
    screen._call("send-keys", "-l", "unset NO_COLOR")
    screen.press("Enter")


def test_a_pipe_gets_full_ids_times_and_no_colors(daemon: Daemon) -> None:
    said = daemon.cli("deliveries", "list").out
    assert "\x1b" not in said
    assert re.search(r"evt_[0-9a-f]{32}", daemon.cli("events", "list", "--source", "till").out)


def test_the_beginning_of_an_id_that_several_events_share_is_refused(daemon: Daemon) -> None:
    id = daemon.cli("events", "list", "--source", "till", "--json").json["items"][0]["id"]
    assert daemon.cli("events", "show", id[:10]).code in (1, 3)
    assert daemon.cli("events", "show", id[:6]).code == 3
    assert daemon.cli("explain", id[:24]).code == 0


def test_every_help_text_fits_80_columns(tmp_path: Path) -> None:
    for path, command in leaves(holdfast):
        context = click.Context(command, info_name=f"holdfast {path}", max_content_width=80, terminal_width=80)
        assert all(len(line) <= 80 for line in command.get_help(context).splitlines()), path
