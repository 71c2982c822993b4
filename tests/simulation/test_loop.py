"""The loop of the simulation: virtual time, an order drawn from a seed, lives that freeze and die."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from holdfast.proof.simulation.loop import Life, SimLoop, Stuck


def order_of(seed: int, *, shuffled: bool = True) -> list[int]:
    found: list[int] = []

    async def note(number: int) -> None:
        await asyncio.sleep(0)
        found.append(number)

    async def main() -> None:
        await asyncio.gather(*[note(number) for number in range(8)])

    SimLoop(Random(seed), shuffled=shuffled).run(main())
    return found


def test_time_jumps_to_the_next_timer() -> None:
    loop = SimLoop(Random(1))
    seen: list[float] = []

    async def main() -> None:
        await asyncio.sleep(3600)
        seen.append(loop.time())
        await asyncio.sleep(0.5)
        seen.append(loop.time())

    loop.run(main())
    assert seen == [3600.0, 3600.5]


def test_the_seed_decides_the_order() -> None:
    assert order_of(3) == order_of(3)
    assert len({tuple(order_of(seed)) for seed in range(20)}) > 10


def test_unshuffled_is_first_come_first_served() -> None:
    assert order_of(3, shuffled=False) == list(range(8))


def test_a_dead_life_takes_no_further_step() -> None:
    loop, life = SimLoop(Random(1)), Life("one")
    steps: list[int] = []

    async def work() -> None:
        for number in range(100):
            steps.append(number)
            await asyncio.sleep(1)

    async def main() -> None:
        loop.create_task(work(), context=life.context())
        await asyncio.sleep(2.5)
        life.dead = True
        await asyncio.sleep(50)

    loop.run(main())
    assert steps == [0, 1, 2]


def test_a_frozen_life_continues_when_it_thaws() -> None:
    loop, life = SimLoop(Random(1)), Life("one")
    at: list[float] = []

    async def work() -> None:
        for _ in range(3):
            at.append(loop.time())
            await asyncio.sleep(1)

    async def main() -> None:
        loop.create_task(work(), context=life.context())
        await asyncio.sleep(0.5)
        loop.freeze(life, 40)
        await asyncio.sleep(60)

    loop.run(main())
    assert at == [0.0, 40.5, 41.5]


def test_a_loop_without_steps_and_timers_is_stuck() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="no timer"):
        SimLoop(Random(1)).run(main())
