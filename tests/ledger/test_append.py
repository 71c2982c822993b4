"""Receipts of other systems: over REST, on the command line, from Python, and delivered by a client."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, fetch
from holdfast import BadInput, DedupConflict, Outbox, ReceiptClient
from holdfast.domain.retry import POLICIES
from holdfast.store.open import migrate_store
from sink import Sink

PATH = "/api/substrate/receipts"
BODY = {
    "tenant_id": "t1",
    "actor_id": "sos",
    "actor_kind": "service",
    "source_system": "sos",
    "source_table": "tasks",
    "source_id": "42",
    "action_type": "sos.task.complete",
    "input": {"b": 2, "a": 1},
    "output": {},
    "references": {"engram": "e1"},
}
SAME_INPUT = "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("ledger") / "home") as running:
        yield running


def test_a_receipt_is_appended_once(daemon: Daemon) -> None:
    body = {**BODY, "source_id": "once"}
    status, first = daemon.request("POST", PATH, body)
    assert (status, first["ok"], first["duplicate"], first["differs"]) == (200, True, False, False)
    assert first["receipt"].keys() == {"id", "chain_seq", "h_self"}
    status, again = daemon.request("POST", PATH, body)
    assert (status, again) == (200, {**first, "duplicate": True})
    status, other = daemon.request("POST", PATH, {**body, "output": 1})
    assert (status, other) == (200, {**first, "duplicate": True, "differs": True})
    status, later = daemon.request("POST", PATH, {**body, "source_version": 2})
    assert later["receipt"]["chain_seq"] == first["receipt"]["chain_seq"] + 1


def test_a_receipt_is_listed_with_all_its_fields(daemon: Daemon) -> None:
    daemon.request("POST", PATH, {**BODY, "source_id": "listed"})
    status, page = daemon.request("GET", f"{PATH}?source_id=listed")
    (item,) = page["items"]
    assert status == 200
    assert item["id"].startswith("rcp_")
    assert item["input_hash"] == SAME_INPUT
    assert item["references"] == {"engram": "e1"}
    assert item.keys() == {
        "id", "tenant_id", "source_system", "source_table", "source_id", "source_version", "action_type", "actor_id",
        "actor_kind", "input_hash", "output_hash", "references", "chain_seq", "prev_receipt_h_self", "h_self", "at",
    }  # fmt: skip
    daemon.request("POST", PATH, {**BODY, "source_id": "next"})
    (after,) = daemon.request("GET", f"{PATH}?after={item['chain_seq']}&limit=1")[1]["items"]
    assert (after["chain_seq"], after["prev_receipt_h_self"]) == (item["chain_seq"] + 1, item["h_self"])


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({**BODY, "source_system": ""}, "source_system"),
        ({name: value for name, value in BODY.items() if name != "source_table"}, "source_table"),
        ({**BODY, "actor_kind": "root"}, "actor_kind"),
        ({**BODY, "references": ["a"]}, "references"),
        ({**BODY, "input_hash": "x"}, "input"),
        ({**BODY, "nonsense": 1}, "nonsense"),
        ([], "object"),
    ],
)
def test_what_is_no_receipt_is_refused(daemon: Daemon, body: Any, word: str) -> None:
    status, problem = daemon.request("POST", PATH, body)
    assert (status, problem["error"]) == (422, "BadInput")
    assert word in problem["detail"]


def test_a_token_is_needed_and_the_principal_is_recorded(daemon: Daemon) -> None:
    reader = daemon.cli("token", "create", "look", "--scope", "read", "--json").json
    writer = daemon.cli("token", "create", "sos", "--scope", "append", "--json").json
    body = json.dumps({**BODY, "source_id": "principal", "actor_id": None}).encode()

    def post(token: str | None) -> int:
        headers = {"Content-Type": "application/json", "X-Substrate-Principal": "sos.receipt-writer"}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        return fetch(daemon.url, "POST", PATH, body, headers)[0]

    assert [post(None), post("hf_wrong"), post(reader["token"]), post(writer["token"])] == [401, 401, 403, 200]
    (item,) = daemon.request("GET", f"{PATH}?source_id=principal")[1]["items"]
    assert item["actor_id"] == "sos.receipt-writer"
    database = sqlite3.connect(daemon.home / "holdfast.db")
    query = "SELECT leaves FROM holdfast_receipts WHERE chain = 'substrate' AND seq = ?"
    leaf = json.loads(database.execute(query, (item["chain_seq"],)).fetchone()[0])
    database.close()
    assert leaf["written_by"] == f"api:{writer['id']} sos.receipt-writer"


def test_the_shared_chain_verifies(daemon: Daemon) -> None:
    daemon.request("POST", PATH, BODY)
    for path in (f"{PATH}/verify", f"{PATH}/verify?rows=true", "/api/receipts/verify?rows=true"):
        status, answer = daemon.request("GET", path)
        assert (status, answer["ok"], answer["faults"]) == (200, True, [])
    assert daemon.request("GET", f"{PATH}/verify")[1]["chains"] == 1


def test_the_command_line_appends_and_lists(daemon: Daemon) -> None:
    command = ("receipts", "append", "--source-system", "cli", "--source-table", "t", "--source-id", "1",
               "--action-type", "done", "--input", '{"a":1,"b":2}', "--reference", "run=r1")  # fmt: skip
    said = daemon.cli(*command)
    assert (said.code, said.out.split()[2:5]) == (0, ["appended", "as", "number"])
    assert "was appended before" in daemon.cli(*command).out
    assert "another content" in daemon.cli(*command, "--output", "1").out
    (item,) = daemon.cli("receipts", "appended", "--source-system", "cli", "--json").json["items"]
    assert (item["input_hash"], item["references"], item["actor_id"]) == (SAME_INPUT, {"run": "r1"}, "api:admin")
    assert daemon.cli(*command, "--input-hash", "0").code == 2
    assert daemon.cli("receipts", "verify", "--rows").code == 0


def test_the_view_shows_appended_receipts(daemon: Daemon) -> None:
    daemon.request("POST", PATH, BODY)
    database = sqlite3.connect(daemon.home / "holdfast.db")
    database.row_factory = sqlite3.Row
    rows = database.execute("SELECT * FROM substrate_receipts ORDER BY chain_seq").fetchall()
    database.close()
    items = daemon.request("GET", f"{PATH}?limit=1000")[1]["items"]
    names = ("chain_seq", "prev_receipt_h_self", "h_self", "at", "source_id", "input_hash")
    assert [tuple(row[name] for name in names) for row in rows] == [
        tuple(item[name] for name in names) for item in items
    ]


@pytest.fixture
def outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "app-home"))
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)
    outbox = Outbox(f"sqlite:///{tmp_path}/app.db")
    migrate_store(outbox.url, own=True, driver="sqlite3")
    return outbox


async def test_an_application_appends_to_its_own_chain(outbox: Outbox) -> None:
    about = {"source_table": "orders", "source_id": 1, "action_type": "paid"}
    first = await asyncio.to_thread(lambda: outbox.append_receipt(source_system="shop", **about))
    again = outbox.append_receipt(source_system="shop", **about)
    assert (first.duplicate, again.duplicate, again.receipt) == (False, True, first.receipt)
    with pytest.raises(BadInput, match="source_table"):
        outbox.append_receipt(source_system="shop")


async def test_a_client_publishes_first_and_delivers_until_the_ledger_has_it(
    outbox: Outbox, daemon: Daemon, tmp_path: Path
) -> None:
    token = daemon.home.joinpath("token").read_text()
    client = ReceiptClient(
        outbox, daemon.url + PATH, source_system="mirror", token=token, principal="mirror.receipt-writer"
    )
    connection = sqlite3.connect(tmp_path / "app.db")
    outbox.prepare(connection)
    about = {"source_table": "engrams", "source_id": "e7", "action_type": "mirror.engram.write"}
    with connection:
        first = client.append(connection, **about, input={"text": "secret"}, references={"sos_task_id": "42"})
    with connection:
        assert client.append(connection, **about, input={"text": "secret"}, references={"sos_task_id": "42"}).duplicate
    with pytest.raises(DedupConflict), connection:
        client.append(connection, **about, input={"text": "other"})
    with pytest.raises(BadInput), connection:
        client.append(connection, source_table="engrams", action_type="write")
    async with outbox.lifespan():
        await daemon_has(daemon, "mirror", 1)
    (item,) = daemon.request("GET", f"{PATH}?source_system=mirror")[1]["items"]
    assert (item["source_id"], item["actor_id"]) == ("e7", "mirror.receipt-writer")
    assert item["references"] == {"sos_task_id": "42"}
    rows = connection.execute("SELECT queue_name, state, max_attempts, payload FROM mirror_pending_receipts").fetchall()
    connection.close()
    assert [row[:3] for row in rows] == [("receipts", "delivered", 24)]
    assert "secret" not in rows[0][3]
    assert first.id


async def daemon_has(daemon: Daemon, system: str, count: int) -> None:
    async with asyncio.timeout(60):
        while len(daemon.request("GET", f"{PATH}?source_system={system}")[1]["items"]) < count:
            await asyncio.sleep(0.02)


async def test_a_client_waits_out_a_failing_ledger_and_buries_what_it_refuses(outbox: Outbox, tmp_path: Path) -> None:
    assert POLICIES["receipt"].attempts == 24
    async with Sink(answers=[422]) as sink:
        client = ReceiptClient(outbox, sink.url, source_system="sos", token="hf_canary", name="ledger")
        connection = sqlite3.connect(tmp_path / "app.db")
        outbox.prepare(connection)
        with connection:
            client.append(connection, source_table="tasks", source_id="1", action_type="done")
        async with outbox.lifespan():
            (received,) = await sink.wait_for(1)
            query = "SELECT state, last_error FROM mirror_pending_receipts"
            async with asyncio.timeout(60):
                while connection.execute(query).fetchone()[0] != "dlq":
                    await asyncio.sleep(0.02)
        assert received.headers["Authorization"] == "Bearer hf_canary"
        assert json.loads(received.body)["source_system"] == "sos"
        assert json.loads(received.body).keys() >= {"input_hash", "output_hash", "references", "actor_kind"}
        dump = "\n".join(connection.iterdump())
        assert dump.count("hf_canary") == 1  # with the other header values, nowhere else
        connection.close()


def test_the_command_line_exports_and_shows_keys(daemon: Daemon, tmp_path: Path) -> None:
    daemon.request("POST", PATH, BODY)
    made = daemon.cli("receipts", "keys", "--rotate", "--json").json["keys"]
    assert made[-1].startswith("whpk_")
    folder = tmp_path / "bundle"
    assert daemon.cli("receipts", "export", str(folder)).code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "heads.jsonl", "manifest.json", "receipts.jsonl", "verify.py",
    ]  # fmt: skip
    done = subprocess.run([sys.executable, "-I", str(folder / "verify.py"), str(folder)], check=False, timeout=60)
    assert done.returncode == 0
    store = f"sqlite:///{daemon.home}/holdfast.db"
    assert daemon.cli("receipts", "verify", "--store", store, "--rows").code == 0
    assert daemon.cli("receipts", "verify", "--store", store, "--heads", str(folder / "heads.jsonl")).code == 0
    assert daemon.cli("receipts", "verify", "--key", made[-1]).code == 2
