"""The real daemon publishes to a real Redis, and is killed while it does."""

from __future__ import annotations

import json
import threading

import pytest
import redis

from daemon import Daemon, wait_until
from holdfast.proof.streams.redis_server import RedisServer

PASSWORD = "canaryREDIS"
STREAMS = [f"run:{number}" for number in range(4)]


@pytest.fixture
def server(tmp_path):
    server = RedisServer(tmp_path / "redis", password=PASSWORD)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def daemon(server):
    url = server.url.replace(PASSWORD, "${REDIS_PASSWORD}")
    config = f'streams:\n  sinks:\n    - {{name: cache, url: "{url}", streams: "run:*", key: "runs:{{stream}}"}}\n'
    with Daemon(config=config, env={"REDIS_PASSWORD": PASSWORD}) as daemon:
        yield daemon


def seqs(server, stream: str) -> list[int]:
    with redis.Redis.from_url(server.url) as client:
        return [json.loads(fields[b"data"])["seq"] for _, fields in client.xrange(f"runs:{stream}")]


def test_events_appear_in_redis_and_the_lag_is_shown(daemon, server):
    for stream in STREAMS:
        assert daemon.request("POST", "/api/events", {"type": "step", "stream": stream})[0] == 201
    wait_until(lambda: all(seqs(server, stream) == [1] for stream in STREAMS), 60, lambda: daemon.log)
    answer = daemon.wait_for("/api/readers", lambda page: page["items"][0]["activity"]["published"] == len(STREAMS))
    (reader,) = answer["items"]
    assert (reader["name"], reader["lag_events"], reader["lag_seconds"]) == ("sink:cache", 0, 0.0)
    assert reader["activity"]["latency_p50_ms"] is not None
    detail = daemon.request("GET", f"/api/streams/{STREAMS[0]}")[1]
    assert [(cursor["reader"], cursor["position"]) for cursor in detail["cursors"]] == [("sink:cache", 1)]
    assert "sink:cache (0 events behind)" in daemon.cli("status").out
    assert "sink:cache" in daemon.cli("streams", "readers").out
    server.kill()
    assert daemon.request("POST", "/api/events", {"type": "step", "stream": STREAMS[0]})[0] == 201
    (behind,) = daemon.wait_for("/api/readers", lambda page: page["items"][0]["failing_streams"] == 1)["items"]
    assert (behind["lag_events"], behind["lagging_streams"]) == (1, 1)
    server.start()
    wait_until(lambda: seqs(server, STREAMS[0]) == [1, 2], 60, lambda: daemon.log)
    assert PASSWORD not in daemon.log
    assert PASSWORD not in json.dumps(daemon.request("GET", "/api/readers")[1])


def test_killing_the_daemon_while_it_publishes_loses_and_reorders_nothing(daemon, server):
    accepted = dict.fromkeys(STREAMS, 0)
    done = threading.Event()

    def append() -> None:
        while not done.is_set():
            for stream in STREAMS:
                try:
                    status, answer = daemon.request("POST", "/api/events", {"type": "step", "stream": stream})
                except OSError:
                    continue
                if status == 201:
                    accepted[stream] = max(accepted[stream], answer["seq"])

    writer = threading.Thread(target=append)
    writer.start()
    try:
        for kill in range(4):
            before = dict(accepted)
            wait_until(lambda: all(accepted[s] > before[s] + 5 for s in STREAMS), 60, lambda: daemon.log)  # noqa: B023
            daemon.kill9()
            if kill == 1:
                server.kill()
                server.start()
            daemon.start()
    finally:
        done.set()
        writer.join()
    for stream in STREAMS:
        head = daemon.request("GET", f"/api/streams/{stream}")[1]["head"]
        assert head >= accepted[stream]
        wait_until(lambda: len(seqs(server, stream)) == head, 60, lambda: daemon.log)  # noqa: B023
        assert seqs(server, stream) == list(range(1, head + 1))


