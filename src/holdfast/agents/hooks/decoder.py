"""From a spool record of kind `hook` to the raw event that is appended: every CLI's words in ours, nothing lost."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from holdfast.agents.hooks.adapter import RAW, Native
from holdfast.agents.hooks.adapters import adapter_for
from holdfast.agents.hooks.hook import EVENT_TYPES, SOURCE, UNKNOWN, session_id_of
from holdfast.agents.hooks.payload import clean, clean_text, read_payload
from holdfast.domain.agent_events import error_event
from holdfast.domain.errors import BadInput, BadJson, TooLarge
from holdfast.domain.event import NAME_MAX, NewEvent, iso_time, new_event
from holdfast.domain.json_value import without_none
from holdfast.domain.lane import SESSIONS
from holdfast.domain.session import STREAM_PREFIX

INVALID_JSON = "HOOK_INVALID_JSON"
NOT_OBJECT = "HOOK_PAYLOAD_NOT_OBJECT"
RAW_KEPT = 4000
WORD_MAX = 200
TEXT_MAX = 100_000
SHORTEN = (100_000, 10_000, 1_000, 100)

_OUTSIDE = re.compile(r"[^A-Za-z0-9_.-]")
_TIME_MAX_MS = 200_000_000_000_000
_INJECTED = ("<task-notification", "<system-reminder")
"""How prompts begin that a CLI puts in by itself."""

_TEXTS = ("transcript", "prompt", "answer", "message", "tool_name", "error", "source", "reason", "title", "model")
_MARKS = ("tool_name", "subagent_id", "subagent_type", "turn_id")


class HookDecoder:
    """The spool decoder for hooks. It keeps the event types on the list `allowed`."""

    kind = "hook"

    def __init__(self, allowed: Collection[str] = EVENT_TYPES) -> None:
        self._allowed = allowed

    def decode(self, header: Mapping[str, Any], body: bytes, *, late: bool) -> NewEvent | None:
        return decode_hook(header, body, late, self._allowed)

    def repeats(self, event: NewEvent) -> bool:
        """Some CLIs run two hooks for one event. Both carry the same key, but not the same fields."""
        return event.dedup_key is not None and (event.source, event.to) == (SOURCE, SESSIONS)


def decode_hook(
    header: Mapping[str, Any], body: bytes, late: bool = False, allowed: Collection[str] = EVENT_TYPES
) -> NewEvent | None:
    """The raw event of a record, or None if its type is not in `allowed`."""
    id = _event_id(header)
    agent = _word(header.get("agent"))
    try:
        payload, whole = read_payload(body, bool(header.get("truncated")))
    except BadInput:
        return _unreadable(header, id, agent, body, INVALID_JSON, "the hook's input is not JSON")
    if not isinstance(payload, Mapping):
        return _unreadable(header, id, agent, body, NOT_OBJECT, "the hook's input is JSON, but not an object")
    adapter = adapter_for(agent)
    native_event = _word(adapter.name_of(payload, header.get("event")))
    native, more = adapter.refine(native_event, adapter.events.get(native_event, RAW), payload)
    if native.event_type not in allowed:
        return None
    taken = {**adapter.take(payload), **more}
    return _build(header, id, agent, native_event, native, taken, payload, whole=whole, late=late)


def _build(
    header: Mapping[str, Any], id: str, agent: str, native_event: str, native: Native, taken: dict[str, Any],
    raw: Mapping[str, Any], *, whole: bool, late: bool,
) -> NewEvent:  # fmt: skip
    native_id = _plain(taken.get("native_id"), NAME_MAX) or UNKNOWN
    session_id = session_id_of(agent, native_id)
    named = {"agent": agent, "native_event": native_event, "event_type": native.event_type, "native_id": native_id}
    told = {name: _text(taken.get(name)) for name in _TEXTS}
    if native.event_type not in ("subagent_start", "subagent_stop") and not taken.get("subagent_id"):
        taken.pop("subagent_type", None)  # the session's own kind of agent, not one below it
    if native.event_type == "notification":
        told["reason"] = native.reason or told["reason"]
        told["message"] = told["message"] or (told["tool_name"] and f"permission needed for {told['tool_name']}")
    injected = taken.get("injected") is True or _is_injected(native.event_type, told["prompt"])
    marks = {name: _plain(taken.get(name), WORD_MAX) for name in _MARKS}
    flags = {"ok": native.ok, "injected": injected or None, "spool_late": late or None}
    truncated = header.get("truncated")
    payload = {
        **named,
        "cwd": _text(taken.get("cwd")) or _text(header.get("cwd")),
        "pane": _text(header.get("pane")),
        "tmux": _text(header.get("tmux")),
        "transcript": told.pop("transcript"),
        **without_none({**told, "ok": native.ok, "background": taken.get("background")}),
        **without_none({"truncated": truncated if isinstance(truncated, int) and not whole else None}),
    }
    fields = {
        "type": f"hook.{native.event_type}",
        "source": SOURCE,
        "stream": STREAM_PREFIX + session_id,
        "timestamp": _time(header.get("received_at")),
        "properties": without_none({**named, "session_id": session_id, **marks, **flags}),
        "dedup_key": _key(taken.get("dedup_key")),
        "to": SESSIONS,
        "id": id,
    }
    return _fit(fields, payload, raw)


def _fit(fields: Mapping[str, Any], payload: dict[str, Any], raw: Mapping[str, Any]) -> NewEvent:
    """The event with as much of the raw payload as there is room for; what is cut says so."""
    try:
        return new_event(payload={**payload, "raw": raw}, **fields)
    except (BadJson, TooLarge):
        pass
    for longest in SHORTEN:
        try:
            return new_event(payload={**payload, "raw": clean(raw, longest), "shortened": longest}, **fields)
        except TooLarge:
            continue
    short = {name: value if not isinstance(value, str) else value[:WORD_MAX] for name, value in payload.items()}
    return new_event(payload={**short, "raw": None, "shortened": 0}, **fields)


def _unreadable(header: Mapping[str, Any], id: str, agent: str, body: bytes, code: str, message: str) -> NewEvent:
    """What cannot be read is an error that everybody can see, with the bytes it came as."""
    payload = {
        "agent": agent, "message": message, "native_event": _text(header.get("event")), "bytes": len(body),
        "raw": clean_text(body[:RAW_KEPT].decode("utf-8", "replace")), "cwd": _text(header.get("cwd")),
    }  # fmt: skip
    event = error_event(payload, error_source="hook", error_code=code, stream=f"agent:{agent}")
    return event._replace(id=id, timestamp=_time(header.get("received_at")))


def _event_id(header: Mapping[str, Any]) -> str:
    id = header.get("id")
    if not isinstance(id, str) or not id.startswith("evt_") or not id.isascii() or len(id) > 80:
        raise BadInput("the spool record carries no event id")
    return id


def _is_injected(event_type: str, prompt: str | None) -> bool:
    return event_type == "user_prompt_submit" and (prompt or "").lstrip().startswith(_INJECTED)


def _word(value: object) -> str:
    """A name fit for ids and streams."""
    return _OUTSIDE.sub("_", value)[:64].lstrip("._-") or UNKNOWN if isinstance(value, str) else UNKNOWN


def _text(value: object) -> str | None:
    """A text as it may be stored; objects where a CLI should have sent a text become their JSON."""
    if value is None or value == "" or isinstance(value, bool):
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clean_text(text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…")


def _plain(value: object, limit: int) -> str | None:
    """A text fit for a property or a name: one line, bounded."""
    text = _text(value)
    return None if text is None else "".join(c if c.isprintable() else "_" for c in text.strip())[:limit] or None


def _key(value: object) -> str | None:
    text = _plain(value, 10_000)
    if text is None or len(text) <= NAME_MAX:
        return text
    return "hook:" + hashlib.sha256(text.encode()).hexdigest()


def _time(value: object) -> str | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return iso_time(value) if whole and 0 <= value <= _TIME_MAX_MS else None  # type: ignore[operator, arg-type]
