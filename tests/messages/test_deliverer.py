"""The deliverer of messages over a real store, with adapters that the test controls, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from engine_harness import EngineHarness
from holdfast.agents.messages.adapter import Accepted, NotYet, Result, Sent, Task, Unknown
from holdfast.agents.messages.deliverer import SessionDeliverer
from holdfast.agents.messages.handler_adapter import HandlerAdapter
from holdfast.agents.messages.session_message import SessionMessage
from holdfast.domain.errors import RetryAfter
from holdfast.domain.event import iso_time, new_event
from holdfast.domain.json_value import Json
from holdfast.domain.message import Message, message_event
from holdfast.domain.session import Session, SessionChange, SessionState
from holdfast.egress.engine import Engine

HOST = "here"


class ScriptedAdapter:
    """An adapter with a chosen result for each session."""

    literal = False
    name = "scripted"

    def __init__(self) -> None:
        self.results: dict[str, Callable[[], Result]] = {}
        self.sent: list[tuple[str, str]] = []

    async def fits(self, session: Session) -> bool:
        return True

    async def send(self, task: Task) -> Result:
        result = self.results.get(task.session.id, Accepted)()
        if isinstance(result, Sent | Unknown) and not task.trail.begun:
            trail = await task.journal.begin(task.message, task.trail, task.session, "somewhere")
            await task.journal.submitting(task.message, trail)
        if not task.trail.begun and not isinstance(result, NotYet):
            self.sent.append((task.session.id, task.message.text))
        return result


class MessageHarness:
    """A store with sessions, and an engine that delivers to them."""

    def __init__(self, folder: Path) -> None:
        self.harness, self.adapter = EngineHarness(folder), ScriptedAdapter()
        self.store, self.clock = self.harness.store, self.harness.clock

    async def start(self) -> MessageHarness:
        await self.harness.start()
        self.restart()
        return self

    def restart(self, *adapters: HandlerAdapter) -> None:
        """A new process over the same store."""
        chosen = adapters or (self.adapter,)
        self.deliverer = SessionDeliverer(self.store, chosen, self.clock, HOST, confirm_s=())
        self.engine = Engine(
            self.store.deliveries, self.harness.owner, {"session": self.deliverer}, self.harness.registry.terms_of,
            self.clock, self.harness.chance,
        )  # fmt: skip

    async def session(self, id: str, state: SessionState = SessionState.IDLE, **more: str) -> None:
        await self.store.sessions.change(SessionChange(id, "toy", id, state=state, **more))

    async def send(self, session: str, *texts: str) -> None:
        await self.harness.publish(*[message_event(session, Message(content=text)) for text in texts])

    async def hook(self, session: str, type: str, **payload: Json) -> None:
        at = iso_time(self.clock.now_ms())
        await self.harness.publish(
            new_event(f"hook.{type}", payload, source="hook", stream=f"session:{session}", timestamp=at)
        )

    async def run(self, steps: int = 6) -> None:
        await self.store.deliveries.resume_handed()
        for _ in range(steps):
            await self.engine.tick()
            for _ in range(30):
                await asyncio.sleep(0)

    async def pass_time(self, seconds: float, step: float = 60) -> None:
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await self.run(3)

    async def ends(self, session: str) -> list[tuple[str, str | None]]:
        rows = await self.harness.rows(address=f"session:{session}")
        return [(row.state, row.reason) for row in rows]


@pytest.fixture
async def messages(tmp_path: Path) -> MessageHarness:
    return await MessageHarness(tmp_path).start()


async def test_a_head_that_cannot_be_delivered_keeps_its_place_while_others_flow(messages: MessageHarness) -> None:
    await messages.session("stuck")
    await messages.session("free")
    messages.adapter.results["stuck"] = lambda: NotYet("the agent asks its user something")
    await messages.send("stuck", "one", "two")
    await messages.send("free", "a", "b")
    await messages.pass_time(3600)
    await messages.send("free", "c")
    await messages.run()
    assert messages.adapter.sent == [("free", "a"), ("free", "b"), ("free", "c")]
    assert await messages.ends("stuck") == [("pending", None)] * 2
    messages.adapter.results.clear()
    await messages.pass_time(400)
    assert messages.adapter.sent[3:] == [("stuck", "one"), ("stuck", "two")]


async def test_a_handed_message_is_delivered_by_the_prompt_that_contains_it(messages: MessageHarness) -> None:
    await messages.session("s")
    messages.adapter.results["s"] = Sent
    await messages.hook("s", "user_prompt_submit", prompt="go on")  # before the message: no evidence
    messages.clock.advance(5)
    await messages.send("s", "go on", "next")
    await messages.run()
    assert await messages.ends("s") == [("pending", None)] * 2
    await messages.hook("s", "user_prompt_submit", prompt="never mind\n\nnot go on")
    await messages.store.deliveries.make_head_due("session:s")
    await messages.run()
    assert await messages.ends("s") == [("pending", None)] * 2
    messages.restart()  # what was sent is in the store, not in memory
    await messages.hook("s", "user_prompt_submit", prompt="earlier one\n\ngo on")
    await messages.store.deliveries.make_head_due("session:s")
    await messages.run()
    assert await messages.ends("s") == [("delivered", None), ("pending", None)]
    assert messages.adapter.sent == [("s", "go on"), ("s", "next")]


@pytest.mark.parametrize("result", [Sent, lambda: Unknown("the pane is gone")])
async def test_without_confirmation_a_message_is_dead_after_thirty_idle_minutes(
    messages: MessageHarness, result: Callable[[], Result]
) -> None:
    await messages.session("s")
    messages.adapter.results["s"] = result
    await messages.send("s", "lost")
    await messages.run()
    await messages.hook("s", "user_prompt_submit", prompt="something else")
    await messages.pass_time(7200)  # the agent works for two hours
    assert await messages.ends("s") == [("pending", None)]
    await messages.hook("s", "agent_stop")
    await messages.pass_time(29 * 60)
    assert await messages.ends("s") == [("pending", None)]
    await messages.pass_time(3 * 60)
    assert await messages.ends("s") == [("dead", "unconfirmed")]
    assert messages.adapter.sent == [("s", "lost")]
    events = await messages.store.events.read("session:s", 0, 100)
    (failed,) = [event for event in events if event.type == "message.failed"]
    assert failed.payload["reason"] == "unconfirmed"  # type: ignore[call-overload, index]


async def test_a_message_for_a_session_that_never_exists_is_dead_after_an_hour(messages: MessageHarness) -> None:
    await messages.send("nowhere", "hello")
    await messages.pass_time(3500)
    assert await messages.ends("nowhere") == [("pending", None)]
    await messages.pass_time(700)
    assert await messages.ends("nowhere") == [("dead", "no_session")]


async def test_a_message_for_a_closed_session_expires(messages: MessageHarness) -> None:
    await messages.session("s", SessionState.CLOSED)
    await messages.send("s", "hello")
    await messages.run()
    assert await messages.ends("s") == [("dropped", "expired")]


async def test_a_session_of_another_host_gets_nothing_from_here(messages: MessageHarness) -> None:
    await messages.session("s", host="elsewhere")
    await messages.send("s", "hello")
    await messages.run()
    assert (await messages.ends("s"), messages.adapter.sent) == ([("pending", None)], [])


async def test_only_a_message_that_asks_for_it_is_a_command(messages: MessageHarness) -> None:
    await messages.session("s")
    queued = [message_event("s", Message(content=text, command=text == "/model")) for text in ("/model", "/clear")]
    await messages.harness.publish(*queued)
    await messages.run()
    assert [text for _, text in messages.adapter.sent] == ["/model", "Message: /clear"]


async def test_a_handler_of_this_process_gets_messages_in_order(messages: MessageHarness) -> None:
    seen: list[str] = []

    async def take(session: Session, message: SessionMessage) -> None:
        if len(seen) == 1 and "wait" not in seen:
            seen.append("wait")
            raise RetryAfter(5)
        seen.append(message.text)

    messages.restart(HandlerAdapter({"toy": take}))
    await messages.session("s")
    await messages.send("s", "one", "two", "three")
    await messages.run()
    assert seen == ["one", "wait"]
    messages.clock.advance(10)
    await messages.run()
    assert seen == ["one", "wait", "two", "three"]
    assert await messages.ends("s") == [("delivered", None)] * 3


async def test_a_command_is_delivered_when_it_was_sent_because_no_hook_confirms_it(messages: MessageHarness) -> None:
    await messages.session("s")
    messages.adapter.results["s"] = Sent
    events = [message_event("s", Message(content=text, command=True)) for text in ("/compact", "not a command")]
    await messages.harness.publish(*events)
    await messages.run()
    assert await messages.ends("s") == [("delivered", None), ("pending", None)]
