"""Matching: what one event costs as contracts become many while those that want it stay the same.

python -m benchmarks.matching
"""

from __future__ import annotations

import gc
import random
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
    good = True
    for name, shape in SHAPES.items():
        print(f"{name}:")
        plain = _plain(shape, SIZES[0])
        print(plain.line(), flush=True)
        costs = {}
        for size in SIZES:
            began = time.perf_counter()
            index = Index([shape.contract(i) for i in range(size)])
            built = time.perf_counter() - began
            costs[size] = _cost(f"index, {size:,} contracts (built in {built:.2f} s)", index, shape, size)
            print(costs[size].line(), flush=True)
        grown = costs[SIZES[-1]].median / costs[SIZES[0]].median
        good = good and grown <= RATIO_MAX
        print(f"  = {f'{SIZES[-1]:,} / {SIZES[0]:,} contracts':<46} {grown:>12.2f} x", flush=True)
    print(_change().line())
    return good


def _cost(name: str, index: Index, shape: Shape, size: int) -> Figure:
    """Microseconds to find who wants an event; a different event each time."""
    facts = [shape.event(random.Random(at).randrange(10, size)) for at in range(EVENTS)]

    def take() -> float:
        began = time.perf_counter()
        for fact in facts:
            found = index.matching(*fact, 0)
            assert len(found) == shape.matches, (name, fact, found)
        return (time.perf_counter() - began) / len(facts) * 1e6

    with _undisturbed():
        return repeat(name, take, TIMES, "µs")


def _plain(shape: Shape, size: int) -> Figure:
    """The same by asking every contract."""
    known = [shape.contract(i) for i in range(size)]
    facts = [shape.event(random.Random(at).randrange(10, size)) for at in range(PLAIN_EVENTS)]

    def take() -> float:
        began = time.perf_counter()
        for fact in facts:
            assert sum(contract.matches(*fact, 0) for contract in known) == shape.matches
        return (time.perf_counter() - began) / len(facts) * 1e6

    with _undisturbed():
        return repeat(f"asking each of {size:,} contracts", take, TIMES, "µs")


def _change() -> Figure:
    """Microseconds to replace one contract among the most."""
    size, shape = SIZES[-1], SHAPES["same type, own customer"]
    index = Index([shape.contract(i) for i in range(size)])
    changed = [shape.contract(i) for i in range(0, size, size // EVENTS)]

    def take() -> float:
        began = time.perf_counter()
        for contract in changed:
            index.put(contract)
        return (time.perf_counter() - began) / len(changed) * 1e6

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
