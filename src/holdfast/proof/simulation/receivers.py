"""The receivers: webhooks and a handler that accept, reject, fail, are slow, or lose their answer."""

from __future__ import annotations

from random import Random

from holdfast.domain.event import Event
from holdfast.proof.simulation.swarm import Swarm

SLOW_S = (31.0, 75.0)


class Receivers:
    """All receivers. `calm`: only events that always fail still fail."""

    def __init__(self, chance: Random, swarm: Swarm) -> None:
        self._chance, self._swarm = chance, swarm
        self.calm = False
        self.down_until_s = 0.0

    def is_down(self, now_s: float) -> bool:
        return not self.calm and now_s < self.down_until_s

    def answer(self, event: Event) -> tuple[float, str]:
        """The delay in seconds, and the answer."""
        kind = event.payload["kind"] if isinstance(event.payload, dict) else "good"
        if self.calm:
            return 0.01, {"poison": "503", "reject": "400", "killer": "kill"}.get(kind, "ok")
        chance, swarm = self._chance, self._swarm
        delay = chance.choice((0.0, 0.0, 0.01, 0.2, 1.0))
        if swarm.slow and chance.random() < 0.1:
            delay = chance.uniform(*SLOW_S)
        if kind in ("poison", "reject", "killer"):
            return delay, {"poison": "503", "reject": "400", "killer": "kill"}[kind]
        failures = [
            name
            for name, on in (
                ("503", swarm.server_errors), ("307", swarm.redirects), ("lost", swarm.lost_replies),
                ("lied", swarm.lying), ("429", swarm.throttles),
            )
            if on
        ]  # fmt: skip
        if swarm.rejects and chance.random() < 0.05:
            return delay, "400"
        if failures and chance.random() < 0.3:
            return delay, chance.choice(failures)
        return delay, "ok"
