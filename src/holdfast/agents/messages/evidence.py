"""Evidence: did the agent take the message? Its own prompt hook says so, or the end of a turn that names its prompt.

Also measured here is how long the agent has been idle since: an agent that works may take a queued message hours later.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from holdfast.agents.messages.journal import DeliveryTrail
from holdfast.agents.messages.session_message import SessionMessage
from holdfast.agents.messages.text import contains_message
from holdfast.domain.event import Event, parse_time
from holdfast.domain.session import STREAM_PREFIX
from holdfast.store.roles.events import Events

PAGE = 200
PAGES_MAX = 50
SCANS_MAX = 10_000
EARLIER_MS = 1000  # receivers and the daemon read the clock at different moments

_PROMPT = "hook.user_prompt_submit"
_IDLE = ("hook.agent_stop", "hook.error", "hook.session_end", "hook.session_start")


@dataclass(slots=True)
class _Scan:
    """How far the events of a session were read for one message."""

    begun: int
    seq: int
    busy: bool
    since_ms: int  # when the agent became idle, or busy
    idle_ms: int = 0
    found: bool = False


class Evidence:
    def __init__(self, events: Events) -> None:
        self._events = events
        self._scans: OrderedDict[str, _Scan] = OrderedDict()

    async def found(self, message: SessionMessage, trail: DeliveryTrail) -> bool:
        """Whether the agent took the message, according to the hooks that came after it was begun."""
        scan = self._scan(message, trail)
        for _ in range(PAGES_MAX):
            if scan.found:
                break
            page = await self._events.read(STREAM_PREFIX + trail.session_id, scan.seq, PAGE)
            for event in page:
                _advance(scan, event, message, trail)
            if len(page) < PAGE:
                break
        return scan.found

    def idle_ms(self, message: SessionMessage, trail: DeliveryTrail, now_ms: int) -> int:
        """How long the agent was idle in all since the message was begun, as far as events were read."""
        scan = self._scan(message, trail)
        return scan.idle_ms + (0 if scan.busy else max(0, now_ms - scan.since_ms))

    def forget(self, message: SessionMessage) -> None:
        self._scans.pop(message.mark, None)

    def _scan(self, message: SessionMessage, trail: DeliveryTrail) -> _Scan:
        scan = self._scans.get(message.mark)
        if scan is None or scan.begun != trail.begun:
            scan = self._scans[message.mark] = _Scan(trail.begun, trail.after_seq, trail.busy, trail.begun_ms)
            while len(self._scans) > SCANS_MAX:
                self._scans.popitem(last=False)
        return scan


def _advance(scan: _Scan, event: Event, message: SessionMessage, trail: DeliveryTrail) -> None:
    scan.seq = event.seq
    if event.type != _PROMPT and event.type not in _IDLE:
        return
    at_ms = parse_time(event.timestamp, "timestamp")
    payload = event.payload if isinstance(event.payload, dict) else {}
    prompt = payload.get("prompt")
    if isinstance(prompt, str) and at_ms >= trail.begun_ms - EARLIER_MS and contains_message(prompt, message.text):
        scan.found = True
    if event.type == _PROMPT and not scan.busy:
        scan.idle_ms += max(0, at_ms - scan.since_ms)
    scan.busy, scan.since_ms = event.type == _PROMPT, max(scan.since_ms, at_ms)
