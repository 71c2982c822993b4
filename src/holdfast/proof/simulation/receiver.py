"""The receivers: webhooks and a handler that accept, reject, fail, are slow, or lose their answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING

from holdfast.domain.delivery import Claim, Delivered, Outcome
from holdfast.domain.errors import Reject, RetryAfter
from holdfast.domain.event import Event, NewEvent, new_event
from holdfast.egress import deliverer as deliverers
from holdfast.egress.handler.deliverer import HandlerDeliverer
from holdfast.egress.webhook.exchange import judge
from holdfast.proof.kills.records import Sent, digest_json
from holdfast.proof.simulation.ledger import Attempt
from holdfast.proof.simulation.swarm import Swarm

if TYPE_CHECKING:
    from holdfast.proof.simulation.process import Process

SLOW_S = (31.0, 75.0)
AFTER_S = 2.0
_ANSWER: ContextVar[Callable[[], object]] = ContextVar("answer")


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


class SimWebhook:
    """A `Deliverer` of `https:` addresses: the real judgement of a simulated answer."""

    kind = "https"

    def __init__(self, process: Process) -> None:
        self._process = process

    def serves(self) -> frozenset[str] | None:
        return None

    async def deliver(self, claim: Claim, attempt: deliverers.Attempt) -> Outcome:
        answer = await take(self._process, claim)
        if answer == "lost":
            raise ConnectionResetError("the answer was lost")
        status = {"ok": 200, "lied": 500}.get(answer) or int(answer)
        outcome = judge(status, AFTER_S if status == 429 else None, {})
        if isinstance(outcome, Delivered) and claim.event.type == "sim.fact" and claim.event.seq % 4 == 0:
            return Delivered(effects=[_effect_of(self._process, claim.event)])
        return outcome

    async def close(self) -> None:
        pass


class SimHandler:
    """The real `HandlerDeliverer` with one handler, `handler:plain`."""

    kind = "handler"

    def __init__(self, process: Process) -> None:
        self._process, self._inner = process, HandlerDeliverer()
        self._inner.add("plain", _plain)

    def serves(self) -> frozenset[str] | None:
        return self._inner.serves()

    async def deliver(self, claim: Claim, attempt: deliverers.Attempt) -> Outcome:
        _ANSWER.set(lambda: take(self._process, claim))
        return await self._inner.deliver(claim, attempt)

    async def close(self) -> None:
        await self._inner.close()


async def _plain(event: Event) -> None:
    answer = await _ANSWER.get()()  # type: ignore[misc]
    if answer == "400":
        raise Reject("refused")
    if answer == "429":
        raise RetryAfter(AFTER_S)
    if answer != "ok":
        raise ConnectionError(answer)


async def take(process: Process, claim: Claim) -> str:
    """One attempt reaches the receiver. It is recorded first, and completed when it is answered."""
    world, event = process.world, claim.event
    ledger, observer = world.ledger, world.observer
    row = observer.seen[claim.delivery.id]
    stale = row.token != claim.token
    attempt = Attempt(
        ledger.next_n(), process.name, claim.delivery.id, claim.delivery.generation,
        claim.delivery.contract_id or "", event.id, event.stream, event.seq, world.key_of(event),
        digest_json(event.payload), event.payload_json, claim.token, stale,
        None if stale else observer.overtaken(row.id), world.loop.time(),
    )  # fmt: skip
    ledger.attempts.append(attempt)
    process.log(f"attempt {attempt.delivery} seq {event.seq} of {event.stream}{' (stale)' if stale else ''}")
    world.injector.maybe_freeze(process)
    delay_s, answer = world.receivers.answer(event)
    if claim.delivery.address.startswith("https:") and world.receivers.is_down(world.loop.time()):
        delay_s, answer = 0.0, "503"
    if answer == "kill":
        ledger.fault("payload killed its process")
        process.crash("killed by a payload")
    if delay_s:
        await asyncio.sleep(delay_s)
    attempt.answer, attempt.answered_n = answer, ledger.next_n()
    if answer != "ok":
        ledger.fault(f"answered {answer}")
    if delay_s >= SLOW_S[0]:
        ledger.fault("slow beyond the lease")
    process.log(f"answer {answer} to {attempt.delivery}")
    return answer


def _effect_of(process: Process, event: Event) -> NewEvent:
    key, payload = f"effect:{event.id}", {"kind": "good", "of": event.id, "key": f"effect:{event.id}"}
    process.world.ledger.sent.setdefault(key, Sent(key, "effects", digest_json(payload), 0))
    return new_event("sim.effect", payload, stream="effects", dedup_key=key)
