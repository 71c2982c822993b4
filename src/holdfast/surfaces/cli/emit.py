"""`holdfast emit`: append an event, through the daemon or, where none answers, through the spool."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from typing import Any

import click

from holdfast.domain.canonical import BYTES_MAX, parse_json
from holdfast.domain.errors import BadConfig, HoldfastError
from holdfast.domain.event import SOURCE_DEFAULT, NewEvent, new_event
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.home import Home, find_home
from holdfast.ingress.accept import check_direct_address
from holdfast.surfaces.cli.client import Client, Unreachable, find_address, find_token
from holdfast.surfaces.cli.options import json_option, split_pairs
from holdfast.surfaces.cli.output import say, say_json, visible, warn

ANSWER_S = 10.0
INTEGER_MAX = 2**53  # beyond it, readers of JSON begin to round

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


@click.command()
@click.argument("type")
@click.option("--source", default=SOURCE_DEFAULT, show_default=True, help="Who says so.")
@click.option("--stream", help="The line it stands in; without one it stands alone.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE",
    help='What contracts can ask for; true, false and numbers are taken as such, "5" is text. Repeat for more.',
)  # fmt: skip
@click.option("--payload", metavar="JSON|-", help="The payload; - reads it from standard input.")
@click.option("--dedup", metavar="KEY", help="The same key again answers the first event.")
@click.option("--to", metavar="ADDRESS", help="Deliver it to this address too: https://… or handler:….")
@click.option("--timestamp", metavar="TIME", help="When it happened, such as 2026-01-31T12:00:00Z; now if left out.")
@json_option
def emit(
    type: str, source: str, stream: str | None, properties: tuple[str, ...], payload: str | None, dedup: str | None,
    to: str | None, timestamp: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Append an event.

    Accepted means stored. Where no daemon answers, the event is kept in the spool and imported when one starts.
    """
    id = make_id("evt", time.time_ns() // 1_000_000, os.urandom(ENTROPY_BYTES))
    body: dict[str, Any] = {
        "type": type,
        "source": source,
        "stream": stream,
        "timestamp": timestamp,
        "properties": typed_properties(properties),
        "payload": None if payload is None else _read_payload(payload),
        # The key is always sent: if the daemon dies before it answers, the spooled copy is known for the same event.
        "dedup_key": id if dedup is None else dedup,
        "to": to,
    }
    check_direct_address(to)
    event = new_event(**body, id=id)
    answer = _append(body, event, id)
    if as_json:
        say_json(answer)
    else:
        say(visible(_in_words(answer)))


def _append(body: dict[str, Any], event: NewEvent, id: str) -> dict[str, Any]:
    """Through the daemon, or through the spool. Where the event is, is said only once it is there."""
    home = find_home()
    address = find_address(home)
    if address is None:  # a daemon of this home would have said where it is
        why = f"no daemon runs in {home.root}"
    else:
        try:
            answer: dict[str, Any] = Client(address, find_token(home), ANSWER_S).post("/api/events", body)
        except Unreachable as error:
            why = error.message
        else:
            return answer
    _spool(home, event, id, why)
    warn(f"{why}. The event is kept in {home.spool} until one starts: holdfast up")
    return {"id": id, "spooled": True}


def _in_words(answer: dict[str, Any]) -> str:
    """
    >>> _in_words({"id": "evt_1", "stream": "order:42", "seq": 3, "duplicate": False})
    'evt_1 accepted as number 3 of order:42'
    """
    if answer.get("spooled"):
        return f"{answer['id']} spooled"
    said = f"{answer['id']} {'was accepted before' if answer['duplicate'] else 'accepted'}"
    own = answer["stream"] == answer["id"]  # an event without a stream is a stream by itself
    return said if own else f"{said} as number {answer['seq']} of {answer['stream']}"


def typed_properties(pairs: tuple[str, ...]) -> dict[str, Any]:
    """
    >>> typed_properties(("n=5", "ok=true", "zip=00501", 'text="5"'))
    {'n': 5, 'ok': True, 'zip': '00501', 'text': '5'}
    """
    found: dict[str, Any] = {}
    for name, value in split_pairs(pairs, "--property"):
        if name in found:
            raise click.UsageError(f"--property {name} is given twice")
        found[name] = _typed(value)
    return found


def _typed(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return parse_json(os.fsencode(text), "--property")
    if not _NUMBER.fullmatch(text) or len(text) > 300:
        return text
    number = int(text) if text.lstrip("-").isdigit() else float(text)
    return number if math.isfinite(number) and abs(number) <= INTEGER_MAX else text


def _read_payload(text: str) -> Any:
    raw = sys.stdin.buffer.read(BYTES_MAX + 1) if text == "-" else os.fsencode(text)
    return parse_json(raw, "--payload")


def _spool(home: Home, event: NewEvent, id: str, why: str) -> None:
    from holdfast.ingress.spool import notify_daemon, write_event

    try:
        home.make()
        write_event(home.spool, event, id)
    except BadConfig as error:
        raise BadConfig(f"the event was not accepted: {why}, and its spool cannot be used: {error.message}") from None
    except OSError as error:
        raise HoldfastError(
            f"the event was not accepted: {why}, and {home.spool} cannot be written ({error.strerror})"
        ) from None
    notify_daemon(home.socket)
