"""`holdfast emit`: append an event through the daemon, or through the spool if no daemon answers."""

from __future__ import annotations

import math
import os
import re
import sys
import time

import click

from holdfast.domain.canonical import BYTES_MAX, parse_json
from holdfast.domain.errors import BadConfig, HoldfastError
from holdfast.domain.event import SOURCE_DEFAULT, NewEvent, new_event
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.json_value import KnownJson
from holdfast.home import Home, find_home
from holdfast.surfaces.cli.client import Client, Unreachable, find_address, find_token
from holdfast.surfaces.cli.options import Command, json_option, split_pairs
from holdfast.surfaces.cli.output import echo, echo_json, visible, warn

ANSWER_S = 10.0
INTEGER_MAX = 2**53  # many JSON parsers round larger integers

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


@click.command(cls=Command)
@click.argument("type")
@click.option("--source", default=SOURCE_DEFAULT, show_default=True, help="Source of the event.")
@click.option("--stream", help="Stream to append to. Default: a stream of its own.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE",
    help='Property that contracts can match; true, false and numbers are typed, "5" is text. Repeatable.',
)  # fmt: skip
@click.option("--payload", metavar="JSON|-", help="Payload as JSON; - reads it from standard input.")
@click.option("--dedup", metavar="KEY", help="Deduplication key: an earlier event with this key is returned instead.")
@click.option("--to", metavar="ADDRESS", help="Also deliver to this address: https://…, handler:… or session:…")
@click.option("--timestamp", metavar="TIME", help="Time of the event, such as 2026-01-31T12:00:00Z. Default: now.")
@json_option
def emit(
    type: str, source: str, stream: str | None, properties: tuple[str, ...], payload: str | None, dedup: str | None,
    to: str | None, timestamp: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Append an event.

    When the command returns, the event is stored. If no daemon answers, it is stored in the spool and imported when
    one starts.
    """
    id = make_id("evt", time.time_ns() // 1_000_000, os.urandom(ENTROPY_BYTES))
    body: KnownJson = {
        "type": type,
        "source": source,
        "stream": stream,
        "timestamp": timestamp,
        "properties": typed_properties(properties),
        "payload": None if payload is None else _read_payload(payload),
        # A key is always sent: if the daemon dies before it answers, the spooled copy is recognized as the same event.
        "dedup_key": id if dedup is None else dedup,
        "to": to,
    }
    event = new_event(**body, id=id)
    answer = _append(body, event, id)
    if as_json:
        echo_json(answer)
    else:
        echo(visible(_describe(answer)))


def _append(body: KnownJson, event: NewEvent, id: str) -> KnownJson:
    """Append through the daemon or the spool. The warning is printed only after the event is stored."""
    home = find_home()
    address = find_address(home)
    if address is None:
        why = f"no daemon runs in {home.root}"
    else:
        try:
            answer: KnownJson = Client(address, find_token(home), ANSWER_S).post("/api/events", body)
        except Unreachable as error:
            why = error.message
        else:
            return answer
    spool_event(home, event, id, why)
    warn(f"{why}. The event is stored in {home.spool} until a daemon starts: holdfast up")
    return {"id": id, "spooled": True}


def _describe(answer: KnownJson) -> str:
    """The success line.

    >>> _describe({"id": "evt_1", "stream": "order:42", "seq": 3, "duplicate": False})
    'evt_1 accepted as number 3 of order:42'
    """
    if answer.get("spooled"):
        return f"{answer['id']} spooled"
    text = f"{answer['id']} {'was already accepted' if answer['duplicate'] else 'accepted'}"
    own = answer["stream"] == answer["id"]  # an event without a stream is its own stream
    return text if own else f"{text} as number {answer['seq']} of {answer['stream']}"


def typed_properties(pairs: tuple[str, ...]) -> KnownJson:
    """Convert values that are JSON numbers or booleans.

    >>> typed_properties(("n=5", "ok=true", "zip=00501", 'text="5"'))
    {'n': 5, 'ok': True, 'zip': '00501', 'text': '5'}
    """
    typed: KnownJson = {}
    for name, value in split_pairs(pairs, "--property"):
        if name in typed:
            raise click.UsageError(f"--property {name} can be given only once")
        typed[name] = _typed(value)
    return typed


def _typed(text: str) -> KnownJson:
    if text in ("true", "false"):
        return text == "true"
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return parse_json(os.fsencode(text), "--property")
    if not _NUMBER.fullmatch(text) or len(text) > 300:
        return text
    number = int(text) if text.lstrip("-").isdigit() else float(text)
    return number if math.isfinite(number) and abs(number) <= INTEGER_MAX else text


def _read_payload(text: str) -> KnownJson:
    raw = sys.stdin.buffer.read(BYTES_MAX + 1) if text == "-" else os.fsencode(text)
    return parse_json(raw, "--payload")


def spool_event(home: Home, event: NewEvent, id: str, why: str, what: str = "event") -> None:
    """Store an event in the spool, because of `why` no daemon took it."""
    from holdfast.ingress.spool import notify_daemon, write_event

    try:
        home.make()
        write_event(home.spool, event, id)
    except BadConfig as error:
        raise BadConfig(f"the {what} was not accepted: {why}, and the spool cannot be used: {error.message}") from None
    except OSError as error:
        raise HoldfastError(
            f"the {what} was not accepted: {why}, and {home.spool} is not writable ({error.strerror})"
        ) from None
    notify_daemon(home.socket)
