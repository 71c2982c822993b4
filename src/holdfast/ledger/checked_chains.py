"""How far each chain of receipts was verified: what a check adds to what earlier ones found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.domain.chain_check import ChainFault
from holdfast.ledger.verifier import Range
from holdfast.store.roles.receipts import CheckedChain


def extend_checked(
    known: Mapping[str, CheckedChain],
    wanted: Range,
    ends: Mapping[str, int],
    faults: Sequence[ChainFault],
    at_ms: int,
) -> list[CheckedChain]:
    """The records to store after a check of `wanted`. `ends`: the last link of each chain that it looked at.

    A check from the first link replaces a record. One that continues where the last ended extends it, so that a chain
    may be verified part by part. Any other leaves it as it is, unless it found a fault.
    """
    chains = {*ends, *(fault.chain for fault in faults)}
    return [
        record
        for chain in sorted(chains)
        if (record := _extended(known.get(chain), chain, wanted, ends.get(chain, 0), faults, at_ms)) is not None
    ]


def _extended(
    before: CheckedChain | None, chain: str, wanted: Range, end: int, faults: Sequence[ChainFault], at_ms: int
) -> CheckedChain | None:
    found = [fault for fault in faults if fault.chain == chain]
    first = found[0] if found else None
    if wanted.first == 1:
        return CheckedChain(chain, at_ms, end, len(found), first)
    known = before or CheckedChain(chain, at_ms, 0)
    if wanted.first <= known.checked_to + 1 and end > known.checked_to:
        return CheckedChain(chain, at_ms, end, known.faults + len(found), known.fault or first)
    if found:
        return known._replace(checked_at_ms=at_ms, faults=known.faults + len(found), fault=known.fault or first)
    return None
