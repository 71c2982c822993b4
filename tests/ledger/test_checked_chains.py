"""How far each chain was verified, check after check."""

from __future__ import annotations

from holdfast.domain.chain_check import ChainFault
from holdfast.ledger.checked_chains import extend_checked
from holdfast.ledger.verifier import ALL, Range
from holdfast.store.roles.receipts import CheckedChain

FAULT = ChainFault("a", 7, "hash", "link 7 was changed")


def test_a_check_of_everything_replaces_what_was_known() -> None:
    known = {"a": CheckedChain("a", 1, 50, 3, FAULT)}
    assert extend_checked(known, ALL, {"a": 60, "b": 2}, [], 9) == [CheckedChain("a", 9, 60), CheckedChain("b", 9, 2)]


def test_a_chain_may_be_verified_part_by_part() -> None:
    (first,) = extend_checked({}, Range("a", 1, 10), {"a": 10}, [FAULT], 1)
    assert first == CheckedChain("a", 1, 10, 1, FAULT)
    other = ChainFault("a", 12, "gap", "link 12 is missing")
    (second,) = extend_checked({"a": first}, Range("a", 11, 20), {"a": 20}, [other], 2)
    assert second == CheckedChain("a", 2, 20, 2, FAULT)


def test_a_part_beyond_a_gap_does_not_count_as_verified() -> None:
    known = {"a": CheckedChain("a", 1, 10)}
    assert extend_checked(known, Range("a", 15, 20), {"a": 20}, [], 2) == []


def test_a_fault_is_recorded_wherever_it_was_found() -> None:
    known = {"a": CheckedChain("a", 1, 4)}
    assert extend_checked(known, Range("a", 6, 9), {"a": 9}, [FAULT], 2) == [CheckedChain("a", 2, 4, 1, FAULT)]
    nowhere = ChainFault("", 0, "missing", "delivery 3 has no receipt", 3)
    assert extend_checked({}, ALL, {}, [nowhere], 2) == [CheckedChain("", 2, 0, 1, nowhere)]
