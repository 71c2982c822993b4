"""The clients: they publish events with a key, or write them to the spool, and retry until they have an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import Appended, NewEvent
from holdfast.proof.kills.records import Accepted, Sent, digest_json
from holdfast.proof.simulation.fixtures import STREAMS, draw_fact, killer_fact, write_to_spool
from holdfast.proof.simulation.process import Died
from holdfast.proof.simulation.swarm import Swarm
from holdfast.proof.simulation.world import World


class Clients:
    def __init__(self, world: World) -> None:
        self._world, self._chance = world, world.chance
        self._killer_sent = False

    @property
    def count(self) -> int:
        return self._chance.randint(1, 3 if self._world.swarm.crowd else 2)

    async def run(self, number: int) -> None:
        """One client, from its first event to its last answer."""
        chance, swarm = self._chance, self._world.swarm
        for i in range(chance.randint(2, 6) if swarm.crowd else chance.randint(1, 3)):
            await asyncio.sleep(chance.choice((0.0, 0.0, 0.05, 0.4, 1.5)))
            if swarm.spool and chance.random() < 0.4:
                self._spool(f"spool:{number}:{i}", number)
                continue
            facts = [self._fact(f"{number}:{i}:{j}") for j in range(chance.choice((1, 1, 3)))]
            await self._publish(facts)

    def old_facts(self) -> list[tuple[str, NewEvent]]:
        """Events that an earlier version had accepted, but not routed."""
        facts = [(f"evt_old{i}", draw_fact(self._chance, Swarm(), f"old:{i}", "a")) for i in range(2)]
        for seq, (id, fact) in enumerate(facts, start=1):
            self._note_sent(fact, "good")
            self._world.ledger.accepted.append(Accepted(f"old:{seq - 1}", id, "a", seq, False, 0))
        return facts

    def _fact(self, key: str) -> NewEvent:
        stream = self._chance.choice((*STREAMS, None))
        if self._world.swarm.killer and not self._killer_sent:
            self._killer_sent = True
            fact, kind = killer_fact(f"killer:{key}", stream), "killer"
        else:
            fact, kind = draw_fact(self._chance, self._world.swarm, key, stream), ""
        self._note_sent(fact, kind)
        return fact

    def _note_sent(self, fact: NewEvent, kind: str) -> None:
        key, ledger = fact.dedup_key or "", self._world.ledger
        kind = kind or next(kind for kind in ("poison", "reject", "good") if f'"{kind}"'.encode() in fact.payload)
        ledger.sent[key] = Sent(key, fact.stream, digest_json({"key": key, "kind": kind}), ledger.next_n())

    def _spool(self, key: str, number: int) -> None:
        world, stream, id = self._world, f"spool:{number}", f"evt_{self._chance.getrandbits(96):024x}"
        fact = draw_fact(self._chance, Swarm(), key, stream)
        self._note_sent(fact, "good")
        write_to_spool(world.workspace.spool, fact, id, world.clock, self._chance)
        world.ledger.spooled.append((id, key, stream))
        world.note_change()

    async def _publish(self, facts: list[NewEvent]) -> None:
        """Retry with the same keys until there is an answer: no process ran, it died, or its answer was lost."""
        world = self._world
        while True:
            process = world.any_process()
            if process is not None:
                try:
                    answers = await process.call(process.intake.append(facts))
                except (Died, StoreBusy):
                    world.ledger.fault("client without an answer")
                else:
                    self._note_accepted(facts, answers)  # an answer is a promise, even if it gets lost
                    if not (world.swarm.lost_answers and not world.calm and self._chance.random() < 0.4):
                        return
                    world.ledger.fault("answer to a client lost")
            await asyncio.sleep(0.05)

    def _note_accepted(self, facts: Sequence[NewEvent], answers: Sequence[Appended]) -> None:
        ledger = self._world.ledger
        for fact, answer in zip(facts, answers, strict=True):
            key = fact.dedup_key or ""
            line = Accepted(key, answer.id, answer.stream, answer.seq, answer.duplicate, ledger.next_n())
            ledger.accepted.append(line)
            ledger.log(self._world.loop.time(), f"accepted {key} as {answer.id} {answer.stream} {answer.seq}")
