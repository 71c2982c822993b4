"""`holdfast send`: a message for an agent session, through the daemon, or through the spool if no daemon answers."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from holdfast.domain.errors import BadInput, HoldfastError
from holdfast.domain.event import new_event
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.json_value import JsonObject, without_none
from holdfast.domain.message import MESSAGE_TYPES, QUEUED, SOURCE
from holdfast.home import find_home
from holdfast.surfaces.cli.client import Client, Unreachable, find_address, find_token, part
from holdfast.surfaces.cli.emit import spool_event
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import echo, echo_json, visible, warn

ANSWER_S = 10.0
LOOK_S = 0.1
TIMEOUT_S = 600.0
TEXT_BYTES_MAX = 256 * 1024
FILE_BYTES_MAX = 10 * 1024 * 1024
FINAL = {"accepted": 0, "unconfirmed": 1, "dead": 1, "expired": 1, "cancelled": 1}
"""Statuses that do not change any more, each with the exit code of `--wait`."""


@click.command(cls=Command)
@click.argument("session")
@click.argument("text")
@click.option("--origin", default="cli", show_default=True, help="Kind of sender, such as telegram.")
@click.option("--channel", help="Id of the chat it comes from. Session auto is the one bound to this chat.")
@click.option("--message-id", help="Id of the message at its origin; the same id again is not sent again.")
@click.option("--type", "message_type", type=click.Choice(MESSAGE_TYPES), default="text", show_default=True,
              help="Kind of message.")  # fmt: skip
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path),
              help="Send this file with the message; needs a daemon. Its type is file or voice.")  # fmt: skip
@click.option("--command", is_flag=True, help="Let the agent CLI read the text as a command, such as /compact.")
@click.option("--wait", is_flag=True, help="Print each step, and return when the agent has accepted the message.")
@click.option("--timeout", type=click.FloatRange(0.1, 86400), default=TIMEOUT_S, show_default=True, metavar="SECONDS",
              help="How long --wait waits.")  # fmt: skip
@json_option
def send(
    session: str, text: str, origin: str, channel: str | None, message_id: str | None, message_type: str,
    file: Path | None, command: bool, wait: bool, timeout: float, as_json: bool,
) -> int:  # fmt: skip
    """Send a message to an agent session.

    TEXT - reads it from standard input. SESSION is an id, a name, a bound chat such as telegram:42, or a repository
    such as acme/shop@main. The message is stored when the command returns, and waits until the agent can take it. If no
    daemon answers, it is stored in the spool and imported when one starts.
    """
    body: JsonObject = {
        "session": session,
        "content": _content(text),
        "message_type": message_type,
        "origin": origin,
        "source_channel_id": channel,
        "source_message_id": message_id,
        "command": command or None,
    }
    home = find_home()
    address = find_address(home)
    why = f"no daemon runs in {home.root}"
    client = None if address is None else Client(address, find_token(home), ANSWER_S)
    id = make_id("evt", time.time_ns() // 1_000_000, os.urandom(ENTROPY_BYTES))
    if file is not None:
        if client is None:
            raise Unreachable(f"{why}, and a file needs one; start it with: holdfast up")
        stored = client.put("/api/blobs", _read_file(file))
        kind = message_type if message_type != "text" else "file"
        body |= {"message_type": kind, "payload": {"sha256": stored["sha256"], "name": file.name}}
    if client is not None:
        # An id is always sent: if the daemon dies before it answers, the spooled copy is recognized as the same.
        try:
            answer: JsonObject = client.post("/api/messages", {**body, "source_message_id": message_id or id})
        except Unreachable as error:
            why = error.message
        else:
            return _follow(client, answer, as_json, timeout) if wait else _show(answer, as_json)
    payload = without_none({**body, "session": None, "source_message_id": message_id or id, "sent_by": "local:spool"})
    event = new_event(QUEUED, payload, source=SOURCE, to=f"session:{session}")
    spool_event(home, event, id, why, "message")
    warn(f"{why}. The message is stored in {home.spool} until a daemon starts: holdfast up")
    return _show({"id": id, "spooled": True}, as_json)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise BadInput(f"{path} is larger than {FILE_BYTES_MAX:,} bytes, the limit for a file")
    return data


def _content(text: str) -> str:
    if text != "-":
        return text
    raw = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
    if len(raw) > TEXT_BYTES_MAX:
        raise BadInput(f"standard input holds more than {TEXT_BYTES_MAX:,} bytes; a message is at most 64 KiB")
    return raw.decode("utf-8", "replace")


def _show(answer: JsonObject, as_json: bool) -> int:
    if as_json:
        echo_json(answer)
    elif answer.get("spooled"):
        echo(f"{answer['id']} spooled")
    else:
        before = " (it was sent before)" if answer["duplicate"] else ""
        echo(visible(f"{answer['id']} {answer['status']} for {answer['session']}{before}"))
    return 0


def _follow(client: Client, answer: JsonObject, as_json: bool, timeout_s: float) -> int:
    """Print each status once until the last one. The exit code says whether the agent accepted the message."""
    if not as_json:
        _show(answer, as_json=False)
    ends, shown = time.monotonic() + timeout_s, answer["status"]
    while True:
        message = client.get(f"/api/messages/{part(answer['id'])}")
        status = message["status"]
        if status != shown and not as_json:
            why = message["reason"] or message["last_error"]
            echo(visible(f"{answer['id']} {status}" + (f": {why}" if why and status != "accepted" else "")))
        shown = status
        if status in FINAL:
            if as_json:
                echo_json(message)
            return FINAL[status]
        if time.monotonic() > ends:
            raise HoldfastError(
                f"message {answer['id']} is still {status} after {timeout_s:g} s; it stays queued. Cancel it with: "
                f"holdfast deliveries cancel"
            )
        time.sleep(LOOK_S)
