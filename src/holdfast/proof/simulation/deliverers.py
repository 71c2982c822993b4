"""The deliverers of a simulated process: the real judgment and the real handlers, with simulated answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from holdfast.domain.delivery import Claim, Delivered, Outcome
from holdfast.domain.errors import Reject, RetryAfter
from holdfast.domain.event import Event, NewEvent, new_event
from holdfast.egress import deliverer as deliverers
from holdfast.egress.handler.deliverer import HandlerDeliverer
from holdfast.egress.webhook.exchange import judge
from holdfast.proof.kills.records import Sent, digest_json
from holdfast.proof.simulation.environment import SimulatedProcess
from holdfast.proof.simulation.ledger import Attempt
from holdfast.proof.simulation.receivers import SLOW_S

AFTER_S = 2.0
_ANSWER: ContextVar[Callable[[], object]] = ContextVar("answer")


class SimWebhook:
    """A `Deliverer` of `https:` addresses: the real judgment of a simulated answer."""

    kind = "https"

    def __init__(self, process: SimulatedProcess) -> None:
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

    def __init__(self, process: SimulatedProcess) -> None:
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


async def take(process: SimulatedProcess, claim: Claim) -> str:
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


def _effect_of(process: SimulatedProcess, event: Event) -> NewEvent:
    key, payload = f"effect:{event.id}", {"kind": "good", "of": event.id, "key": f"effect:{event.id}"}
    process.world.ledger.sent.setdefault(key, Sent(key, "effects", digest_json(payload), 0))
    return new_event("sim.effect", payload, stream="effects", dedup_key=key)
