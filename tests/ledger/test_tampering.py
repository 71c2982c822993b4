"""A change of receipts, or of the rows they are about, is found at the right position."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import ChainContention
from holdfast.domain.receipt import NO_LINKS, Link, leaf_lines, link
from holdfast.domain.substrate_receipt import parse_receipt
from holdfast.ledger import verifier
from holdfast.ledger.append import append_receipt
from holdfast.ledger.verifier import Range, verify_receipts
from holdfast.store.sqlite.store import SqliteStore
from tampered import CHAIN, Case, head_of

pytest_plugins = ("postgres",)


def forged(before: Link, line: bytes = b'{"forged":true}') -> Link:
    return link(CHAIN, head_of(before), before.at_ms, [line])


async def test_an_untouched_chain_has_no_faults(case: Case) -> None:
    links = await case.links()
    assert await case.found(*map(head_of, links), rows=True) == []


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("leaves", b'{"state":"delivered"}', "edited_leaf"),
        ("at_ms", 1, "edited_link"),
        ("hash", bytes(32), "edited_link"),
        ("root", bytes(32), "edited_leaf"),
        ("prev", bytes(32), "broken_link"),
    ],
)
async def test_an_edited_link(case: Case, field: str, value: object, kind: str) -> None:
    links = await case.links()
    await case.vandal.delete(links[4])
    await case.vandal.insert(replace(links[4], **{field: value}))
    assert (5, kind) in await case.found()
    assert {seq for seq, _ in await case.found()} <= {5, 6}


async def test_deleted_links(case: Case) -> None:
    links = await case.links()
    for gone in (links[0], links[4], links[5]):
        await case.vandal.delete(gone)
    assert await case.found() == [(1, "gap"), (5, "gap")]


async def test_two_links_that_changed_places(case: Case) -> None:
    links = await case.links()
    swapped = [*links[:3], replace(links[4], seq=4), replace(links[3], seq=5), *links[5:]]
    await case.vandal.replace(CHAIN, swapped)
    found = await case.found()
    assert found[0] == (4, "broken_link")
    assert {(4, "edited_link"), (5, "edited_link"), (6, "broken_link")} <= set(found)


async def test_an_inserted_link(case: Case) -> None:
    links = await case.links()
    extra = forged(links[2])
    moved = [replace(item, seq=item.seq + 1) for item in links[3:]]
    await case.vandal.replace(CHAIN, [*links[:3], extra, *moved])
    await case.vandal.set_head(moved[-1])
    found = await case.found()
    assert found[0] == (5, "fork")  # it follows the same link as the forged one
    assert {seq for seq, kind in found if kind == "edited_link"} == set(range(5, 12))


async def test_a_cut_tail(case: Case) -> None:
    links = await case.links()
    for gone in links[7:]:
        await case.vandal.delete(gone)
    assert await case.found() == [(8, "cut")]
    await case.vandal.set_head(links[6])
    assert await case.found() == []  # nothing in the store shows it now, except the rows
    assert [kind for _, kind in await case.found(rows=True)] == ["row_without_receipt"] * 3
    assert await case.found(head_of(links[9])) == [(8, "cut")]


async def test_two_links_with_one_number(case: Case) -> None:
    links = await case.links()
    await case.vandal.allow_duplicates()
    await case.vandal.insert(links[4], forged(links[5]))
    assert await case.found() == [(5, "duplicate"), (7, "fork")]


async def test_two_links_with_one_number_at_the_end_of_a_page(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    links = await case.links()
    await case.vandal.allow_duplicates()
    await case.vandal.insert(links[4], forged(links[5]))
    for size in (2, 3, 4, 5, 6, 7):
        monkeypatch.setattr(verifier, "LINKS_PER_PAGE", size)
        assert await case.found() == [(5, "duplicate"), (7, "fork")], size


async def test_a_rewritten_chain(case: Case) -> None:
    links = await case.links()
    rewritten = links[:3]
    for item in links[3:]:
        lines = item.leaves.replace(b"dead", b"dropped").split(b"\n")
        rewritten.append(link(CHAIN, head_of(rewritten[-1]), item.at_ms + 1, lines))
    await case.vandal.replace(CHAIN, rewritten)
    await case.vandal.set_head(rewritten[-1])
    assert await case.found() == []
    assert await case.found(head_of(links[1]), head_of(links[6])) == [(7, "rewritten")]
    assert await case.found(rows=True) == [(8, "row_differs")]


async def test_a_restored_backup(case: Case) -> None:
    """A whole old store is consistent in itself: only a head kept elsewhere shows that it is old."""
    links = await case.links()
    await case.vandal.run("DELETE FROM {t}deliveries WHERE id > 8")
    await case.vandal.run("DELETE FROM {t}ready")
    for gone in links[8:]:
        await case.vandal.delete(gone)
    await case.vandal.set_head(links[7])
    assert await case.found(rows=True) == []
    assert await case.found(head_of(links[9]), rows=True) == [(9, "cut")]
    await case.harness.crash()
    await case.harness.send(to="handler:h")
    for _ in range(3):
        await case.harness.send(to="handler:h")
        (claim,) = await case.harness.claim(1)
        await case.harness.settle(claim, Delivered())
    assert await case.found(head_of(links[9])) == [(10, "rewritten")]  # it has grown since


async def test_a_head_that_was_moved_back_or_removed(case: Case) -> None:
    links = await case.links()
    await case.vandal.set_head(links[5])
    assert await case.found() == [(7, "edited_head")]
    await case.vandal.run("DELETE FROM {t}nodes WHERE chain = ?", CHAIN)
    assert await case.found() == [(10, "no_head")]


async def test_a_removed_chain_shows_against_its_head(case: Case) -> None:
    links = await case.links()
    await case.vandal.replace(CHAIN, [])
    assert await case.found() == [(1, "cut")]
    await case.vandal.run("DELETE FROM {t}nodes WHERE chain = ?", CHAIN)
    assert await case.found() == []
    assert await case.found(head_of(links[3])) == [(1, "cut")]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {t}deliveries SET state = 'delivered', reason = NULL WHERE id = 8",
        "UPDATE {t}deliveries SET reason = 'exhausted' WHERE id = 8",
        "UPDATE {t}deliveries SET attempts = 7 WHERE id = 8",
        "UPDATE {t}deliveries SET generation = 2 WHERE id = 8",
        "UPDATE {t}deliveries SET event = 99 WHERE id = 8",
    ],
)
async def test_a_row_changed_behind_its_receipt(case: Case, change: str) -> None:
    await case.vandal.run(change)
    assert await case.found() == []
    assert await case.found(rows=True) == [(8, "row_differs")]
    assert await case.found(rows=True, wanted=Range(CHAIN, 2, 3)) == [(8, "row_differs")]


async def test_a_row_deleted_behind_its_receipt(case: Case) -> None:
    await case.vandal.run("DELETE FROM {t}deliveries WHERE id IN (3, 10)")
    await case.vandal.run("DELETE FROM {t}ready")
    assert await case.found(rows=True) == [(3, "row_missing"), (10, "row_missing")]


async def test_a_pruned_row_is_not_missing(case: Case) -> None:
    case.harness.clock.advance(1)
    assert (await case.harness.prune(delivered_s=0))["deliveries"] == 8
    assert await case.found(rows=True) == []


async def test_a_row_without_a_receipt(case: Case) -> None:
    await case.harness.send(to="handler:h")
    await case.vandal.run("UPDATE {t}deliveries SET state = 'delivered', pos = NULL, settled_at = 1 WHERE id = 11")
    (fault,) = (await verify_receipts(case.harness.store.receipts, rows=True)).faults
    assert (fault.chain, fault.seq, fault.kind, fault.delivery) == ("", 0, "row_without_receipt", 11)


async def test_a_receipt_without_a_transition(case: Case) -> None:
    """A link that is appended correctly is a valid part of the chain: only the rows contradict it."""
    links = await case.links()
    evil = [(8, 1, "evt_x", "delivered", None, 1), (77, 1, "evt_y", "delivered", None, 1)]
    extra = link(CHAIN, head_of(links[-1]), 5, leaf_lines(evil, 5, "engine"))
    nonsense = link(CHAIN, head_of(extra), 5, [b'{"state":"delivered"}'])
    await case.vandal.insert(extra, nonsense)
    await case.vandal.set_head(nonsense)
    assert await case.found() == []
    assert await case.found(rows=True) == [(11, "contradiction"), (12, "malformed"), (11, "row_missing")]


async def test_a_range_is_checked_by_itself(case: Case) -> None:
    links = await case.links()
    await case.vandal.delete(links[2])
    await case.vandal.delete(links[8])
    assert await case.found(wanted=Range(CHAIN, 5, 8)) == []
    assert await case.found(wanted=Range(CHAIN, 5)) == [(9, "gap")]
    assert await case.found(wanted=Range(None, 1, 4)) == [(3, "gap")]
    assert await case.found(wanted=Range(CHAIN, 11)) == []
    assert await case.found(head_of(links[9]), wanted=Range(CHAIN, 5, 8)) == []
    await case.vandal.insert(replace(links[8], prev=bytes(32)))
    assert {seq for seq, _ in await case.found(wanted=Range(CHAIN, 9, 9))} == {9}


async def test_so_many_faults_that_the_check_stops(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "FAULTS_MAX", 3)
    links = await case.links()
    await case.vandal.replace(CHAIN, [replace(item, at_ms=0) for item in links])
    found = await verify_receipts(case.harness.store.receipts)
    assert (len(found.faults), found.complete) == (3, False)


async def test_values_of_the_wrong_type(case: Case) -> None:
    if not isinstance(case.harness.store, SqliteStore):
        return  # PostgreSQL's columns have types
    await case.vandal.run("UPDATE {t}receipts SET at = 'soon' WHERE seq = 4")
    await case.vandal.run("UPDATE {t}receipts SET leaves = 'text' WHERE seq = 6")
    await case.vandal.run("UPDATE {t}receipts SET seq = 'nine' WHERE seq = 9")
    assert await case.found() == [(4, "malformed"), (4, "gap"), (6, "malformed"), (6, "gap"), (9, "gap")]


SHOP = {"source_system": "shop", "source_table": "tasks", "action_type": "done"}


async def substrate_faults(case: Case, *, rows: bool) -> list[tuple[int, str]]:
    found = await verify_receipts(case.harness.store.receipts, rows=rows)
    assert {fault.chain for fault in found.faults} <= {"substrate"}
    return [(fault.seq, fault.kind) for fault in found.faults]


async def append_some(case: Case) -> list[Link]:
    for number in range(5):
        receipt = parse_receipt({**SHOP, "source_id": number, "references": {"run": "r"}}, "me")
        await append_receipt(case.harness.store, receipt, "me", case.harness.clock, case.harness.chance)
    return await case.vandal.links("substrate")


async def rewrite(case: Case, links: list[Link], at: int, old: bytes, new: bytes) -> None:
    """Change one receipt, and make all hashes after it right again."""
    changed = links[: at - 1]
    for item in links[at - 1 :]:
        line = item.leaves.replace(old, new) if item.seq == at else item.leaves
        before = head_of(changed[-1]) if changed else NO_LINKS
        changed.append(link("substrate", before, item.at_ms, [line]))
    await case.vandal.replace("substrate", changed)
    await case.vandal.set_head(changed[-1])


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (b'"source_table":"tasks"', b'"source_table":""', "missing_source"),
        (b'"source_id":"2"', b'"source_id":null', "missing_source"),
        (b'"references":{"run":"r"}', b'"references":{"run":{}}', "malformed_references"),
        (b'"references":{"run":"r"}', b'"references":[]', "malformed_references"),
        (b'"chain_seq":3', b'"chain_seq":4', "malformed"),
        (b"{", b"[", "malformed"),
    ],
)
async def test_the_content_of_a_receipt_of_another_system(case: Case, old: bytes, new: bytes, kind: str) -> None:
    links = await append_some(case)
    assert await substrate_faults(case, rows=True) == []
    await rewrite(case, links, 3, old, new)
    assert await substrate_faults(case, rows=False) == [(3, kind)]


async def test_the_table_of_receipts_of_other_systems(case: Case) -> None:
    await append_some(case)
    await case.vandal.run("UPDATE {t}substrate SET output_hash = 'x' WHERE chain_seq = 2")
    await case.vandal.run("DELETE FROM {t}substrate WHERE chain_seq = 4")
    await case.vandal.run(
        "INSERT INTO {t}substrate SELECT 9, 'rcp_x', 'a', source_table, source_id, action_type, source_version,"
        " tenant_id, actor_id, actor_kind, input_hash, output_hash, references_json FROM {t}substrate"
        " WHERE chain_seq = 1"
    )
    assert await substrate_faults(case, rows=False) == []
    expected = [(2, "row_differs"), (4, "row_missing"), (9, "row_without_receipt")]
    assert await substrate_faults(case, rows=True) == expected


async def test_a_chain_whose_next_place_is_taken_takes_no_receipts(case: Case) -> None:
    links = await append_some(case)
    await case.vandal.set_head(links[2])
    with pytest.raises(ChainContention, match="place 4"):
        await append_some_more(case)
    assert await substrate_faults(case, rows=False) == [(4, "edited_head")]


async def append_some_more(case: Case) -> None:
    receipt = parse_receipt({**SHOP, "source_id": "more"}, "me")
    await append_receipt(case.harness.store, receipt, "me", case.harness.clock, case.harness.chance)
