"""Sessions are named, bound and closed; an answer carries its message; a conversation is one time line."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Outbox
from holdfast.domain.errors import Ambiguous, BadInput, Conflict, NotFound
from holdfast.domain.event import Event
from holdfast.domain.session import Binding
from postgres import end_schema, fresh_schema, newest, start
from sessions_world import SessionsWorld, hook, sessions_world


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionsWorld]:
    if request.param == "sqlite":
        async with sessions_world(tmp_path, f"sqlite:///{tmp_path}/store.db") as world:
            await world.begin("a", "b")
            yield world
        return
    server, schema = start(newest()), fresh_schema()
    async with sessions_world(tmp_path, server.url(schema)) as world:
        await world.begin("a", "b")
        yield world
    await end_schema(server, schema)


async def events_of(world: SessionsWorld, native_id: str, type: str) -> list[Event]:
    return [one for one in await world.store.events.read(f"session:toy-{native_id}", 0, 1000) if one.type == type]


async def test_a_session_is_found_by_name_by_bound_chat_and_by_its_ids(world: SessionsWorld) -> None:
    verbs = world.operations
    assert (await verbs.sessions.name("toy-a", "backend")).name == "backend"
    await verbs.sessions.bind("backend", "telegram", "42")
    for session, more in (
        ("toy-a", {}),
        ("a", {}),
        ("backend", {}),
        ("telegram:42", {}),
        ("auto", {"origin": "telegram", "source_channel_id": "42"}),
    ):
        sent = await verbs.messages.send({"session": session, "content": f"to {session}", **more})
        assert sent.session == "toy-a"
    await world.until(lambda: len(world.got) == 5)
    with pytest.raises(NotFound, match="no session is bound"):
        await verbs.messages.send({"session": "auto", "content": "hi", "origin": "telegram", "source_channel_id": "43"})


async def test_a_name_belongs_to_one_open_session(world: SessionsWorld) -> None:
    verbs = world.operations.sessions
    await verbs.name("toy-a", "backend")
    with pytest.raises(Conflict, match="belongs to session toy-a"):
        await verbs.name("toy-b", "backend")
    await verbs.name("toy-a", "")
    assert (await verbs.name("toy-b", "backend")).name == "backend"
    await verbs.close("toy-b")
    assert (await verbs.name("toy-a", "backend")).name == "backend"
    for name in ("auto", "with space", "a/b", "a:b", "x" * 65):
        with pytest.raises(BadInput, match="name"):
            await verbs.name("toy-a", name)
    await world.begin("c")
    await world.store.events.append([hook("c", "session_start", source="startup")])
    with pytest.raises(NotFound):
        await verbs.name("nobody", "x")


async def test_a_chat_that_is_bound_again_moves(world: SessionsWorld) -> None:
    verbs = world.operations.sessions
    await verbs.bind("toy-a", "slack", "C1")
    await verbs.bind("toy-b", "slack", "C1")
    assert await world.store.sessions.bound_to(Binding("slack", "C1")) == "toy-b"
    await verbs.bind("toy-b", "slack", "C1", bound=False)
    assert await world.store.sessions.bound_to(Binding("slack", "C1")) is None


async def test_closing_a_session_expires_its_messages_and_notifies_their_senders(world: SessionsWorld) -> None:
    await world.store.operator.pause("lane", "session:toy-a")
    source = {"origin": "telegram", "source_channel_id": "42"}
    texts = [{"session": "toy-a", "content": f"{n}", **source, "source_message_id": f"{n}"} for n in range(3)]
    ids = [(await world.operations.messages.send(text)).id for text in texts]
    other = (await world.operations.messages.send({"session": "toy-b", "content": "stays"})).id
    await world.until(lambda: world.got)
    assert (await world.operations.sessions.close("toy-a", "api:tok_1")).state == "closed"
    for id in ids:
        shown = await world.operations.messages.show(id)
        assert (shown.status, shown.reason) == ("expired", "expired")
    expired = await events_of(world, "a", "message.expired")
    assert [one.payload["message_id"] for one in expired] == ids  # type: ignore[index, call-overload]
    assert expired[0].payload == {
        "message_id": ids[0], "origin": "telegram", "source_channel_id": "42", "source_message_id": "0",
        "reason": "the session was closed",
    }  # fmt: skip
    assert (await world.operations.messages.show(other)).status == "accepted"
    explained = await world.operations.events.explain(ids[0])
    assert "api:tok_1" in str(explained.deliveries[0].receipts)


async def test_a_message_that_arrives_while_its_session_is_closed_expires_too(world: SessionsWorld) -> None:
    from holdfast.domain.message import Message, message_event

    await world.operations.sessions.close("toy-a")
    late = (await world.store.events.append([message_event("toy-a", Message("too late"))]))[0].id

    async def is_expired() -> bool:
        return (await world.operations.messages.show(late)).status == "expired"

    await world.until(is_expired)
    assert [one.payload["message_id"] for one in await events_of(world, "a", "message.expired")] == [late]  # type: ignore[index, call-overload]
    assert world.got == []


async def test_an_answer_carries_the_message_it_answers(world: SessionsWorld) -> None:
    world.answer = lambda text: f"Done: {text}"
    sent = await world.operations.messages.send(
        {"session": "toy-a", "content": "rename it", "origin": "telegram", "source_channel_id": "42",
         "source_message_id": "7"}
    )  # fmt: skip

    async def answers() -> list[Event]:
        return await events_of(world, "a", "agent.agent_stop")

    await world.until(answers)
    (stop,) = await answers()
    assert stop.payload["answers"] == {  # type: ignore[index, call-overload]
        "id": sent.id, "origin": "telegram", "channel": "42", "source_message_id": "7", "hops": 0,
    }  # fmt: skip
    assert (stop.properties["message_origin"], stop.properties["message_channel"]) == ("telegram", "42")
    own = [hook("a", "user_prompt_submit", prompt="my own words"), hook("a", "agent_stop", answer="yes")]
    await world.store.events.append(own)

    async def two() -> bool:
        return len(await answers()) == 2

    await world.until(two)
    assert "answers" not in (await answers())[1].payload  # type: ignore[operator]


async def test_the_sessions_row_keeps_the_last_message(world: SessionsWorld) -> None:
    await world.operations.messages.send({"session": "toy-a", "content": "first", "origin": "cli"})
    await world.operations.messages.send({"session": "toy-a", "content": "second", "origin": "slack"})

    async def kept() -> bool:
        return (await world.operations.sessions.show("toy-a")).last_message == "second"

    await world.until(kept)
    shown = await world.operations.sessions.show("toy-a")
    assert (shown.last_message_origin, shown.last_message_at is not None) == ("slack", True)


async def test_the_conversation_is_one_time_line(world: SessionsWorld) -> None:
    world.answer = lambda text: "All done."
    await world.operations.messages.send({"session": "toy-a", "content": "please rebase", "origin": "telegram"})

    async def timeline() -> list[tuple[str, str, str | None]]:
        shown = await world.operations.sessions.show("toy-a")
        return [(entry.kind, entry.text, entry.status) for entry in shown.timeline]

    async def is_whole() -> bool:
        return ("answer", "All done.", None) in await timeline()

    await world.until(is_whole)
    await world.store.operator.pause("lane", "session:toy-a")
    await world.operations.messages.send({"session": "toy-a", "content": "and push"})
    shown = await timeline()
    assert [entry for entry in shown if entry[0] != "session"] == [
        ("message", "please rebase", "accepted"),
        ("prompt", "please rebase", None),
        ("answer", "All done.", None),
        ("message", "and push", "queued"),
    ]
    assert len((await world.operations.sessions.show("toy-a", limit=2)).timeline) == 2


async def test_a_resumed_session_takes_over_name_chats_and_messages(world: SessionsWorld) -> None:
    verbs = world.operations
    await world.begin("old", pane="%7")
    await verbs.sessions.name("toy-old", "backend")
    await verbs.sessions.bind("toy-old", "telegram", "42")
    await world.store.operator.pause("lane", "session:toy-old")
    waiting = (await verbs.messages.send({"session": "backend", "content": "wait for me"})).id
    await world.store.events.append([hook("new", "session_start", source="resume", pane="%7")])

    async def is_named() -> bool:
        session = await world.store.sessions.get("toy-new")
        return session is not None and session.name == "backend"

    await world.until(is_named)
    assert await world.store.sessions.bound_to(Binding("telegram", "42")) == "toy-new"
    await world.store.operator.resume("lane", "session:toy-old")
    await world.until(lambda: world.got)
    assert world.got == [("toy-new", "wait for me")]
    for session in ("backend", "toy-old", "telegram:42"):
        assert (await verbs.messages.send({"session": session, "content": "hi"})).session == "toy-new"

    async def is_accepted() -> bool:
        return (await verbs.messages.show(waiting)).status == "accepted"

    await world.until(is_accepted)


async def test_two_sessions_with_the_agents_own_id_are_a_conflict_that_lists_them(world: SessionsWorld) -> None:
    from holdfast.domain.session import SessionChange

    for agent in ("one", "two"):
        await world.store.sessions.change(SessionChange(f"{agent}-same", agent, "same"))
    with pytest.raises(Ambiguous) as caught:
        await world.operations.messages.send({"session": "same", "content": "hi"})
    assert sorted(caught.value.candidates) == ["one-same", "two-same"]


async def test_an_application_sends_in_its_own_transaction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with sessions_world(tmp_path, url) as world:
        await world.begin("a")
        outbox = Outbox(url)
        with sqlite3.connect(tmp_path / "store.db", timeout=30) as connection:
            outbox.send(connection, "toy-a", "from a transaction", message_id="1")
            outbox.send(connection, "toy-a", "from a transaction", message_id="1")
            with pytest.raises(BadInput, match="command=True"):
                outbox.send(connection, "toy-a", "/clear")
        await world.until(lambda: world.got)
        assert world.got == [("toy-a", "from a transaction")]
