"""Signed heads: what a chain cannot show alone, a head kept outside the database shows. Bundles verify offline."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.domain.delivery import Dead, Delivered
from holdfast.domain.errors import BadInput, Conflict
from holdfast.domain.states import Reason
from holdfast.domain.substrate_receipt import parse_receipt
from holdfast.ledger import verify_bundle
from holdfast.ledger.append import append_receipt
from holdfast.ledger.export import export_receipts
from holdfast.ledger.signed_heads import SignedHeads, check_heads, read_heads
from holdfast.ledger.verifier import verify_receipts
from holdfast.operations.duties.head_signer import HeadSigner
from holdfast.ports import Chance, Clock
from holdfast.store.roles.events import EventFilter
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.suite.harness import Harness

CHAIN = "node-0001"
ONE, TWO = bytes(range(32)), bytes(range(1, 33))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> SqliteStore:
        path = tmp_path / f"{name}.db"
        return SqliteStore.open(path, driver="sqlite3", keep=keep, clock=clock, chance=chance, executor=inline_executor)

    harness = await Harness.start(open_store)
    await harness.contract()
    yield harness
    await harness.close()


@pytest.fixture
def files(tmp_path: Path) -> SignedHeads:
    return SignedHeads(tmp_path / "receipts")


def signer(harness: Harness, files: SignedHeads, wanted: bool = False) -> HeadSigner:
    return HeadSigner(
        harness.store, files, harness.clock, harness.chance, lambda *event: wanted, every=5, every_s=3600.0
    )


async def deliver(harness: Harness, count: int) -> None:
    for _ in range(count):
        await harness.send()
        await harness.end(Delivered())


def test_keys_are_private_and_a_rotated_one_stays_valid_for_what_it_signed(files: SignedHeads) -> None:
    first = files.signer(ONE)
    assert files.signer(TWO).public_key == first.public_key  # there is one already
    assert files.key_file.stat().st_mode & 0o777 == 0o600
    assert files.folder.stat().st_mode & 0o777 == 0o700
    second = files.rotate(TWO)
    assert files.signer(ONE).public_key == second.public_key
    assert files.public_keys() == [first.public_key, second.public_key]


async def test_a_chain_is_signed_when_it_has_grown_or_time_has_passed(harness: Harness, files: SignedHeads) -> None:
    duty = signer(harness, files)
    await duty.tick()
    await deliver(harness, 4)
    await duty.tick()
    assert files.read() == []
    await deliver(harness, 1)
    await duty.tick()
    await duty.tick()
    assert [(head.chain, head.seq) for head in files.read()] == [(CHAIN, 5)]
    await deliver(harness, 1)
    await duty.tick()
    harness.clock.advance(3600)
    await signer(harness, files).tick()  # after a restart: the file says what was signed
    assert [head.seq for head in files.read()] == [5, 6]
    harness.clock.advance(3600)
    await signer(harness, files).tick()
    assert [head.seq for head in files.read()] == [5, 6]  # unchanged
    assert files.file.stat().st_mode & 0o777 == 0o600
    kept = files.check(harness.store.url)
    assert (len(kept.anchors), kept.faults) == (2, [])
    assert (await verify_receipts(harness.store.receipts, kept.anchors)).ok
    assert files.of("sqlite:///other.db") == []


async def test_a_head_is_an_event_if_a_contract_wants_it(harness: Harness, files: SignedHeads) -> None:
    await deliver(harness, 5)
    await signer(harness, files).tick()
    events = harness.store.events
    assert (await events.find(EventFilter(type="receipts.head"), None, 9)).items == []
    await deliver(harness, 5)
    await signer(harness, files, wanted=True).tick()
    (event,) = (await events.find(EventFilter(type="receipts.head"), None, 9)).items
    assert event.payload == files.read()[-1].as_object()


async def test_an_old_copy_of_the_store_is_found_by_a_kept_head(
    harness: Harness, files: SignedHeads, tmp_path: Path
) -> None:
    await deliver(harness, 3)
    await harness.store.maintenance.backup(tmp_path / "old.db")
    await deliver(harness, 4)
    await signer(harness, files).tick()
    await harness.store.close()
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"store.db{suffix}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "old.db", tmp_path / "store.db")
    await harness.reopen()
    assert await harness.faults() == []
    found = await verify_receipts(harness.store.receipts, files.check(harness.store.url).anchors)
    assert [(fault.seq, fault.kind) for fault in found.faults] == [(4, "cut")]


async def test_a_head_that_nobody_we_know_signed_is_a_fault(harness: Harness, files: SignedHeads) -> None:
    await deliver(harness, 5)
    await signer(harness, files).tick()
    (head,) = files.read()
    other = SignedHeads(files.folder.parent / "other")
    key = other.signer(TWO).public_key
    for forged in (head._replace(seq=4), head._replace(at="x"), head._replace(key=key), head._replace(store="s")):
        kept = check_heads([forged], files.public_keys())
        assert (kept.anchors, [fault.kind for fault in kept.faults]) == ([], ["unsigned_head"])
    files.file.write_text("nonsense\n")
    with pytest.raises(BadInput, match="line 1"):
        read_heads(files.file)


@pytest.fixture
async def bundle(harness: Harness, files: SignedHeads, tmp_path: Path) -> Path:
    await deliver(harness, 4)
    await harness.send()
    await harness.end(Dead(Reason.REJECTED, "no"))
    for number in range(3):
        body = {"source_system": "s", "source_table": "t", "source_id": number, "action_type": "é"}
        await append_receipt(harness.store, parse_receipt(body, "me"), "me", harness.clock, harness.chance)
    await signer(harness, files).tick()
    files.rotate(TWO)
    await deliver(harness, 5)
    await signer(harness, files).tick()
    folder = tmp_path / "bundle"
    done = await export_receipts(harness.store, folder, files.of(harness.store.url), files.public_keys(), 0)
    assert (done.chains, done.links, done.heads) == (2, 13, 2)
    with pytest.raises(Conflict, match="exists already"):
        await export_receipts(harness.store, folder, [], [], 0)
    return folder


def run(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """The program of the bundle, in a Python without any package."""
    command = [sys.executable, "-I", "-S", str(folder / "verify.py"), str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_a_bundle_verifies_offline(bundle: Path, files: SignedHeads) -> None:
    code, lines = run(bundle)
    assert (code, lines[-1]) == (0, "Receipts are intact: 2 chains, 13 links, 2 signed heads.")
    keys = [word for key in files.public_keys() for word in ("--key", key)]
    assert run(bundle, *keys) == (0, lines[-1:])
    code, lines = run(bundle, *keys[:2])
    assert (code, [line.split()[2] for line in lines[:-1]]) == (1, ["unsigned_head:"])
    assert run(bundle, "--nonsense", "x")[0] == 2
    (bundle / "manifest.json").write_text("{}")
    assert run(bundle)[0] == 2


Links = list[dict[str, object]]


def edited(links: Links, number_of: int, /, **more: object) -> Links:
    return [{**link, **more} if number == number_of else link for number, link in enumerate(links)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda links: edited(links, 2, leaves="{}"), "node-0001 3: edited_leaf"),
        (lambda links: edited(links, 2, at=1), "node-0001 3: edited_link"),
        (lambda links: edited(links, 2, prev="00" * 32), "node-0001 3: broken_link"),
        (lambda links: edited(links, 2, h_self="00" * 32), "node-0001 3: edited_link"),
        (lambda links: edited(links, 2, h_self="x"), "node-0001 3: edited_link"),
        (lambda links: edited(links, 2, root="x"), "node-0001 3: malformed"),
        (lambda links: links[:2] + links[3:], "node-0001 4: gap"),
        (lambda links: [links[1], links[0], *links[2:]], "node-0001 2: gap"),
        (lambda links: links[:9] + links[10:], "node-0001 10: cut"),
        (lambda links: links[:-1], "substrate 3: cut"),
        (lambda links: [*links[:3], links[2], *links[3:]], "node-0001 3: gap"),
    ],
)
def test_a_changed_bundle_is_found_out(bundle: Path, change: object, expected: str) -> None:
    path = bundle / "receipts.jsonl"
    links = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert callable(change)
    path.write_text("".join(json.dumps(link) + "\n" for link in change(links)), "utf-8")
    code, lines = run(bundle)
    assert code == 1
    assert any(line.startswith(expected) for line in lines), lines


def test_a_bundle_whose_manifest_was_cut_too_is_found_by_its_heads(bundle: Path) -> None:
    path, manifest = bundle / "receipts.jsonl", bundle / "manifest.json"
    links = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kept = [link for link in links if link["chain"] != CHAIN or link["seq"] <= 7]
    path.write_text("".join(json.dumps(link) + "\n" for link in kept), "utf-8")
    about = json.loads(manifest.read_text())
    about["chains"][CHAIN] = {"seq": 7, "h_self": kept[6]["h_self"]}
    manifest.write_text(json.dumps(about))
    code, lines = run(bundle)
    assert (code, lines[0].partition(": a signed")[0]) == (1, "node-0001 10: cut")


def test_signatures_are_judged_as_the_library_judges_them() -> None:
    private = Ed25519PrivateKey.from_private_bytes(ONE)
    public, message = private.public_key().public_bytes_raw(), b"holdfast"
    signature = private.sign(message)
    assert verify_bundle.is_signed(public, signature, message)
    for at in range(0, 64, 7):
        changed = bytes(byte ^ (number == at) for number, byte in enumerate(signature))
        assert not verify_bundle.is_signed(public, changed, message)
    assert not verify_bundle.is_signed(public, signature, b"other")
    assert not verify_bundle.is_signed(bytes(32), signature, message)
    assert not verify_bundle.is_signed(b"\xff" * 32, signature, message)
    late = signature[:32] + (int.from_bytes(signature[32:], "little") + verify_bundle.ORDER).to_bytes(32, "little")
    assert not verify_bundle.is_signed(public, late, message)


def test_the_verifier_imports_nothing_of_holdfast() -> None:
    assert "holdfast" not in {name.partition(".")[0] for name in vars(verify_bundle) if name.startswith("holdfast")}
    source = Path(verify_bundle.__file__).read_text("utf-8")
    assert "import holdfast" not in source
    assert "from holdfast" not in source
