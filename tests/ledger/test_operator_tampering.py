"""A contract, token or pause that was changed behind its receipt is found at the right position."""

from __future__ import annotations

import pytest

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from tampered import Case

pytest_plugins = ("postgres",)


async def operate(case: Case) -> None:
    """Links 11 to 16: contracts, tokens and pauses."""
    store, by = case.harness.store, case.harness.owner.acting("ann")
    address = parse_address("https://shop.example/hook")
    await store.contracts.put(Contract("ship", address), None, by=by)
    await store.contracts.put(Contract("mail", address), None, by=by)
    await store.contracts.set_active("mail", False, by=by)
    await store.tokens.add("tok_1", "ci", "read", "hash", by=by)
    await store.operator.pause("address", "https://shop.example/hook", by=by)
    await store.contracts.remove("mail", by=by)


async def test_what_operators_set_has_receipts(case: Case) -> None:
    await operate(case)
    assert await case.found(rows=True) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("UPDATE {t}contracts SET contract_json = '{}' WHERE id = 'ship'", [(11, "row_differs")]),
        ("UPDATE {t}contracts SET active = FALSE WHERE id = 'ship'", [(11, "row_differs")]),
        ("UPDATE {t}contracts SET removed_at = 5 WHERE id = 'ship'", [(11, "row_differs")]),
        ("UPDATE {t}contracts SET removed_at = NULL WHERE id = 'mail'", [(16, "row_differs")]),
        ("DELETE FROM {t}contracts WHERE id = 'ship'", [(11, "row_missing")]),
        ("UPDATE {t}contracts SET id = 'evil' WHERE id = 'ship'", [(0, "row_without_receipt"), (11, "row_missing")]),
        ("UPDATE {t}tokens SET scope = 'admin'", [(14, "row_differs")]),
        ("UPDATE {t}tokens SET revoked_at = 5", [(14, "row_differs")]),
        ("DELETE FROM {t}tokens", [(14, "row_missing")]),
        ("INSERT INTO {t}tokens VALUES ('tok_2', 'evil', 'admin', 'h', 1, NULL)", [(0, "row_without_receipt")]),
        ("DELETE FROM {t}pauses", [(15, "row_missing")]),
        ("INSERT INTO {t}pauses VALUES ('contract', 'ship', 1)", [(0, "row_without_receipt")]),
    ],
)
async def test_what_operators_set_changed_behind_its_receipt(
    case: Case, change: str, expected: list[tuple[int, str]]
) -> None:
    """A contract with another target, a token that nobody created: what a thief in the database would do."""
    await operate(case)
    await case.vandal.run(change)
    assert await case.found() == []
    assert await case.found(rows=True) == expected


async def test_a_revoked_token_that_is_valid_again(case: Case) -> None:
    await operate(case)
    assert await case.harness.store.tokens.revoke("tok_1", by=case.harness.owner.acting("ann"))
    assert await case.found(rows=True) == []
    await case.vandal.run("UPDATE {t}tokens SET revoked_at = NULL")
    assert await case.found(rows=True) == [(17, "row_differs")]


async def test_a_pause_that_was_ended_is_there_again(case: Case) -> None:
    await operate(case)
    ((_, _, since_ms),) = await case.harness.store.operator.pauses()
    await case.harness.store.operator.resume("address", "https://shop.example/hook", by=case.harness.owner.acting("a"))
    assert await case.found(rows=True) == []
    await case.vandal.run("INSERT INTO {t}pauses VALUES (?, ?, ?)", "address", "https://shop.example/hook", since_ms)
    assert await case.found(rows=True) == [(17, "row_differs")]


async def test_the_last_change_of_a_contract_counts_whatever_the_clocks_said(case: Case) -> None:
    """Changes are ordered by their number: a clock may have been set back between them."""
    store, by = case.harness.store, case.harness.owner.acting("ann")
    await store.contracts.put(Contract("ship", parse_address("handler:a")), None, by=by)
    case.harness.clock.step_wall(-1000)
    await store.contracts.put(Contract("ship", parse_address("handler:b")), None, by=by)
    assert await case.found(rows=True) == []
