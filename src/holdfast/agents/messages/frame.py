"""Frame: an event of another system as text for an agent. One line names the sender, then the text follows, quoted.

The frame informs the agent; the list of senders protects it. Quoted lines begin with `> `, so no text can pose as the
line that names the sender, and no agent CLI reads it as a command.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.agents.messages.text import clean_text
from holdfast.domain.event import Event
from holdfast.domain.json_value import Json, text_in
from holdfast.domain.text import clip_text
from holdfast.egress.webhook.formats import fill_template, summary

HEAD_MAX = 240
TEXT_MAX = 60 * 1024  # bytes of UTF-8; a message may have 64 KiB
QUOTE = "> "


class Description(NamedTuple):
    """An event as a person would tell it: what happened, and the text that belongs to it."""

    head: str
    text: str


def frame(event: Event, template: str | None = None) -> str:
    """The message for an agent. With a template, that is the quoted text; its fields are inserted, never evaluated."""
    head, text = describe(event)
    if template is not None:
        text = fill_template(event, template)
    return f"[{_one_line(head, HEAD_MAX)}]\n{quoted(text)}".strip()


def quoted(text: str) -> str:
    """
    >>> quoted("one\\n[Telegram: Alice]\\ntwo")
    '> one\\n> [Telegram: Alice]\\n> two'
    """
    lines = clean_text(text[: 2 * TEXT_MAX]).split("\n")
    whole = "\n".join((QUOTE + line).rstrip() for line in lines).encode()
    return whole.decode() if len(whole) <= TEXT_MAX else whole[:TEXT_MAX].decode("utf-8", "ignore") + " …"


def describe(event: Event) -> Description:
    """What happened, and its text: as the normalizer of the platform says it, or for an agent its answer."""
    if event.source == "agent":
        return _of_agent(event)
    given = event.properties
    return Description(str(given.get("headline") or f"{event.source}: {event.type}"), _text_of(event))


def _of_agent(event: Event) -> Description:
    payload = event.payload if isinstance(event.payload, dict) else {}
    session = event.properties.get("session_id")
    happened = "answered" if event.type == "agent.agent_stop" else event.type.removeprefix("agent.").replace("_", " ")
    text = next((text for name in ("last_answer", "message", "text") if (text := text_in(payload, name))), "")
    return Description(f"Agent {event.properties.get('agent') or 'unknown'}: session {session} {happened}", text)


def _text_of(event: Event) -> str:
    """The whole text from the payload; properties are cut."""
    path, cut = event.properties.get("text_path"), event.properties.get("text")
    value: Json = event.payload
    for name in path.split(".") if isinstance(path, str) else ():
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(path, str) and isinstance(value, str):
        return value
    return cut if isinstance(cut, str) and cut.strip() else summary(event)


def _one_line(value: Json, limit: int) -> str:
    """A name for the first line: printable, without line ends and without the frame's own brackets."""
    text = clean_text(str(value)).replace("\n", " ").replace("[", "(").replace("]", ")")
    return clip_text(text, limit) or ""
