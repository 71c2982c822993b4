"""Sessions: the read model that the hooks' deliveries change as they are settled."""

from __future__ import annotations

from typing import Any

from holdfast.domain.delivery import Dead, Delivered
from holdfast.domain.event import new_event
from holdfast.domain.session import SessionChange, SessionState
from holdfast.domain.states import Reason
from holdfast.store.base import SessionFilter
from holdfast.testing.suite.harness import Bench, StoreSuite

EVERYTHING = SessionFilter()


def change(id: str = "s1", agent: str = "claude", **more: Any) -> SessionChange:
    return SessionChange(id, agent, f"native-{id}", **more)


class SessionsSuite(StoreSuite):
    async def test_a_first_change_makes_the_session(self, bench: Bench) -> None:
        await bench.store.sessions.change(change(cwd="/src", facts={"model": "large"}))
        session = await bench.store.sessions.get("s1")
        assert session is not None
        assert (session.agent, session.native_id, session.state) == ("claude", "native-s1", SessionState.INITIALIZING)
        assert (session.cwd, session.title, session.facts) == ("/src", None, {"model": "large"})
        assert session.created_at_ms == session.updated_at_ms == bench.clock.now_ms()
        assert session.stream == "session:s1"

    async def test_what_a_change_does_not_say_stays(self, bench: Bench) -> None:
        await bench.store.sessions.change(change(title="one", pane="%1", facts={"a": 1, "b": "two"}))
        bench.clock.advance(5)
        await bench.store.sessions.change(change(state=SessionState.IDLE, title="two", facts={"b": None, "c": [3]}))
        session = await bench.store.sessions.get("s1")
        assert session is not None
        assert (session.title, session.pane, session.state) == ("two", "%1", SessionState.IDLE)
        assert session.facts == {"a": 1, "c": [3]}
        assert session.updated_at_ms - session.created_at_ms == 5000

    async def test_pages_go_from_the_newest_to_the_oldest(self, bench: Bench) -> None:
        for number in range(7):
            await bench.store.sessions.change(change(f"s{number}", agent="codex" if number % 2 else "claude"))
            bench.clock.advance(0.5 if number % 3 else 0)
        seen: list[str] = []
        after: str | None = None
        while True:
            page = await bench.store.sessions.find(EVERYTHING, after, 2)
            seen += [session.id for session in page.items]
            if page.next is None:
                break
            after = page.next
        assert sorted(seen, reverse=True) == seen
        assert len(seen) == 7

    async def test_a_filter_finds_by_agent_state_native_id_and_folder(self, bench: Bench) -> None:
        await bench.store.sessions.change(change("s1", cwd="/a", state=SessionState.IDLE))
        await bench.store.sessions.change(change("s2", agent="codex", cwd="/b"))
        for wanted in (
            SessionFilter(agent="claude"),
            SessionFilter(state="idle"),
            SessionFilter(native_id="native-s1"),
            SessionFilter(cwd="/a"),
        ):
            assert [one.id for one in (await bench.store.sessions.find(wanted, None, 10)).items] == ["s1"]

    async def test_a_settle_applies_its_changes_and_events_together(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send("t")
        news = new_event("session.started", None, stream="session:s1", source="system")
        await bench.end(Delivered(effects=[change(state=SessionState.WORKING), news]))
        session = await bench.store.sessions.get("s1")
        assert session is not None
        assert session.state is SessionState.WORKING
        assert [event.type for event in await bench.store.events.read("session:s1", 0, 10)] == ["session.started"]

    async def test_a_stale_holder_changes_nothing(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send("t")
        stale = await bench.take()
        bench.clock.advance(31)
        await bench.store.deliveries.reclaim()
        await bench.end(Dead(Reason.REJECTED, "no"))
        assert not await bench.settle(stale, Delivered(effects=[change()]))
        assert await bench.store.sessions.get("s1") is None

    async def test_a_change_goes_back_with_the_event_that_cannot_be_appended(self, bench: Bench) -> None:
        await bench.contract()
        await bench.emit("old", {"a": 1}, dedup_key="k", source="system")
        await bench.send("t", source="app")
        clash = new_event("old", {"a": 2}, dedup_key="k", source="system")
        claim = next(claim for claim in await bench.claim() if claim.event.type == "t")
        assert await bench.settle(claim, Delivered(effects=[change(), clash]))
        assert (await bench.row(claim.delivery.id)).state == "dead"
        assert await bench.store.sessions.get("s1") is None