def test_old_events_are_archived_and_can_be_replayed(server, tmp_path):
    url = server.url.replace(PASSWORD, "${REDIS_PASSWORD}")
    config = (
        f'streams:\n  sinks:\n    - {{name: cache, url: "{url}", streams: "run:*", key: "runs:{{stream}}"}}\n'
        f"retention: {{delivered_days: 0, every_minutes: 0.005, archive_folder: {tmp_path}/archive}}\n"
    )
    with Daemon(config=config, env={"REDIS_PASSWORD": PASSWORD}) as daemon:
        for number in range(3):
            daemon.request("POST", "/api/events", {"type": "step", "stream": "run:1", "payload": number})
        daemon.wait_for("/api/archives", lambda page: sum(one["events"] for one in page["items"]) == 3)
        daemon.wait_for("/api/streams/run:1", lambda stream: stream["first_seq"] is None)
        status, gone = daemon.request("GET", "/api/streams/run:1/events?after=0")
        assert (status, gone["title"], gone["first_seq"], gone["archived"]) == (410, "position_pruned", 4, True)
        assert daemon.request("GET", "/api/streams/run:1/events")[0] == 200
        assert "3 events replayed to sink cache." in daemon.cli("replay", "run:1", "--sink", "cache").out
        assert (
            daemon.cli("replay", "run:1", "--sink", "cache", "--from", "2", "--to", "2", "--json").json["replayed"] == 1
        )
        assert daemon.cli("replay", "run:1", "--sink", "other").code == 3
        assert daemon.cli("archive", "verify").code == 0
        with redis.Redis.from_url(server.url) as client:
            again = [json.loads(fields[b"data"]) for _, fields in client.xrange("runs:run:1:replay")]
        assert [(event["seq"], event["replay"]) for event in again] == [(1, True), (2, True), (3, True), (2, True)]
        for path in (tmp_path / "archive").glob("*.zst"):
            path.write_bytes(path.read_bytes()[:-3])
        assert daemon.cli("archive", "verify").code == 1
        assert "damaged" in daemon.cli("archive", "verify").out
        assert PASSWORD not in daemon.log


def test_an_event_that_the_sink_refuses_becomes_a_dead_letter_and_can_be_requeued(server, tmp_path):
    url = server.url.replace(PASSWORD, "${REDIS_PASSWORD}")
    (tmp_path / "picky.py").write_text(
        "from holdfast.streams.sinks import registry\n"
        "from holdfast.streams.sinks.redis import RedisSink\n"
        "from holdfast.streams.sinks.sink import PublishFailed\n"
        "from holdfast import Outbox\n"
        "from pathlib import Path\n"
        "class Picky(RedisSink):\n"
        "    async def publish(self, stream, events, replay=False):\n"
        "        for place, event in enumerate(events):\n"
        "            if event.type == 'bad' and not Path(__file__).with_name('fixed').exists():\n"
        "                raise PublishFailed('it is bad', place, poison=True)\n"
        "        await super().publish(stream, events, replay)\n"
        "registry.SINKS['redis'] = 'picky:Picky'\n"
        f"outbox = Outbox('sqlite:///{tmp_path}/app.db')\n",
    )
    config = (
        f'streams:\n  sinks:\n    - {{name: cache, url: "{url}", streams: "run:*", key: "runs:{{stream}}", '
        "poison: quarantine}\n"
    )
    home = tmp_path / "home"
    with Daemon(home, config=config, app="picky:outbox", cwd=tmp_path, env={"REDIS_PASSWORD": PASSWORD}) as daemon:
        for type in ("good", "bad", "good"):
            assert daemon.request("POST", "/api/events", {"type": type, "stream": "run:1"})[0] == 201
        (dead,) = daemon.wait_for("/api/dlq", lambda page: len(page["items"]) == 1)["items"]
        assert (dead["event_type"], dead["address"], dead["reason"]) == ("bad", "handler:sink.cache", "rejected")
        daemon.wait_for("/api/streams/run:1", lambda stream: stream["cursors"][0]["position"] == 3)
        (tmp_path / "fixed").touch()
        assert daemon.cli("dlq", "reprocess", "--all", "--yes").code == 0
        daemon.wait_for(f"/api/deliveries/{dead['id']}", lambda delivery: delivery["state"] == "delivered")
    with redis.Redis.from_url(server.url) as client:
        assert [json.loads(fields[b"data"])["seq"] for _, fields in client.xrange("runs:run:1:replay")] == [2]


def test_a_contract_gets_a_range_again_and_what_it_never_got(daemon):
    for number in range(3):
        daemon.request("POST", "/api/events", {"type": "step" if number else "other", "stream": "run:9"})
    contract = {"id": "late", "target": {"handler": "session_logger"}, "type_criterion": {"match": "step"}}
    assert daemon.request("POST", "/hooks/contracts", contract)[0] == 201
    assert "2 events replayed to contract late." in daemon.cli("replay", "run:9", "--contract", "late").out
    delivered = "/api/deliveries?contract=late&state=delivered"
    items = daemon.wait_for(delivered, lambda page: len(page["items"]) == 2)["items"]
    assert daemon.cli("replay", "run:9", "--contract", "late", "--from", "3").code == 0
    again = daemon.wait_for(delivered, lambda page: any(one["generation"] == 2 for one in page["items"]))["items"]
    assert {one["id"] for one in again} == {one["id"] for one in items}
    assert daemon.cli("replay", "run:9", "--contract", "none").code == 3
    assert daemon.cli("replay", "run:9").code == 2
    assert daemon.cli("receipts", "verify").code == 0
