"""The evidence of a small campaign that kept every promise, for tests that change it and expect a violation."""

from __future__ import annotations

from holdfast.domain.receipt import NO_LINKS, Head, leaf_lines, link
from holdfast.proof.kills.checker import check
from holdfast.proof.kills.evidence import DeliveryRow, EventRow, Evidence, StoreRows
from holdfast.proof.kills.records import Accepted, Answered, Killed, Received, Sent, Started


def received(n: int, number: int, at: int, life: int = 1, **more: object) -> Received:
    item = Received(n, "ordered", f"evt{number}", "s", number, f"key{number}", f"d{number}", f"b{number}", at, at, life)
    return item._replace(**more)


def good() -> Evidence:
    """Two events on one ordered lane; the first is sent twice, since the daemon was killed before it could settle."""
    events = [EventRow(f"evt{n}", "s", n, f"key{n}", f"d{n}") for n in (1, 2)]
    deliveries = [
        DeliveryRow(n, f"evt{n}", "ordered", 1, "delivered", None, 1, 1, settled, False)
        for n, settled in ((1, 60), (2, 80))
    ]
    first = link("node-0001", NO_LINKS, 60, leaf_lines([(1, 1, "evt1", "delivered", None, 1)], 60, "engine"))
    second = link(
        "node-0001", Head(1, first.hash), 80, leaf_lines([(2, 1, "evt2", "delivered", None, 1)], 80, "engine")
    )
    head = Head(2, second.hash)
    return Evidence(
        sent={f"key{n}": Sent(f"key{n}", "s", f"d{n}", n) for n in (1, 2)},
        accepted=[Accepted(f"key{n}", f"evt{n}", "s", n, False, 5 + n) for n in (1, 2)],
        refused=[],
        received=[received(1, 1, 10, life=0), received(2, 1, 50), received(3, 2, 70)],
        answers={n: Answered(n, "ok", at) for n, at in ((1, 12), (2, 55), (3, 75))},
        started=[Started(0, False, 0), Started(1, False, 30)],
        killed=[Killed(0, "random", None, 1, 1, 20)],
        store=StoreRows(events, deliveries, [], frozenset(), frozenset(), {"node-0001": head}, [first, second]),
        ordered=frozenset({"ordered"}),
        contracts=frozenset({"ordered"}),
    )


def broken(evidence: Evidence) -> set[str]:
    return {violation.promise for violation in check(evidence).violations}
