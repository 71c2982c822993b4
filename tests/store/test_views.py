"""The source systems' names stay findable: every column they had, every state mapped, read from outside."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Outcome, Retry
from holdfast.domain.states import Reason
from holdfast.store.roles.store import Feature
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor, prepare_file
from holdfast.testing.store_suite import Harness, OpenStore
from store_shell import Shell

COLUMNS = {
    "hook_outbox": """id session_id event_type payload created_at next_attempt_at attempt_count last_error
                      delivered_at locked_at""",
    "webhook_contracts": "id contract_json active source created_at updated_at",
    "webhook_outbox": """id contract_id event_json target_url target_secret status attempt_count next_attempt_at
                         last_error locked_at""",
    "inbound_queue": """id session_id origin message_type content payload_json actor_id actor_name actor_avatar_url
                        status created_at processed_at attempt_count next_retry_at last_error locked_at
                        source_message_id source_channel_id""",
    "run_events": "run_id seq kind node_name payload created_at published_at",
    "run_outbox": "run_id next_seq last_published_seq updated_at",
    "mirror_pending_receipts": """id queue_name payload state attempt_count max_attempts visible_after last_error
                                  created_at updated_at""",
    "substrate_receipts": """id source_system source_table source_id action_type actor_id actor_kind input_hash
                             output_hash prev_receipt_h_self h_self chain_seq""",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def harness(open_store: OpenStore) -> AsyncIterator[Harness]:
    harness = await Harness.start(open_store)
    yield harness
    await harness.close()


async def settled(harness: Harness, to: str, ends: dict[str, Outcome | None]) -> dict[int, str]:
    """One delivery for each name, ended so; None leaves it waiting. Delivery id to name."""
    await harness.contract("c", to, secret="canary-secret")
    names = {}
    for name, outcome in ends.items():
        await harness.emit(name)
        await harness.route()
        if outcome is not None:
            names[await harness.end(outcome)] = name
        else:
            (row,) = [row for row in await harness.rows(state="pending") if row.event_type == name]
            names[row.id] = name
    return names


@pytest.mark.parametrize("view", COLUMNS)
async def test_every_promised_column_is_there(harness: Harness, file: Path, shell: Shell, view: str) -> None:
    columns = shell.columns(file, view)
    assert [name for name in COLUMNS[view].split() if name not in columns] == []
    assert shell.rows(file, f"SELECT * FROM {view};") == []


async def test_the_views_are_a_declared_feature(harness: Harness) -> None:
    assert Feature.COMPATIBILITY_VIEWS in harness.store.features


async def test_webhook_outbox_maps_every_state(harness: Harness, file: Path, shell: Shell) -> None:
    wanted: dict[str, Outcome | None] = {
        "delivered": Delivered(),
        "rejected": Dead(Reason.REJECTED, "400 bad"),
        "dead_letter": Dead(Reason.CRASH_LOOP, "five starts"),
        "dropped": Dropped(Reason.EXPIRED),
        "pending": Retry("503 busy"),
    }
    names = await settled(harness, "https://example.com/hook", wanted)
    rows = shell.rows(file, "SELECT *, typeof(id) AS kind FROM webhook_outbox;")
    assert {row["id"]: row["status"] for row in rows} == names
    assert {row["kind"] for row in rows} == {"integer"}
    assert {row["target_secret"] for row in rows} == {None}
    assert {(row["contract_id"], row["target_url"]) for row in rows} == {("c", "https://example.com/…")}
    by_status = {row["status"]: row for row in rows}
    assert by_status["pending"]["last_error"] == "503 busy"
    assert by_status["pending"]["attempt_count"] == 1
    assert by_status["pending"]["next_attempt_at"] == "2023-11-14T22:13:21.000Z"
    assert by_status["pending"]["locked_at"] is None
    assert '"type":"rejected"' in by_status["rejected"]["event_json"]


async def test_an_exhausted_webhook_is_a_dead_letter(harness: Harness, file: Path, shell: Shell) -> None:
    await harness.contract("c", "https://example.com")
    await harness.send()
    for _ in range(10):
        harness.clock.advance(100)
        await harness.end(Retry("503"))
    assert [row["status"] for row in shell.rows(file, "SELECT status FROM webhook_outbox;")] == ["dead_letter"]


async def test_a_leased_webhook_is_locked(harness: Harness, file: Path, shell: Shell) -> None:
    await harness.contract("c", "https://example.com")
    await harness.send()
    await harness.take()
    (row,) = shell.rows(file, "SELECT status, locked_at FROM webhook_outbox;")
    assert row["status"] == "pending"
    assert row["locked_at"] is not None


async def test_inbound_queue_maps_every_state(harness: Harness, file: Path, shell: Shell) -> None:
    wanted: dict[str, Outcome] = {
        "delivered": Delivered(),
        "expired": Dropped(Reason.EXPIRED),
        "dropped": Dropped(Reason.CANCELLED),
        "dead": Dead(Reason.REJECTED, "no such session"),
    }
    names = await settled(harness, "session:abc", dict(wanted))
    rows = shell.rows(file, "SELECT *, typeof(id) AS kind FROM inbound_queue;")
    assert {row["id"]: row["status"] for row in rows} == names
    assert {(row["session_id"], row["kind"]) for row in rows} == {("abc", "integer")}
    assert all(row["processed_at"] for row in rows)

    def waiting() -> list[str]:
        query = "SELECT status FROM inbound_queue WHERE processed_at IS NULL;"
        return [row["status"] for row in shell.rows(file, query)]

    await harness.send("pending")
    assert waiting() == ["pending"]
    claim = await harness.take()
    assert waiting() == ["processing"]
    await harness.settle(claim, Retry("no pane"))
    assert waiting() == ["failed"]
    harness.clock.advance(10)
    await harness.end(Handed(60))
    assert waiting() == ["pending"]


async def test_inbound_queue_shows_the_message_and_who_sent_it(harness: Harness, file: Path, shell: Shell) -> None:
    await harness.emit(
        "message",
        {"content": "hello", "payload": {"file": "x.ogg"}},
        source="telegram",
        to="session:abc",
        properties={
            "message_type": "voice", "actor_id": "7", "actor_name": "Ann", "actor_avatar_url": "https://a/b",
            "source_message_id": "m1", "source_channel_id": "c1",
        },
    )  # fmt: skip
    await harness.emit("bare", to="session:abc")
    await harness.route()
    row, bare = shell.rows(file, "SELECT * FROM inbound_queue ORDER BY id;")
    assert (row["origin"], row["message_type"], row["content"]) == ("telegram", "voice", "hello")
    assert row["payload_json"] == '{"file":"x.ogg"}'
    assert (row["actor_id"], row["actor_name"], row["actor_avatar_url"]) == ("7", "Ann", "https://a/b")
    assert (row["source_message_id"], row["source_channel_id"]) == ("m1", "c1")
    assert (bare["message_type"], bare["content"], bare["payload_json"]) == ("text", "", None)


async def test_hook_outbox_shows_only_what_was_delivered_as_delivered(
    harness: Harness, file: Path, shell: Shell
) -> None:
    await harness.contract("c", "handler:sessions", source_criterion=Criterion(match="hook"))
    outcomes: tuple[Outcome, ...] = (Delivered(), Dead(Reason.REJECTED, "bad JSON"), Dropped(Reason.COALESCED))
    for outcome in outcomes:
        await harness.emit("hook.tool_use", {"tool": "ls"}, source="hook", stream="session:abc")
        await harness.route()
        await harness.end(outcome)
    delivered, dead, dropped = shell.rows(file, "SELECT *, typeof(id) AS kind FROM hook_outbox ORDER BY id;")
    assert (delivered["session_id"], delivered["event_type"], delivered["kind"]) == ("abc", "tool_use", "integer")
    assert delivered["payload"] == '{"tool":"ls"}'
    assert (delivered["state"], delivered["delivered_at"]) == ("delivered", "2023-11-14T22:13:20.000Z")
    assert (dead["state"], dead["delivered_at"], dead["last_error"]) == ("dead", None, "bad JSON")
    assert (dropped["state"], dropped["delivered_at"], dropped["reason"]) == ("dropped", None, "coalesced")


async def test_hook_outbox_holds_agent_hooks_only(harness: Harness, file: Path, shell: Shell) -> None:
    await harness.contract("c", "handler:h")
    await harness.send("order.placed", stream="session:abc")
    assert shell.rows(file, "SELECT * FROM hook_outbox;") == []


async def test_run_events_are_published_when_the_publisher_has_passed_them(
    harness: Harness, file: Path, shell: Shell
) -> None:
    for _ in range(3):
        await harness.emit("step", {"x": 1}, stream="run-1", properties={"node_name": "plan"})
    await harness.emit("elsewhere")
    await harness.store.cursors.ensure("publisher", "run-1")
    await harness.store.cursors.ensure("other", "run-1")
    await harness.store.cursors.advance("other", "run-1", 3)
    harness.clock.advance(1)
    await harness.store.cursors.advance("publisher", "run-1", 2)
    rows = shell.rows(file, "SELECT *, typeof(id) AS t FROM run_events ORDER BY seq;")
    assert [row["published_at"] for row in rows] == ["2023-11-14T22:13:21.000Z"] * 2 + [None]
    first = {name: rows[0][name] for name in ("run_id", "seq", "kind", "node_name", "payload", "t")}
    assert first == {
        "run_id": "run-1", "seq": 1, "kind": "step", "node_name": "plan", "payload": '{"x":1}', "t": "integer",
    }  # fmt: skip
    cursors = shell.rows(file, "SELECT * FROM run_outbox WHERE reader = 'publisher';")
    assert [(row["run_id"], row["next_seq"], row["last_published_seq"]) for row in cursors] == [("run-1", 3, 2)]


async def test_webhook_contracts_show_no_secret(harness: Harness, file: Path, shell: Shell) -> None:
    await harness.contract("c", "https://example.com", secret="canary-secret", source="config")
    (row,) = shell.rows(file, "SELECT * FROM webhook_contracts;")
    assert (row["id"], row["active"], row["source"]) == ("c", 1, "config")
    assert '"url": "https://example.com"' in row["contract_json"]
    assert row["created_at"] == "2023-11-14T22:13:20.000Z"
    for view in COLUMNS:
        assert "canary-secret" not in shell.run(file, f"SELECT * FROM {view};").stdout


async def test_the_views_show_only_the_host_of_a_url(harness: Harness, file: Path, shell: Shell) -> None:
    urls = {
        "a": "https://hooks.example/services/T0/B0/canary-path?key=canary-query",
        "b": "http://hooks.example:8080?key=canary-query",
        "c": "https://hooks.example",
    }
    for id, url in urls.items():
        await harness.contract(id, url)
    await harness.emit()
    await harness.route()
    shown = {row["contract_id"]: row["target_url"] for row in shell.rows(file, "SELECT * FROM webhook_outbox;")}
    assert shown == {
        "a": "https://hooks.example/…", "b": "http://hooks.example:8080/…", "c": "https://hooks.example",
    }  # fmt: skip
    stored = {row["id"]: row["contract_json"] for row in shell.rows(file, "SELECT * FROM webhook_contracts;")}
    assert {id: json.loads(text)["target"]["url"] for id, text in stored.items()} == shown
    for view in COLUMNS:
        assert "canary" not in shell.run(file, f"SELECT * FROM {view};").stdout


async def test_a_removed_contract_stays_visible_as_inactive(harness: Harness, file: Path, shell: Shell) -> None:
    await harness.contract("c", "https://example.com")
    await harness.store.contracts.remove("c")
    assert shell.rows(file, "SELECT id, active FROM webhook_contracts;") == [{"id": "c", "active": 0}]


async def test_mirror_pending_receipts_are_deliveries_under_the_receipt_policy(
    harness: Harness, file: Path, shell: Shell
) -> None:
    await harness.contract("receipts", "https://example.com/r", policy="receipt", attempts=8)
    await harness.contract("other", "https://example.com/o")
    for _ in range(3):
        await harness.emit()
    await harness.route()
    dead, flying, _ = [claim for claim in await harness.claim() if claim.delivery.contract_id == "receipts"]
    await harness.settle(dead, Dead(Reason.REJECTED, "no"))
    await harness.store.deliveries.release([_])
    rows = shell.rows(file, "SELECT *, typeof(id) AS kind FROM mirror_pending_receipts ORDER BY id;")
    assert [row["state"] for row in rows] == ["dlq", "in_flight", "pending"]
    assert {(row["queue_name"], row["max_attempts"], row["kind"]) for row in rows} == {("receipts", 8, "integer")}
    assert flying.delivery.id == rows[1]["id"]


@pytest.mark.parametrize("foreign", [False, True])
async def test_an_applications_database_is_not_given_these_names(
    tmp_path: Path, driver: str, shell: Shell, foreign: bool
) -> None:
    """Requested explicitly, or noticed because the file holds tables of an application."""
    path = tmp_path / "app.db"
    if foreign:
        connection = DRIVERS[driver](path)
        connection.run("CREATE TABLE orders (id INTEGER)")
        connection.close()
    prepare_file(path, driver, own=foreign, create=True)
    names = [row["name"] for row in shell.rows(path, "SELECT name FROM sqlite_master WHERE type IN ('view', 'table');")]
    assert set(names) & set(COLUMNS) == set()
    assert all(name.startswith(("holdfast_", "sqlite_", "orders")) for name in names)
    store = SqliteStore.open(path, driver=driver, executor=inline_executor)
    assert Feature.COMPATIBILITY_VIEWS not in store.features
    await store.close()
