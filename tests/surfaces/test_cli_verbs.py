"""Every command that speaks to a daemon, on a real one."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, Said, shop
from holdfast.store.roles.maintenance import PRUNED

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with shop(tmp_path_factory.mktemp("shop")) as running:
        yield running


def ok(said: Said) -> Any:
    """What a --json command printed, which must have gone well."""
    assert said.code == 0, said
    return said.json


def emit(daemon: Daemon, type: str, **more: Any) -> str:
    status, answer = daemon.request("POST", "/api/events", {"type": type, **more})
    assert status == 201, answer
    return str(answer["id"])


def delivered_as(daemon: Daemon, event: str, *states: str) -> dict[str, Any]:
    """The one delivery of an event, once it is in one of these states."""
    answer = daemon.wait_for(
        f"/api/deliveries?event={event}", lambda page: any(item["state"] in states for item in page["items"])
    )
    return dict(answer["items"][0])


def dead_letter(daemon: Daemon, **more: Any) -> dict[str, Any]:
    """A dead letter on a stream of its own."""
    event = emit(daemon, "bad.order", stream=f"dead:{next(_numbers)}", **more)
    return delivered_as(daemon, event, "dead")


def waiting(daemon: Daemon) -> dict[str, Any]:
    """A delivery that failed once and waits."""
    event = emit(daemon, "slow.order")
    daemon.wait_for(f"/api/deliveries?event={event}", lambda page: any(i["attempts"] for i in page["items"]))
    return dict(daemon.request("GET", f"/api/deliveries?event={event}")[1]["items"][0])


def test_events_are_listed_shown_and_filtered(daemon: Daemon) -> None:
    id = emit(daemon, "order.placed", source="till", stream=f"list:{next(_numbers)}")
    delivered_as(daemon, id, "delivered")
    page = ok(daemon.cli("events", "list", "--source", "till", "--type", "order.placed", "--limit", "1", "--json"))
    assert [item["id"] for item in page["items"]] == [id]
    assert ok(daemon.cli("events", "show", id, "--json")) == daemon.request("GET", f"/api/events/{id}")[1]
    people = daemon.cli("events", "show", id)
    assert "handler:ship" in people.out
    assert "delivered" in people.out


def test_a_page_says_how_to_go_on(daemon: Daemon) -> None:
    for _ in range(2):
        emit(daemon, "page.turned")
    said = daemon.cli("events", "list", "--type", "page.turned", "--limit", "1")
    cursor = said.out.rpartition("--after ")[2].strip(")\n")
    more = ok(daemon.cli("events", "list", "--type", "page.turned", "--after", cursor, "--json"))
    assert more["items"]


def test_what_nobody_wanted_can_be_routed_again(daemon: Daemon) -> None:
    id = emit(daemon, "orphan.found")
    daemon.wait_for("/api/events?unmatched=true", lambda page: id in [item["id"] for item in page["items"]])
    unmatched = ok(daemon.cli("events", "list", "--unmatched", "--type", "orphan.found", "--json"))
    assert [item["id"] for item in unmatched["items"]] == [id]
    ok(daemon.cli("contracts", "add", "--id", "orphans", "--type", "orphan.*", "--handler", "ship", "--json"))
    assert ok(daemon.cli("events", "route", id, "--json")) == {"routed": 1}
    delivered_as(daemon, id, "delivered")
    assert daemon.cli("events", "route", id).out == "0 of 1 event routed again.\n"


def test_streams_are_listed_shown_and_read_in_order(daemon: Daemon) -> None:
    name = f"read:{next(_numbers)}"
    ids = [emit(daemon, "order.placed", stream=name) for _ in range(3)]
    assert name in [item["id"] for item in ok(daemon.cli("streams", "list", "--limit", "1000", "--json"))["items"]]
    assert ok(daemon.cli("streams", "show", name, "--json"))["head"] == 3
    page = ok(daemon.cli("streams", "events", name, "--after", "1", "--json"))
    assert [item["id"] for item in page["items"]] == ids[1:]
    assert daemon.cli("streams", "events", name).out.splitlines()[1].split()[:2] == ["1", ids[0]]


def test_deliveries_are_listed_shown_retried_and_cancelled(daemon: Daemon) -> None:
    one = waiting(daemon)
    listed = ok(daemon.cli("deliveries", "list", "--state", "pending", "--event", one["event_id"], "--json"))
    assert [item["id"] for item in listed["items"]] == [one["id"]]
    id = str(one["id"])
    assert ok(daemon.cli("deliveries", "show", id, "--json"))["history"][0]["outcome"]
    ok(daemon.cli("deliveries", "retry", id, "--json"))
    daemon.wait_for(f"/api/deliveries/{id}", lambda shown: shown["attempts"] == 2 and not shown["in_flight"])
    assert ok(daemon.cli("deliveries", "cancel", id, "--json"))["reason"] == "cancelled"
    again = daemon.cli("deliveries", "cancel", id)
    assert (again.code, again.out) == (1, "")
    assert again.err == f"holdfast: delivery {id} is dropped already; only a pending one can be cancelled\n"


def test_dead_letters_are_counted_inspected_reprocessed_and_discarded(daemon: Daemon) -> None:
    one = dead_letter(daemon, payload={"id": 42})
    only = ("--stream", one["stream"])
    assert ok(daemon.cli("dlq", "count", *only, "--json"))["count"] == 1
    letter = ok(daemon.cli("dlq", "inspect", *only, "--json"))["items"][0]
    assert (letter["payload"], letter["reason"]) == ({"id": 42}, "rejected")
    assert "no such customer" in daemon.cli("dlq", "inspect", *only).out
    id = str(one["id"])
    dry = ok(daemon.cli("dlq", "reprocess", id, "--dry-run", "--json"))
    assert dry == {"reprocessed": 1, "ids": [one["id"]], "remaining": 0, "dry_run": True}
    assert ok(daemon.cli("dlq", "reprocess", id, "--json")) == {"reprocessed": 1, "ids": [one["id"]], "remaining": 0}
    daemon.wait_for(f"/api/deliveries/{id}", lambda shown: shown["state"] == "dead" and shown["generation"] == 2)
    assert ok(daemon.cli("dlq", "discard", id, "--json")) == {"discarded": 1, "ids": [one["id"]], "remaining": 0}
    assert daemon.request("GET", f"/api/deliveries/{id}")[1]["reason"] == "discarded"


def test_a_bulk_verb_counts_and_asks_first(daemon: Daemon) -> None:
    one = dead_letter(daemon)
    only = ("--stream", one["stream"])
    for answer in ("n\n", ""):
        said = daemon.cli("dlq", "discard", *only, "--json", input=answer)
        assert (said.code, said.out) == (1, "")
        assert "Discard 1 dead letter?" in said.err
        assert "nothing was changed" in said.err
    assert daemon.cli("dlq", "discard", *only, "--dry-run").out == "1 dead letter would be discarded.\n"
    assert ok(daemon.cli("dlq", "discard", *only, "--json", input="y\n")) == {
        "discarded": 1,
        "ids": [one["id"]],
        "remaining": 0,
    }
    assert ok(daemon.cli("dlq", "discard", *only, "--yes", "--json")) == {"discarded": 0, "ids": [], "remaining": 0}


def test_all_means_all(daemon: Daemon) -> None:
    ids = {dead_letter(daemon)["id"] for _ in range(2)}
    assert ids <= set(ok(daemon.cli("dlq", "discard", "--all", "--dry-run", "--json"))["ids"])


def test_several_types_and_sources_become_a_list_of_which_one_must_match(daemon: Daemon) -> None:
    wish = (
        "--type",
        "order.placed",
        "--type",
        "order.paid",
        "--source",
        "till",
        "--source",
        "web",
        "--handler",
        "ship",
    )
    shown = ok(
        daemon.cli("contracts", "add", "--id", "several", *wish, "--property", "a=1", "--property", "a=2", "--json")
    )
    assert shown["type_criterion"]["match"] == ["order.placed", "order.paid"]
    assert shown["source_criterion"]["match"] == ["till", "web"]
    assert shown["properties"]["a"]["match"] == ["1", "2"]
    named = ok(daemon.cli("contracts", "add", *wish, "--json"))["id"]
    assert named.startswith("order.placed-")
    for id in ("several", named):
        ok(daemon.cli("contracts", "remove", id, "--json"))
    mixed = daemon.cli("contracts", "add", "--type", "order.*", "--type", "refund.made", "--handler", "ship")
    assert (mixed.code, "one pattern or several exact values" in mixed.err) == (2, True)


def test_a_telegram_contract_without_a_chat_is_refused(daemon: Daemon) -> None:
    url = "https://api.telegram.org/bot1:x/sendMessage"
    said = daemon.cli("contracts", "add", "--type", "x", "--url", url, "--format", "telegram")
    assert (said.code, "chat_id=" in said.err) == (2, True)


def test_an_id_that_is_no_dead_letter_is_named(daemon: Daemon) -> None:
    one = dead_letter(daemon)
    said = daemon.cli("dlq", "reprocess", str(one["id"]), "987654321", "--json")
    assert (said.code, said.json["ids"]) == (3, [one["id"]])
    assert "987654321" in said.err


def test_an_event_is_explained(daemon: Daemon) -> None:
    wish = ("--type", "order.*", "--property", "country=FR", "--handler", "ship")
    ok(daemon.cli("contracts", "add", "--id", "abroad", *wish, "--json"))
    id = emit(daemon, "order.placed", properties={"country": "NZ\x1b[2J"})
    delivered_as(daemon, id, "delivered")
    answer = ok(daemon.cli("explain", id, "--limit", "2", "--json"))
    assert answer == daemon.request("GET", f"/api/events/{id}/explain?limit=2")[1]
    assert [row["contract_id"] for row in answer["deliveries"]] == ["ship"]
    people = daemon.cli("explain", id).out
    (receipt,) = answer["deliveries"][0]["receipts"]
    assert receipt["state"] == "delivered"
    assert receipt["h_self"] in people
    assert people.splitlines()[1] == "it has 1 delivery"
    assert r"property 'country' is 'NZ\x1b[2J', not 'FR'" in people
    assert people.replace("\n", "").isprintable()
    for each in (daemon.cli("explain", "evt_none"), daemon.cli("explain", "evt_none", "--json")):
        assert (each.code, each.out, each.err) == (
            3, "", "holdfast: there is no event 'evt_none'; it may have been pruned\n",
        )  # fmt: skip
    ok(daemon.cli("contracts", "remove", "abroad", "--json"))


def test_an_event_nobody_wanted_is_explained_with_its_attempts_beside_it(daemon: Daemon) -> None:
    lonely = daemon.cli("explain", emit(daemon, "lonely.event")).out
    assert "no contract matches it" in lonely
    assert "type is 'lonely.event', which does not match the pattern 'order.*'" in lonely
    waits = daemon.cli("explain", waiting(daemon)["event_id"]).out
    assert "Attempts:" in waits


def test_trying_a_contract_says_why_it_misses(daemon: Daemon) -> None:
    id = emit(daemon, "order.placed", properties={"country": "NZ"})
    said = daemon.cli("contracts", "test", "--type", "order.*", "--property", "country=IS", "--limit", "1").out
    assert f"1 event, such as {id}: property 'country' is 'NZ', not 'IS'" in said


def test_contracts_are_added_shown_tried_and_removed(daemon: Daemon) -> None:
    emit(daemon, "try.me", properties={"country": "NZ"})
    wish = ("--type", "try.*", "--source", "app", "--property", "country=NZ", "--property", "lang=e?")
    tried = ok(daemon.cli("contracts", "test", *wish[:6], "--limit", "1000", "--json"))
    assert tried["matched"] >= 1
    made = ok(
        daemon.cli(
            "contracts", "add", "--id", "full", *wish, "--handler", "ship", "--ordered", "--policy", "patient",
            "--attempts", "3", "--ttl", "3600", "--timeout", "5", "--concurrency", "2", "--json",
        )
    )  # fmt: skip
    assert made["type_criterion"]["pattern"] == "try.*"
    assert made["source_criterion"]["match"] == "app"
    assert made["properties"]["country"]["match"] == "NZ"
    assert made["properties"]["lang"]["pattern"] == "e?"
    assert (made["ordered"], made["policy"], made["attempts"], made["timeout"]) == (True, "patient", 3, 5.0)
    assert made["expires_at"] is not None
    assert ok(daemon.cli("contracts", "show", "full", "--json")) == made
    assert made in ok(daemon.cli("contracts", "list", "--property", "country", "--value", "NZ", "--json"))
    assert ok(daemon.cli("contracts", "properties", "--json"))["country"] == ["NZ"]
    assert "type=try.* source=app country=NZ lang=e?" in daemon.cli("contracts", "list").out
    assert ok(daemon.cli("contracts", "remove", "full", "--json")) == {"deactivated": "full"}


def test_several_exact_values_of_a_property_are_alternatives(daemon: Daemon) -> None:
    wish = ("--property", "c=NZ", "--property", "c=AU", "--handler", "ship")
    made = ok(daemon.cli("contracts", "add", "--id", "either", "--type", "none.such", *wish, "--json"))
    assert made["properties"]["c"]["match"] == ["NZ", "AU"]


def test_a_secret_is_named_by_its_variable_and_never_shown(daemon: Daemon) -> None:
    secret = "canary-" + os.urandom(12).hex()
    wish = ("--id", "signed", "--type", "none.such", "--url", "http://127.0.0.1:9/hook")
    env = {"HOOK_SECRET": secret}
    texts = [
        daemon.cli("contracts", "add", *wish, "--secret-env", "HOOK_SECRET", *form, env=env)
        for form in ((), ("--json",))
    ]
    texts += [daemon.cli(*what) for what in (("contracts", "show", "signed"), ("contracts", "list", "--json"))]
    assert all(said.code == 0 for said in texts), texts
    assert not any(secret in said.out + said.err for said in texts)
    assert secret not in daemon.log
    with sqlite3.connect(f"file:{daemon.home}/holdfast.db?mode=ro", uri=True) as store:
        assert secret in "\n".join(store.iterdump()), "it must have been kept, or this test shows nothing"
    store.close()


def test_a_refused_target_is_a_failure_that_prints_the_remedy(daemon: Daemon) -> None:
    said = daemon.cli("contracts", "add", "--id", "meta", "--url", "http://169.254.169.254/")
    assert (said.code, said.out) == (1, "")
    assert "allow" in said.err


def test_pause_and_resume(daemon: Daemon) -> None:
    for scope, name in (("contract", "later"), ("address", "handler:later"), ("lane", f"lane:{next(_numbers)}")):
        paused = ok(daemon.cli("pause", f"--{scope}", name, "--json"))
        assert paused == {"scope": scope, "name": name, "paused": True, "changed": True}
        assert {"scope": scope, "name": name} in ok(daemon.cli("status", "--json"))["paused"]
        assert daemon.cli("resume", f"--{scope}", name).out == f"{scope.capitalize()} {name} resumed.\n"


def test_status_says_what_is_true(daemon: Daemon) -> None:
    shown = ok(daemon.cli("status", "--json"))
    assert (shown["healthy"], shown["duties"]["engine"]) == (True, "ok")
    assert "healthy" in daemon.cli("status").out


def test_prune_says_what_it_removed(daemon: Daemon) -> None:
    assert tuple(ok(daemon.cli("prune", "--json"))) == PRUNED


@pytest.mark.parametrize(
    "arguments",
    [
        ("events", "show", "evt_none"),
        ("streams", "show", "none"),
        ("streams", "events", "none"),
        ("deliveries", "show", "987654321"),
        ("deliveries", "retry", "987654321"),
        ("contracts", "show", "none"),
        ("contracts", "remove", "none"),
        ("pause", "--contract", "none"),
        ("token", "revoke", "tok_none"),
    ],
)
def test_what_is_not_there_is_3(arguments: tuple[str, ...], daemon: Daemon) -> None:
    said = daemon.cli(*arguments)
    assert (said.code, said.out) == (3, ""), said
    assert said.err.startswith("holdfast: ")
    assert len(said.err.splitlines()) == 1


def test_a_wrong_token_is_refused_and_a_small_one_may_only_look(daemon: Daemon) -> None:
    assert daemon.cli("status", env={"HOLDFAST_TOKEN": "hf_wrong"}).code == 1
    made = ok(daemon.cli("token", "create", "looker", "--scope", "read", "--json"))
    env = {"HOLDFAST_TOKEN": made["token"]}
    assert daemon.cli("status", env=env).code == 0
    denied = daemon.cli("prune", env=env)
    assert denied.code == 1
    assert "admin" in denied.err


def test_escapes_in_what_came_from_outside_do_not_reach_the_terminal(daemon: Daemon) -> None:
    evil = {"text": "\x1b]0;owned\x07\x9b31m\u202e\r\n"}
    one = dead_letter(daemon, payload=evil, properties={"who": "\x1b[2J"})
    for said in (
        daemon.cli("events", "show", one["event_id"]),
        daemon.cli("dlq", "inspect", "--stream", one["stream"]),
    ):
        assert said.code == 0
        assert "\\x1b]0;owned\\x07\\x9b31m\\u202e" in said.out
        assert all(c.isprintable() or c == "\n" for c in said.out)
    as_json = daemon.cli("events", "show", one["event_id"], "--json")
    assert all(c.isprintable() or c == "\n" for c in as_json.out)
    assert json.loads(as_json.out)["payload"] == evil


def test_receipts_are_listed_and_verified(daemon: Daemon) -> None:
    dead_letter(daemon)
    links = ok(daemon.cli("receipts", "list", "--limit", "1", "--json"))
    assert links["items"][0]["seq"] == 1
    assert ok(daemon.cli("receipts", "list", "--chain", "no-such", "--json")) == {"items": [], "next": None}
    assert daemon.cli("receipts", "verify").out.startswith("Receipts are intact: ")
    assert ok(daemon.cli("receipts", "verify", "--json"))["ok"] is True


def test_a_book_that_was_tampered_with_is_1_and_every_fault_is_printed(tmp_path: Path) -> None:
    with shop(tmp_path) as daemon:
        dead_letter(daemon)
        dead_letter(daemon)
        daemon.stop()
        with sqlite3.connect(daemon.home / "holdfast.db") as store:
            for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                store.execute(f'DROP TRIGGER "{name}"')
            store.execute("UPDATE holdfast_receipts SET at = at + 1 WHERE seq = 1")
        store.close()
        daemon.start()
        said = daemon.cli("receipts", "verify")
        assert said.code == 1
        assert "NOT intact" in said.out
        whole = daemon.cli("receipts", "verify", "--json")
        assert (whole.code, whole.json["ok"]) == (1, False)
        assert len(said.out.splitlines()) == len(whole.json["faults"]) + 1
