"""Sessions: the read model that changes when deliveries of hook events are settled."""

from __future__ import annotations

from typing import Any

from holdfast.domain.delivery import Dead, Delivered
from holdfast.domain.event import new_event
from holdfast.domain.session import Binding, SessionChange, SessionState, SessionTimes
from holdfast.domain.states import Reason
from holdfast.store.roles.sessions import SessionFilter
from holdfast.testing.suite.harness import Harness, StoreSuite

EVERYTHING = SessionFilter()


def change(id: str = "s1", agent: str = "cli-a", **more: Any) -> SessionChange:
    return SessionChange(id, agent, f"native-{id}", **more)


class SessionsSuite(StoreSuite):
    async def test_a_first_change_makes_the_session(self, harness: Harness) -> None:
        await harness.store.sessions.change(change(cwd="/src", facts={"model": "large"}))
        session = await harness.store.sessions.get("s1")
        assert session is not None
        assert (session.agent, session.native_id, session.state) == ("cli-a", "native-s1", SessionState.INITIALIZING)
        assert (session.cwd, session.title, session.facts) == ("/src", None, {"model": "large"})
        assert session.created_at_ms == session.updated_at_ms == harness.clock.now_ms()
        assert session.stream == "session:s1"

    async def test_a_change_keeps_the_fields_it_does_not_name(self, harness: Harness) -> None:
        await harness.store.sessions.change(change(title="one", pane="%1", facts={"a": 1, "b": "two"}))
        harness.clock.advance(5)
        await harness.store.sessions.change(change(state=SessionState.IDLE, title="two", facts={"b": None, "c": [3]}))
        session = await harness.store.sessions.get("s1")
        assert session is not None
        assert (session.title, session.pane, session.state) == ("two", "%1", SessionState.IDLE)
        assert session.facts == {"a": 1, "c": [3]}
        assert session.updated_at_ms - session.created_at_ms == 5000

    async def test_a_fact_with_keys_of_its_own_is_merged_too(self, harness: Harness) -> None:
        store = harness.store.sessions
        await store.change(change(facts={"running": {"a": "x", "b": "y"}}))
        await store.change(change(facts={"running": {"c": "z"}}))
        await store.change(change(facts={"running": {"a": None}}))
        session = await store.get("s1")
        assert session is not None
        assert session.facts == {"running": {"b": "y", "c": "z"}}
        await store.change(change(facts={"running": None}))
        session = await store.get("s1")
        assert session is not None
        assert session.facts == {}

    async def test_a_rebuilt_session_keeps_nothing_of_its_row(self, harness: Harness) -> None:
        store, chat = harness.store.sessions, Binding("chat", "42")
        await store.change(change(title="one", pane="%1", name="old", facts={"a": 1}, bind=(chat,)))
        again = change(state=SessionState.IDLE, title="two", facts={"b": 2}, rebuilt=SessionTimes(7, 9))
        for _ in range(2):
            await store.change(again)
            session = await store.get("s1")
            assert session is not None
            assert (session.title, session.pane, session.name, session.facts) == ("two", None, None, {"b": 2})
            assert (session.created_at_ms, session.updated_at_ms) == (7, 9)
            assert await store.bindings("s1") == [chat]
        await store.change(change("new", rebuilt=SessionTimes(7, 9), unbind=(chat,)))
        assert await store.get("new") is not None
        assert await store.bound_to(chat) == "s1"

    async def test_pages_go_from_the_newest_to_the_oldest(self, harness: Harness) -> None:
        for number in range(7):
            await harness.store.sessions.change(change(f"s{number}", agent="cli-b" if number % 2 else "cli-a"))
            harness.clock.advance(0.5 if number % 3 else 0)
        seen: list[str] = []
        after: str | None = None
        while True:
            page = await harness.store.sessions.find(EVERYTHING, after, 2)
            seen += [session.id for session in page.items]
            if page.next is None:
                break
            after = page.next
        assert sorted(seen, reverse=True) == seen
        assert len(seen) == 7

    async def test_sessions_are_counted_by_state(self, harness: Harness) -> None:
        assert await harness.store.sessions.count() == {}
        for id, state in (("s1", SessionState.IDLE), ("s2", SessionState.IDLE), ("s3", SessionState.CLOSED)):
            await harness.store.sessions.change(change(id, state=state))
        assert await harness.store.sessions.count() == {"idle": 2, "closed": 1}

    async def test_a_filter_finds_by_agent_state_native_id_and_folder(self, harness: Harness) -> None:
        await harness.store.sessions.change(change("s1", cwd="/a", state=SessionState.IDLE))
        await harness.store.sessions.change(change("s2", agent="cli-b", cwd="/b"))
        for wanted in (
            SessionFilter(agent="cli-a"),
            SessionFilter(state="idle"),
            SessionFilter(native_id="native-s1"),
            SessionFilter(cwd="/a"),
        ):
            assert [one.id for one in (await harness.store.sessions.find(wanted, None, 10)).items] == ["s1"]

    async def test_a_name_and_a_host_are_kept_and_found(self, harness: Harness) -> None:
        await harness.store.sessions.change(change("s1", name="backend", host="box"))
        await harness.store.sessions.change(change("s2", name="frontend"))
        await harness.store.sessions.change(change("s1", title="later"))
        (found,) = (await harness.store.sessions.find(SessionFilter(name="backend"), None, 10)).items
        assert (found.id, found.name, found.host) == ("s1", "backend", "box")
        await harness.store.sessions.change(change("s1", name=""))
        assert (await harness.store.sessions.find(SessionFilter(name="backend"), None, 10)).items == []

    async def test_a_chat_is_bound_to_one_session_at_a_time(self, harness: Harness) -> None:
        store, chat, other = harness.store.sessions, Binding("chat", "42"), Binding("board", "C1")
        await store.change(change("s1", bind=(chat, other)))
        assert await store.bound_to(chat) == "s1"
        assert await store.bindings("s1") == [other, chat]
        await store.change(change("s2", bind=(chat,)))
        assert (await store.bound_to(chat), await store.bindings("s1")) == ("s2", [other])
        await store.change(change("s1", unbind=(chat, other)))
        assert (await store.bound_to(chat), await store.bound_to(other)) == ("s2", None)
        assert await store.bound_to(Binding("chat", "43")) is None

    async def test_a_binding_goes_with_its_session(self, harness: Harness) -> None:
        chat = Binding("chat", "42")
        await harness.store.sessions.change(change("s1", bind=(chat,)))
        harness.clock.advance(100 * 86400)
        await harness.prune(sessions_s=86400)
        assert (await harness.store.sessions.get("s1"), await harness.store.sessions.bound_to(chat)) == (None, None)

    async def test_a_settle_applies_its_changes_and_events_together(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send("t")
        started = new_event("session.started", None, stream="session:s1", source="system")
        await harness.end(Delivered(effects=[change(state=SessionState.WORKING), started]))
        session = await harness.store.sessions.get("s1")
        assert session is not None
        assert session.state is SessionState.WORKING
        assert [event.type for event in await harness.store.events.read("session:s1", 0, 10)] == ["session.started"]

    async def test_a_stale_holder_changes_nothing(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send("t")
        stale = await harness.take()
        harness.clock.advance(31)
        await harness.store.deliveries.reclaim()
        await harness.end(Dead(Reason.REJECTED, "no"))
        assert not await harness.settle(stale, Delivered(effects=[change()]))
        assert await harness.store.sessions.get("s1") is None

    async def test_a_change_is_rolled_back_with_an_event_that_cannot_be_appended(self, harness: Harness) -> None:
        await harness.contract()
        await harness.emit("old", {"a": 1}, dedup_key="k", source="system")
        await harness.send("t", source="app")
        clash = new_event("old", {"a": 2}, dedup_key="k", source="system")
        claim = next(claim for claim in await harness.claim() if claim.event.type == "t")
        assert await harness.settle(claim, Delivered(effects=[change(), clash]))
        assert (await harness.row(claim.delivery.id)).state == "dead"
        assert await harness.store.sessions.get("s1") is None
