"""Decodes a spool record of kind `hook` into an event with our type and fields and the raw payload."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial

from holdfast.agents.hooks.hook import EVENT_TYPES, SOURCE, UNKNOWN, session_id_of
from holdfast.agents.hooks.hook_format import RAW, Meaning
from holdfast.agents.hooks.payload import clean, clean_text, read_payload
from holdfast.agents.registry import hook_format
from holdfast.domain.agent_events import error_event
from holdfast.domain.errors import BadInput, BadJson, TooLarge
from holdfast.domain.event import NAME_MAX, NewEvent, iso_time, new_event
from holdfast.domain.json_value import Json, JsonObject, text_in, without_none
from holdfast.domain.lane import SESSIONS
from holdfast.domain.session import STREAM_PREFIX

INVALID_JSON = "HOOK_INVALID_JSON"
NOT_OBJECT = "HOOK_PAYLOAD_NOT_OBJECT"
RAW_MAX_BYTES = 4000
WORD_MAX = 200
TEXT_MAX = 100_000
SHORTEN_TO = (100_000, 10_000, 1_000, 100)
"""Maximum length of each text in the raw payload, tried in this order until the event fits."""

_NOT_IN_WORD = re.compile(r"[^A-Za-z0-9_.-]")
_TIME_MAX_MS = 200_000_000_000_000
_INJECTED = ("<task-notification", "<system-reminder")
"""Start of prompts that a CLI submits itself."""

_TEXTS = ("transcript", "prompt", "answer", "message", "tool_name", "error", "source", "reason", "title", "model")
_PROPERTIES = ("tool_name", "subagent_id", "subagent_type", "turn_id")


class HookDecoder:
    """The spool decoder for hooks. Events whose type is not in `allowed` are skipped. `host` is this machine."""

    kind = "hook"

    def __init__(self, allowed: Collection[str] = EVENT_TYPES, host: str | None = None) -> None:
        self._allowed, self._host = allowed, host

    def decode(self, header: Mapping[str, Json], body: bytes, *, late: bool) -> NewEvent | None:
        return decode_hook(header if self._host is None else {**header, "host": self._host}, body, late, self._allowed)

    def repeats(self, event: NewEvent) -> bool:
        """Some CLIs run two hooks for one event. Both carry the same key, but not the same fields."""
        return event.dedup_key is not None and (event.source, event.to) == (SOURCE, SESSIONS)


def decode_hook(
    header: Mapping[str, Json], body: bytes, late: bool = False, allowed: Collection[str] = EVENT_TYPES
) -> NewEvent | None:
    """The event of a record, or None if its type is not in `allowed`."""
    id = _event_id(header)
    agent = _word(header.get("agent"))
    try:
        payload, complete = read_payload(body, bool(header.get("truncated")))
    except BadInput:
        return _unreadable(header, id, agent, body, INVALID_JSON, "the hook's input is not JSON")
    if not isinstance(payload, dict):
        return _unreadable(header, id, agent, body, NOT_OBJECT, "the hook's input is JSON, but not an object")
    format = hook_format(agent)
    native_event = _word(format.event_name(payload, text_in(header, "event")))
    meaning, replaced = format.refine(native_event, format.events.get(native_event, RAW), payload)
    if meaning.event_type not in allowed:
        return None
    extracted = {**format.extract(payload), **replaced}
    return _build(header, id, agent, native_event, meaning, extracted, payload, complete=complete, late=late)


def _build(
    header: Mapping[str, Json], id: str, agent: str, native_event: str, meaning: Meaning, extracted: JsonObject,
    raw: JsonObject, *, complete: bool, late: bool,
) -> NewEvent:  # fmt: skip
    native_id = _one_line(extracted.get("native_id"), NAME_MAX) or UNKNOWN
    session_id = session_id_of(agent, native_id)
    names = {"agent": agent, "native_event": native_event, "event_type": meaning.event_type, "native_id": native_id}
    texts = {name: _text(extracted.get(name)) for name in _TEXTS}
    if meaning.event_type not in ("subagent_start", "subagent_stop") and not extracted.get("subagent_id"):
        extracted.pop("subagent_type", None)  # without an id it is the type of the session's own agent
    if meaning.event_type == "notification":
        texts["reason"] = meaning.reason or texts["reason"]
        texts["message"] = texts["message"] or (texts["tool_name"] and f"permission needed for {texts['tool_name']}")
    injected = extracted.get("injected") is True or _is_injected(meaning.event_type, texts["prompt"])
    properties = {name: _one_line(extracted.get(name), WORD_MAX) for name in _PROPERTIES}
    flags = {"ok": meaning.ok, "injected": injected or None, "spool_late": late or None}
    truncated = header.get("truncated")
    payload = {
        **names,
        "cwd": _text(extracted.get("cwd")) or _text(header.get("cwd")),
        "pane": _text(header.get("pane")),
        "tmux": _text(header.get("tmux")),
        "transcript": texts.pop("transcript"),
        **without_none({"tmux_server": _process_id(header.get("tmux_server")), "host": _text(header.get("host"))}),
        **without_none({**texts, "ok": meaning.ok, "background": extracted.get("background")}),
        **without_none({"truncated": truncated if isinstance(truncated, int) and not complete else None}),
    }
    make = partial(
        new_event,
        f"hook.{meaning.event_type}",
        source=SOURCE,
        stream=STREAM_PREFIX + session_id,
        timestamp=_time(header.get("received_at")),
        properties=without_none({**names, "session_id": session_id, **properties, **flags}),
        dedup_key=_key(extracted.get("dedup_key")),
        to=SESSIONS,
        id=id,
    )
    return _fit(make, payload, raw)


def _fit(make: Callable[..., NewEvent], payload: Mapping[str, object], raw: JsonObject) -> NewEvent:
    """The event with as much of the raw payload as an event may hold. `shortened` gives the limit that was applied."""
    try:
        return make(payload={**payload, "raw": raw})
    except (BadJson, TooLarge):
        pass
    for limit in SHORTEN_TO:
        try:
            return make(payload={**payload, "raw": clean(raw, limit), "shortened": limit})
        except TooLarge:
            continue
    short = {name: value if not isinstance(value, str) else value[:WORD_MAX] for name, value in payload.items()}
    return make(payload={**short, "raw": None, "shortened": 0})


def _unreadable(header: Mapping[str, Json], id: str, agent: str, body: bytes, code: str, message: str) -> NewEvent:
    """An error event with the first bytes of an input that is not a JSON object."""
    payload = {
        "agent": agent, "message": message, "native_event": _text(header.get("event")), "bytes": len(body),
        "raw": clean_text(body[:RAW_MAX_BYTES].decode("utf-8", "replace")), "cwd": _text(header.get("cwd")),
    }  # fmt: skip
    event = error_event(payload, error_source="hook", error_code=code, stream=f"agent:{agent}")
    return event._replace(id=id, timestamp=_time(header.get("received_at")))


def _event_id(header: Mapping[str, Json]) -> str:
    id = header.get("id")
    if not isinstance(id, str) or not id.startswith("evt_") or not id.isascii() or len(id) > 80:
        raise BadInput("the spool record carries no event id")
    return id


def _is_injected(event_type: str, prompt: str | None) -> bool:
    return event_type == "user_prompt_submit" and (prompt or "").lstrip().startswith(_INJECTED)


def _word(value: object) -> str:
    """A name that can be part of an id or a stream."""
    return _NOT_IN_WORD.sub("_", value)[:64].lstrip("._-") or UNKNOWN if isinstance(value, str) else UNKNOWN


def _text(value: object) -> str | None:
    """A text that can be stored. A value of another type becomes its JSON text."""
    if value is None or value == "" or isinstance(value, bool):
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clean_text(text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…")


def _one_line(value: object, limit: int) -> str | None:
    """A text for a property or a name: printable, on one line, at most `limit` characters."""
    text = _text(value)
    return None if text is None else "".join(c if c.isprintable() else "_" for c in text.strip())[:limit] or None


def _key(value: object) -> str | None:
    text = _one_line(value, 10_000)
    if text is None or len(text) <= NAME_MAX:
        return text
    return "hook:" + hashlib.sha256(text.encode()).hexdigest()


def _process_id(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31 else None


def _time(value: object) -> str | None:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return iso_time(value) if is_int and 0 <= value <= _TIME_MAX_MS else None  # type: ignore[operator, arg-type]
