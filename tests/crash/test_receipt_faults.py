"""After a campaign `receipts verify --rows` is clean: the check of the proof finds what is not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from daemon import Daemon
from evidence_samples import broken, good
from holdfast.proof.kills.snapshot import read_store
from holdfast.proof.receipt_faults import compare_rows, verify_url
from holdfast.store.roles.receipts import ContractState, OperatorState
from vandal import Vandal

ENDED = "UPDATE {t}deliveries SET state = 'delivered', reason = NULL WHERE state = 'dead'"
FORGED = "INSERT INTO {t}tokens VALUES ('tok_x', 'x', 'admin', 'h', 1, NULL)"


@pytest.mark.parametrize(("change", "said"), [(ENDED, "row_differs: delivery 1"), (FORGED, "token tok_x has no")])
def test_a_store_that_a_killed_daemon_left(tmp_path: Path, change: str, said: str) -> None:
    home = tmp_path / "home"
    with Daemon(home) as daemon:
        event = {"type": "hook.agent_stop", "source": "hook", "stream": "session:x", "to": "handler:sessions"}
        assert daemon.request("POST", "/api/events", event)[0] == 201
        daemon.wait_for("/api/dlq/count", lambda answer: answer["count"] == 1)  # no hook is in it
        assert daemon.cli("contracts", "add", "--id", "c", "--url", "https://example.com/x").code == 0
        daemon.kill9()
    url = f"sqlite:///{home}/holdfast.db"
    assert verify_url(url) == []
    assert compare_rows(read_store(home / "holdfast.db")) == []
    asyncio.run(Vandal(sqlite=home / "holdfast.db").run(change))
    (line,) = verify_url(url)
    assert said in line
    assert compare_rows(read_store(home / "holdfast.db")) == [line]


def test_rows_that_were_read_are_compared_with_the_fold_of_their_receipts() -> None:
    rows = good().store
    assert compare_rows(rows) == []
    first, second = rows.deliveries
    assert (
        "row_differs" in compare_rows(replace(rows, deliveries=[first._replace(state="dead", reason="x"), second]))[0]
    )
    assert "row_missing" in compare_rows(replace(rows, deliveries=[second]))[0]
    stranger = OperatorState({}, [ContractState("c", "0" * 64, active=True, removed=False)], [], [])
    assert compare_rows(replace(rows, operator=stranger)) == ["no link: row_without_receipt: contract c has no receipt"]


def test_the_proof_fails_if_the_receipts_of_a_campaign_do_not_verify() -> None:
    assert broken(good()) == set()
    assert broken(replace(good(), receipt_faults=["node-0001 3: gap: link 3 is missing"])) == {"receipts"}


def test_the_result_of_a_proof_names_the_faults() -> None:
    from holdfast.proof.kills.table import Proof
    from holdfast.proof.streams.judge import Campaign

    proof = Proof(1)
    assert json.loads(json.dumps(proof.as_dict()))["receipt_faults"] == 0
    proof.publishing = Campaign(faults=["receipts: node-0001 3: gap: link 3 is missing"])
    assert (proof.ok, proof.as_dict()["receipt_faults"]) == (False, 1)
