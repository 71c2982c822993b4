"""The sizes of a full run, and of a quick run that only checks that every part works."""

from __future__ import annotations

from dataclasses import dataclass, field

PEERS = ("pgmq", "pgqueuer", "faststream-outbox", "oban", "procrastinate", "dbos")


@dataclass(frozen=True)
class Sizes:
    times: int = 3
    single: int = 1000
    batch: int = 20_000
    drain: int = 40_000
    latency: int = 120
    accept: int = 6000
    sqlite_drain: int = 50_000
    publish: int = 1000
    claims: int = 60
    restart: int = 100_000
    backlog_part: int = 10_000
    streams_events: int = 100_000
    starts: int = 200
    crowd: int = 100
    crowds: int = 3
    hooks: int = 300
    noise: int = 5000
    webhooks: int = 20_000
    hanging: int = 20
    soak_minutes: float = 60.0
    cost: int = 40_000
    receipts: int = 1_000_000
    world: int = 6000
    world_paced: int = 300
    http_s: float = 5.0
    idle_s: float = 30.0
    contracts: tuple[int, ...] = (1_000, 10_000, 100_000)
    backlogs: dict[str, tuple[int, ...]] = field(
        default_factory=lambda: {"sqlite": (10_000, 1_000_000, 5_000_000), "postgres": (10_000, 100_000, 1_000_000)}
    )
    web_events: dict[str, int] = field(default_factory=lambda: {"sqlite": 5_000_000, "postgres": 5_000_000})
    streams: tuple[int, ...] = (100, 100_000)
    payloads: dict[int, int] = field(default_factory=lambda: {100: 20_000, 1000: 20_000, 100_000: 1000})
    # Slow candidates get fewer jobs, so that no run takes longer than about ten seconds.
    fewer: dict[str, dict[str, int]] = field(
        default_factory=lambda: {
            "faststream-outbox": {"drain": 15_000},
            "pgqueuer": {"drain": 20_000},
            "oban": {"batch": 10_000, "drain": 10_000},
            "procrastinate": {"batch": 10_000, "drain": 1500, "world": 1500},
            "dbos": {"single": 200, "drain": 500, "latency": 60},
        }
    )

    def count(self, peer: str, work: str) -> int:
        usual: int = getattr(self, work)
        return min(usual, self.fewer.get(peer, {}).get(work, usual))


FULL = Sizes()
QUICK = Sizes(
    times=1,
    single=100,
    batch=2000,
    drain=2000,
    latency=20,
    accept=200,
    sqlite_drain=2000,
    publish=50,
    claims=20,
    restart=2000,
    backlog_part=2000,
    streams_events=2000,
    starts=30,
    crowd=20,
    crowds=2,
    hooks=50,
    noise=200,
    webhooks=300,
    hanging=3,
    soak_minutes=0.5,
    cost=1000,
    receipts=20_000,
    world=200,
    world_paced=30,
    http_s=1.0,
    idle_s=2.0,
    contracts=(200, 2000),
    backlogs={"sqlite": (10_000, 50_000), "postgres": (10_000, 50_000)},
    web_events={"sqlite": 20_000, "postgres": 20_000},
    streams=(100, 2000),
    payloads={100: 1000, 1000: 1000, 100_000: 100},
    fewer={"procrastinate": {"drain": 300}, "dbos": {"single": 40, "drain": 60, "latency": 5}},
)
