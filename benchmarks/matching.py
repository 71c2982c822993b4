"""Matching: the cost of one event as the number of contracts grows and the number of matches stays the same.

python -m benchmarks.matching
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.alone import alone
from benchmarks.goals import outward
from benchmarks.measure import Results
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.routing.index import ContractIndex

EVENTS, TURN = 2_000, 100
PLAIN_EVENTS = 20
HANDLER = parse_address("handler:bench")

Fact = tuple[str, str, dict[str, Any]]


class Shape(NamedTuple):
    """Makes contract number `i`, and an event that exactly `matches` contracts match, including number `i`."""

    contract: Callable[[int], Contract]
    event: Callable[[int], Fact]
    matches: int = 1


def make_contract(
    i: int, *, source: Criterion | None = None, type: Criterion | None = None, **properties: Criterion
) -> Contract:
    return Contract(f"c{i:06}", HANDLER, source, type, properties)


def everything(i: int) -> Contract:
    """Ten contracts match every event, the others one type each."""
    return make_contract(i) if i < 10 else make_contract(i, type=Criterion(f"order.{i}"))


SHAPES = {
    "exact type": Shape(
        lambda i: make_contract(i, type=Criterion(f"order.{i}")), lambda i: ("app", f"order.{i}", {"n": i})
    ),
    "same type, own customer": Shape(
        lambda i: make_contract(i, type=Criterion("order.placed"), customer=Criterion(f"{i}")),
        lambda i: ("app", "order.placed", {"customer": i, "country": "NZ"}),
    ),
    "leading wildcard, *.jobN.failed": Shape(
        lambda i: make_contract(i, type=Criterion(pattern=f"*.job{i}.failed")),
        lambda i: ("app", f"eu.west.job{i}.failed", {"n": i}),
    ),
    "same *.failed, own customer": Shape(
        lambda i: make_contract(i, type=Criterion(pattern="*.failed"), customer=Criterion(f"{i}")),
        lambda i: ("app", "job.failed", {"customer": i}),
    ),
    "trailing wildcard, shopN.*": Shape(
        lambda i: make_contract(i, type=Criterion(pattern=f"shop{i}.*")), lambda i: ("app", f"shop{i}.placed", {"n": i})
    ),
    "wildcards around, order.*.shopN.*.done": Shape(
        lambda i: make_contract(i, type=Criterion(pattern=f"order.*.shop{i:06}.*.done")),
        lambda i: ("app", f"order.eu.shop{i:06}.x.done", {"n": i}),
    ),
    "property only": Shape(
        lambda i: make_contract(i, customer=Criterion(f"{i}")), lambda i: ("app", "order.placed", {"customer": i})
    ),
    "two properties, neither rare": Shape(
        lambda i: make_contract(i, row=Criterion(f"{i // 300}"), column=Criterion(f"{i % 300}")),
        lambda i: ("app", "order.placed", {"row": i // 300, "column": i % 300}),
    ),
    "list of five types": Shape(
        lambda i: make_contract(i, type=Criterion(tuple(f"t{i}.{k}" for k in range(5)))),
        lambda i: ("app", f"t{i}.3", {"n": i}),
    ),
    "presence of a property": Shape(
        lambda i: make_contract(i, **{f"flag{i}": Criterion()}), lambda i: ("app", "order.placed", {f"flag{i}": True})
    ),
    "member of a list": Shape(
        lambda i: make_contract(i, labels=Criterion(f"team-{i}")),
        lambda i: ("app", "issue.opened", {"labels": ["bug", f"team-{i}", "docs"]}),
    ),
    "ten that want everything": Shape(everything, lambda i: ("app", f"order.{i}", {"n": i}), 11),
}


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """For every shape: the cost without the index, with the index at every size, and its growth."""
    for name, shape in SHAPES.items():
        indexes = {size: ContractIndex(shape.contract(i) for i in range(size)) for size in sizes.contracts}
        for _ in range(sizes.times):
            results.add(f"matching.{name}.each", _plain(shape, sizes.contracts[0]), "µs")
            costs = _round(indexes, shape)
            for size, cost in costs.items():
                results.add(f"matching.{name}.{size}", cost, "µs")
            least, *_, most = costs.values()
            results.add(f"matching.{name}.grows", most / least, "×")
    for _ in range(sizes.times):
        results.add("matching.change of one", _change(sizes.contracts[-1]), "µs")


def _round(indexes: dict[int, ContractIndex], shape: Shape) -> dict[int, float]:
    """Microseconds of CPU time to match an event. The sizes alternate, so that all see the same conditions."""
    facts = {size: [shape.event(random.Random(at).randrange(10, size)) for at in range(EVENTS)] for size in indexes}
    costs: dict[int, list[float]] = {size: [] for size in indexes}
    with _undisturbed():
        for first in range(0, EVENTS, TURN):
            for size, index in indexes.items():
                asked = facts[size][first : first + TURN]
                began = time.process_time()
                found = [len(index.matching(*fact, 0)) for fact in asked]
                costs[size].append((time.process_time() - began) / TURN * 1e6)
                assert found == [shape.matches] * TURN
    return {size: statistics.median(values) for size, values in costs.items()}


def _plain(shape: Shape, size: int) -> float:
    """The same by testing every contract."""
    known = [shape.contract(i) for i in range(size)]
    facts = [shape.event(random.Random(at).randrange(10, size)) for at in range(PLAIN_EVENTS)]
    with _undisturbed():
        began = time.process_time()
        found = [sum(contract.matches(*fact, 0) for contract in known) for fact in facts]
        cost = (time.process_time() - began) / PLAIN_EVENTS * 1e6
    assert found == [shape.matches] * PLAIN_EVENTS
    return cost


def _change(size: int) -> float:
    """Microseconds to replace one contract at the largest size."""
    shape = SHAPES["same type, own customer"]
    index = ContractIndex([shape.contract(i) for i in range(size)])
    changed = [shape.contract(i) for i in range(0, size, max(1, size // EVENTS))]
    began = time.process_time()
    for contract in changed:
        index.put(contract)
    return (time.process_time() - began) / len(changed) * 1e6


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Disable garbage collection: scanning the benchmark's own objects is not part of the cost."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


if __name__ == "__main__":
    alone(measure, outward())
