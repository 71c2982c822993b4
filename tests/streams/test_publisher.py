"""The publisher: every event of every matching stream reaches its sink, in order, whatever fails."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.streams.sink_worker import STUCK_MS, Limits
from holdfast.streams.sinks.sink import PublishFailed
from postgres import end_schema, fresh_schema, sqlite_and_postgres, start
from publishing import MemorySink, PublishHarness, sqlite_url

pytest_plugins = ("postgres",)


@pytest.fixture(params=sqlite_and_postgres())
def url(request, tmp_path):
    if request.param == "sqlite":
        yield sqlite_url(tmp_path)
        return
    server, schema = start(request.param), fresh_schema()
    yield server.url(schema)
    asyncio.run(end_schema(server, schema))


@pytest.fixture
async def harness(url):
    harness = PublishHarness(url)
    yield harness
    await harness.close()


async def test_events_reach_the_sink_in_order_and_the_cursor_follows(harness):
    sink = MemorySink()
    await harness.start(sink)
    await harness.append("run:1", "run:1", "run:2", "other", "run:1")
    assert await harness.run() is None
    assert (sink.seqs("run:1"), sink.seqs("run:2"), sink.seqs("other")) == ([1, 2, 3], [1], [])
    assert (await harness.position("run:1"), await harness.position("other")) == (3, None)
    await harness.append("run:1")
    await harness.run()
    assert sink.seqs("run:1") == [1, 2, 3, 4]
    assert harness.publisher.workers[0].statistics.published == 5


async def test_batches_are_bounded_and_one_call_at_a_time_is_made_for_a_stream(harness):
    sink = MemorySink()
    await harness.start(sink, limits=Limits(batch=10))
    await harness.append(*["run:1"] * 95)
    await harness.run()
    assert sink.seqs("run:1") == list(range(1, 96))
    assert max(len(seqs) for _, seqs in sink.batches) == 10


async def test_two_sinks_read_independently(harness):
    good, bad = MemorySink("good"), MemorySink("bad")
    await harness.start(good, bad)
    bad.before = _fail(PublishFailed("no"))
    await harness.append("run:1", "run:1")
    await harness.run()
    assert (good.seqs("run:1"), bad.seqs("run:1")) == ([1, 2], [])
    assert (await harness.position("run:1", "good"), await harness.position("run:1", "bad")) == (2, 0)


async def test_a_failed_batch_continues_after_the_confirmed_events(harness):
    sink = MemorySink()
    await harness.start(sink)
    sink.before = _fail(PublishFailed("half of it", published=2))
    await harness.append(*["run:1"] * 5)
    wait = await harness.run()
    assert 0 < wait <= 0.1
    assert await harness.position("run:1") == 2
    sink.before = lambda stream, events: None
    harness.clock.advance(1)
    await harness.publish()
    assert sink.seqs("run:1") == [3, 4, 5]
    assert await harness.position("run:1") == 5


async def test_the_pause_after_failures_grows_and_ends(harness):
    sink = MemorySink()
    await harness.start(sink)
    sink.before = _fail(PublishFailed("down"))
    await harness.append("run:1")
    waits = [await harness.run()]
    for _ in range(9):
        harness.clock.advance(waits[-1] + 0.1)
        waits.append(await harness.publish())
    assert waits[0] <= 0.1
    assert 2.5 <= waits[-1] <= 5.0
    sink.before = lambda stream, events: None
    harness.clock.advance(5.1)
    await harness.publish()
    assert sink.seqs("run:1") == [1]


async def test_while_a_sink_is_down_only_one_stream_is_tried_at_a_time(harness):
    sink = MemorySink()
    await harness.start(sink)
    tried = []
    sink.before = lambda stream, events: tried.append(stream) or _raise(PublishFailed("down"))
    await harness.append(*(f"run:{number}" for number in range(20)))
    wait = await harness.run()
    tried.clear()
    harness.clock.advance(wait + 0.2)
    await harness.publish()
    assert len(tried) == 1


async def test_a_stream_that_always_fails_does_not_hold_up_the_others(harness):
    sink = MemorySink()
    await harness.start(sink, limits=Limits(streams=1))
    sink.before = lambda stream, events: _raise(PublishFailed("no")) if stream == "run:bad" else None
    await harness.append("run:bad", *(f"run:{number}" for number in range(10)))
    await harness.route()
    for _ in range(20):
        await harness.publish()
        harness.clock.advance(0.3)
    assert sorted(stream for stream, _ in sink.batches) == sorted(f"run:{number}" for number in range(10))


async def test_the_51st_stream_is_served_and_the_longest_waiting_comes_first(harness):
    sink = MemorySink()
    await harness.start(sink, limits=Limits(batch=1, streams=2))
    for _ in range(5):
        await harness.append("run:busy")
    await harness.route()
    harness.clock.advance(1)
    await harness.append(*(f"run:{number}" for number in range(7)))
    await harness.run()
    assert {stream for stream, _ in sink.batches} == {"run:busy", *(f"run:{number}" for number in range(7))}
    assert sink.seqs("run:busy") == [1, 2, 3, 4, 5]


async def test_a_slow_stream_does_not_hold_up_the_others(harness):
    sink = MemorySink()
    await harness.start(sink)
    gate = asyncio.Event()
    sink.before = lambda stream, events: gate.wait() if stream == "run:slow" else None
    await harness.append("run:slow", "run:1")
    await harness.route()
    for _ in range(20):
        await harness.publisher.tick()
        await asyncio.sleep(0)
    await harness.append("run:1")
    await harness.route()
    for _ in range(20):
        await harness.publisher.tick()
        await asyncio.sleep(0)
    assert (sink.seqs("run:1"), sink.seqs("run:slow")) == ([1, 2], [])
    gate.set()
    await harness.publish()
    assert sink.seqs("run:slow") == [1]


async def test_poison_stops_its_stream_with_one_alarm(harness):
    sink = MemorySink()
    await harness.start(sink)
    sink.before = _poison_at(2)
    await harness.append(*["run:1"] * 3, "run:2")
    await harness.run()
    for _ in range(3):
        harness.clock.advance(6)
        await harness.publish()
    assert (await harness.position("run:1"), await harness.position("run:2")) == (1, 1)
    assert harness.alarms.stuck == [("sink:memory", "run:1", 1, "too large")]


@pytest.mark.parametrize("policy", ["skip", "quarantine"])
async def test_poison_can_be_passed_over(harness, policy):
    sink = MemorySink()
    await harness.start(sink, poison=policy)
    sink.before = _poison_at(2)
    await harness.append(*["run:1"] * 3)
    await harness.run()
    assert await harness.position("run:1") == 3
    (refused,) = await harness.store.events.read("run:1", 1, 1)
    assert harness.alarms.skipped == [("sink:memory", refused.id, "too large")]
    assert harness.quarantined == ([("memory", refused.id)] if policy == "quarantine" else [])


async def test_a_gap_is_an_alarm_and_never_passed_over(harness):
    sink = MemorySink()
    await harness.start(sink)
    await harness.append(*["run:1"] * 4)
    await harness.route()
    await harness.delete_event(3)
    await harness.publish()
    assert sink.seqs("run:1") == [1, 2]
    ((_, stream, position, error),) = harness.alarms.stuck
    assert (stream, position) == ("run:1", 2)
    assert "event 3 of 'run:1' is missing" in error


async def test_a_long_outage_is_an_alarm_once(harness):
    sink = MemorySink()
    await harness.start(sink)
    sink.before = _fail(PublishFailed("down"))
    await harness.append("run:1")
    await harness.run()
    for _ in range(3):
        harness.clock.advance(STUCK_MS / 1000)
        await harness.publish()
    assert harness.alarms.stuck == [("sink:memory", None, None, "down")]


async def test_a_new_sink_publishes_what_was_stored_before_unless_it_starts_now(url):
    harness = PublishHarness(url)
    await harness.start()
    await harness.append("run:1", "run:1", "run:2")
    await harness.route()
    await harness.close()
    for start_at, expected in (("now", []), ("beginning", [1, 2])):
        sink = MemorySink(start_at)
        harness = PublishHarness(url)
        await harness.start(sink, start=start_at)
        await harness.run()
        assert sink.seqs("run:1") == expected
        await harness.append("run:2")
        await harness.run()
        assert sink.seqs("run:2")[-1:] == ([2] if start_at == "now" else [3])
        await harness.close()


async def test_another_process_continues_where_a_dead_one_stopped(url):
    first, sink = PublishHarness(url), MemorySink()
    await first.start(sink, limits=Limits(batch=1))
    sink.before = lambda stream, events: asyncio.Event().wait() if events[0].seq == 3 else None
    await first.append(*["run:1"] * 5)
    await first.route()
    for _ in range(50):
        await first.publisher.tick()
        await asyncio.sleep(0)
    first.publisher.cancel()
    await first.store.close()  # as a killed process would leave it: the stream is leased, its end not recorded
    second, again = PublishHarness(url), MemorySink()
    await second.start(again)
    await second.run()
    delivered = list(dict.fromkeys([*sink.seqs("run:1"), *again.seqs("run:1")]))
    assert delivered == [1, 2, 3, 4, 5]
    assert await second.position("run:1") == 5
    await second.close()


def _raise(error):
    raise error


def _fail(error):
    return lambda stream, events: _raise(error)


def _poison_at(seq):
    def before(stream, events):
        for place, event in enumerate(events):
            if event.seq == seq and stream == "run:1":
                raise PublishFailed("too large", published=place, poison=True)

    return before
