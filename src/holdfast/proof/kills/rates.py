"""Rates: however many daemons send to an address, they keep to its rate together.

A sender records the moment at which it was allowed to send. The arrival would also contain the delays of the sink.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.proof.kills.evidence import Evidence, Violation

LATE_SHARE = 0.15
"""A request may begin a little after its slot, so a window may hold a few of the one before."""


def check_rates(evidence: Evidence) -> Iterator[Violation]:
    """No second has more requests than the contract's rate allows."""
    for contract, per_second in evidence.rates.items():
        slots = sorted(item.slot_ns for item in evidence.received if item.contract == contract and item.slot_ns)
        most = round(per_second * (1 + LATE_SHARE)) + 2
        for first, last in _windows(slots, most):
            over_s = (last - first) / 1e9
            yield Violation(
                "rate", contract, f"more than {most} requests within {over_s:.3f} s at a rate of {per_second:g}/s"
            )
            break


def _windows(slots: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Groups of `most` + 1 requests within one second."""
    for first, last in zip(slots, slots[most:], strict=False):
        if last - first < 1_000_000_000:
            yield first, last
