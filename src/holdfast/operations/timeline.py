"""The time line of a session: messages, prompts, tools and answers in one picture, each message with its status."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.event import Event
from holdfast.domain.json_value import Json, text_in
from holdfast.domain.message import QUEUED, SOURCE
from holdfast.domain.session import Session
from holdfast.domain.text import clip_text
from holdfast.operations.answers.sessions import TimelineEntry
from holdfast.operations.message_status import MessageStatuses
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.store import Store

TEXT_MAX = 2000
SCANNED_MAX = 2000
"""How many events of the stream are read at most; raw hooks are not shown."""

_KINDS = {
    "agent.user_prompt_submit": ("prompt", ("prompt",)),
    "agent.agent_stop": ("answer", ("last_answer",)),
    "agent.notification": ("waiting", ("message", "reason")),
    "agent.activity.tool_use": ("tool", ("tool_name",)),
    "agent.subagent_start": ("tool", ("subagent_type", "subagent_id")),
    "session.started": ("session", ("source", "state")),
    "session.closed": ("session", ("state", "reason")),
    "session.named": ("session", ("name",)),
}


class Timeline:
    def __init__(self, store: Store) -> None:
        self._events, self._statuses = store.events, MessageStatuses(store)

    async def read(self, session: Session, limit: int) -> list[TimelineEntry]:
        """The last entries, oldest first."""
        entries: list[TimelineEntry] = []
        after: str | None = None
        scanned = 0
        while len(entries) < limit and scanned < SCANNED_MAX:
            page = await self._events.find(EventFilter(stream=session.stream), after, limit)
            scanned += len(page.items)
            for event in page.items:
                entry = await self._entry(event)
                if entry is not None and len(entries) < limit:
                    entries.append(entry)
            after = page.next
            if after is None:
                break
        return entries[::-1]

    async def _entry(self, event: Event) -> TimelineEntry | None:
        payload = event.payload if isinstance(event.payload, dict) else {}
        if (event.source, event.type) == (SOURCE, QUEUED):
            shown = await self._statuses.show(event)
            return TimelineEntry(event.timestamp, "message", _clip(shown.content), event.id, shown.origin, shown.status)
        if event.type.startswith("error."):
            return TimelineEntry(event.timestamp, "error", _text(payload, ("message", "error")))
        kind, names = _KINDS.get(event.type, ("", ()))
        return TimelineEntry(event.timestamp, kind, _text(payload, names)) if kind else None


def _text(payload: Mapping[str, Json], names: tuple[str, ...]) -> str:
    return _clip(next((text for name in names if (text := text_in(payload, name))), ""))


def _clip(text: str) -> str:
    return clip_text(text, TEXT_MAX) or ""
