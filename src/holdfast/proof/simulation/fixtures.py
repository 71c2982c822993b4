"""Contracts, policies, events and spool records that every schedule uses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.retry import POLICIES as REAL
from holdfast.domain.retry import Policy
from holdfast.proof.simulation.clock import LoopClock
from holdfast.proof.simulation.swarm import Swarm

POLICIES = {**REAL, "sim": Policy("sim", (0.2, 0.5, 1.0), attempts=4, lease_s=30.0)}
STREAMS = ("a", "b", "c")
TIMEOUT_S = 60.0
"""Shorter than the slowest receiver, so that some attempts time out."""


def _contract(id: str, address: str, **more: Any) -> Contract:
    wanted = Criterion(pattern="sim.*")
    return Contract(id, parse_address(address), type_criterion=wanted, policy="sim", timeout_s=TIMEOUT_S, **more)


CONTRACTS = (
    _contract("ordered", "https://sink.example/ordered", ordered=True, concurrency=2),
    _contract("plain", "handler:plain", concurrency=2),
)
TEMPORARY = _contract("passing", "https://sink.example/passing", ordered=True)
"""A contract that is added and removed during the schedule."""


def draw_fact(chance: Random, swarm: Swarm, key: str, stream: str | None) -> NewEvent:
    """An event to publish; some always fail or are rejected."""
    kinds = [kind for kind, on in (("poison", swarm.poison), ("reject", swarm.rejects)) if on]
    kind = chance.choice(kinds) if kinds and chance.random() < 0.2 else "good"
    return new_event("sim.fact", {"key": key, "kind": kind}, stream=stream, dedup_key=key)


def killer_fact(key: str, stream: str | None) -> NewEvent:
    """An event that kills the process that delivers it."""
    return new_event("sim.fact", {"key": key, "kind": "killer"}, stream=stream, dedup_key=key)


def write_to_spool(folder: Path, event: NewEvent, id: str, clock: LoopClock, chance: Random) -> None:
    """Like `ingress.spool.write_event`, with the simulation's clock and random numbers."""
    boot = clock.boot_id[:16].lower()
    name = f"{boot}-{clock.boot_ns():020d}-1-{chance.getrandbits(32):08x}.evt"
    header = {
        "v": 1, "kind": "event", "id": id, "type": event.type, "source": event.source, "stream": event.stream,
        "timestamp": event.timestamp, "properties": {}, "dedup_key": event.dedup_key, "to": None,
    }  # fmt: skip
    unfinished = folder / f".{name}"
    unfinished.write_bytes(json.dumps(header).encode() + b"\n" + event.payload)
    os.utime(unfinished, (clock.elapsed_ms() / 1000, clock.elapsed_ms() / 1000))
    unfinished.rename(folder / name)
