"""Matching: what one event costs as contracts become many while those that want it stay the same.

python -m benchmarks.matching
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.measure import Figure, repeat
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.routing.index import Index

SIZES = (1_000, 10_000, 100_000)
EVENTS = 2_000
TIMES = 5
PLAIN_EVENTS = 20
RATIO_MAX = 2.0
HANDLER = parse_address("handler:bench")

Fact = tuple[str, str, dict[str, Any]]


class Shape(NamedTuple):
    """Contract number `i`, and an event that exactly `matches` contracts want, number `i` among them."""

    contract: Callable[[int], Contract]
    event: Callable[[int], Fact]
    matches: int = 1


def wish(
    i: int, *, source: Criterion | None = None, type: Criterion | None = None, **properties: Criterion
) -> Contract:
    return Contract(f"c{i:06}", HANDLER, source, type, properties)


def everything(i: int) -> Contract:
    """Ten contracts want everything, the others one type each."""
    return wish(i) if i < 10 else wish(i, type=Criterion(f"order.{i}"))


SHAPES = {
    "exact type": Shape(lambda i: wish(i, type=Criterion(f"order.{i}")), lambda i: ("app", f"order.{i}", {"n": i})),
    "same type, own customer": Shape(
        lambda i: wish(i, type=Criterion("order.placed"), customer=Criterion(f"{i}")),
        lambda i: ("app", "order.placed", {"customer": i, "country": "NZ"}),
    ),
    "leading wildcard, *.jobN.failed": Shape(
        lambda i: wish(i, type=Criterion(pattern=f"*.job{i}.failed")),
        lambda i: ("app", f"eu.west.job{i}.failed", {"n": i}),
    ),
    "same *.failed, own customer": Shape(
        lambda i: wish(i, type=Criterion(pattern="*.failed"), customer=Criterion(f"{i}")),
        lambda i: ("app", "job.failed", {"customer": i}),
    ),
    "trailing wildcard, shopN.*": Shape(
        lambda i: wish(i, type=Criterion(pattern=f"shop{i}.*")), lambda i: ("app", f"shop{i}.placed", {"n": i})
    ),
    "wildcards around, order.*.shopN.*.done": Shape(
        lambda i: wish(i, type=Criterion(pattern=f"order.*.shop{i:06}.*.done")),
        lambda i: ("app", f"order.eu.shop{i:06}.x.done", {"n": i}),
    ),
    "property only": Shape(
        lambda i: wish(i, customer=Criterion(f"{i}")), lambda i: ("app", "order.placed", {"customer": i})
    ),
    "two properties, neither rare": Shape(
        lambda i: wish(i, row=Criterion(f"{i // 300}"), column=Criterion(f"{i % 300}")),
        lambda i: ("app", "order.placed", {"row": i // 300, "column": i % 300}),
    ),
    "list of five types": Shape(
        lambda i: wish(i, type=Criterion(tuple(f"t{i}.{k}" for k in range(5)))), lambda i: ("app", f"t{i}.3", {"n": i})
    ),
    "presence of a property": Shape(
        lambda i: wish(i, **{f"flag{i}": Criterion()}), lambda i: ("app", "order.placed", {f"flag{i}": True})
    ),
    "member of a list": Shape(
        lambda i: wish(i, labels=Criterion(f"team-{i}")),
        lambda i: ("app", "issue.opened", {"labels": ["bug", f"team-{i}", "docs"]}),
    ),
    "ten that want everything": Shape(everything, lambda i: ("app", f"order.{i}", {"n": i}), 11),
}


def run() -> bool:
    """Print a figure for every shape and size; whether each stays within the bound."""
    grown = {}
    for name, shape in SHAPES.items():
        print(f"{name}:")
        show(_plain(shape, SIZES[0]))
        indexes = {}
        for size in SIZES:
            contracts = [shape.contract(i) for i in range(size)]
            began = time.process_time()
            indexes[size] = (Index(contracts), time.process_time() - began)
        rounds = _rounds({size: index for size, (index, _) in indexes.items()}, shape)
        for size, costs in rounds.items():
            label = f"index, {size:,} contracts (built in {indexes[size][1]:.2f} s)"
            show(Figure(label, statistics.median(costs), min(costs), max(costs), "µs"))
        least, *_, most = rounds.values()
        grown[name] = statistics.median(b / a for a, b in zip(least, most, strict=True))
        print(f"  = {f'{SIZES[-1]:,} / {SIZES[0]:,} contracts':<46} {grown[name]:>12.2f} x", flush=True)
    show(_change())
    worst = max(grown, key=lambda name: grown[name])
    print(f"the most any shape grows: {grown[worst]:.2f} x ({worst}); the bound is {RATIO_MAX:g} x")
    return grown[worst] <= RATIO_MAX


def show(figure: Figure) -> None:
    print(figure.line(), flush=True)


def _rounds(indexes: dict[int, Index], shape: Shape) -> dict[int, list[float]]:
    """Microseconds of processor time to find who wants an event. The sizes take turns: all meet the same weather."""
    facts = {size: [shape.event(random.Random(at).randrange(10, size)) for at in range(EVENTS)] for size in indexes}
    costs: dict[int, list[float]] = {size: [] for size in indexes}
    with _undisturbed():
        for _ in range(TIMES):
            for size, index in indexes.items():
                began = time.process_time()
                found = [len(index.matching(*fact, 0)) for fact in facts[size]]
                costs[size].append((time.process_time() - began) / EVENTS * 1e6)
                assert found == [shape.matches] * EVENTS
    return costs


def _plain(shape: Shape, size: int) -> Figure:
    """The same by asking every contract."""
    known = [shape.contract(i) for i in range(size)]
    facts = [shape.event(random.Random(at).randrange(10, size)) for at in range(PLAIN_EVENTS)]

    def take() -> float:
        began = time.process_time()
        found = [sum(contract.matches(*fact, 0) for contract in known) for fact in facts]
        assert found == [shape.matches] * PLAIN_EVENTS
        return (time.process_time() - began) / PLAIN_EVENTS * 1e6

    with _undisturbed():
        return repeat(f"asking each of {size:,} contracts", take, TIMES, "µs")


def _change() -> Figure:
    """Microseconds to replace one contract among the most."""
    size, shape = SIZES[-1], SHAPES["same type, own customer"]
    index = Index([shape.contract(i) for i in range(size)])
    changed = [shape.contract(i) for i in range(0, size, size // EVENTS)]

    def take() -> float:
        began = time.process_time()
        for contract in changed:
            index.put(contract)
        return (time.process_time() - began) / len(changed) * 1e6

    return repeat(f"replace one contract of {size:,}", take, TIMES, "µs")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """The collector's rounds over what the benchmark itself holds are no part of the cost."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


if __name__ == "__main__":
    raise SystemExit(0 if run() else 1)
