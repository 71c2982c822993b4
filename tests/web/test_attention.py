"""What needs attention, and what repairs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.operations.answers.contracts import ContractAnswer, contract_answer
from holdfast.operations.answers.receipts import CheckedReceipts, ReceiptFault
from holdfast.operations.answers.sessions import SessionAnswer
from holdfast.operations.answers.status import (
    MisconfiguredContract,
    PausedItem,
    Status,
    StuckLaneAnswer,
    WorkingDaemon,
)
from holdfast.surfaces.web.attention import Attention, find_attention

AT = "2026-11-18T10:00:00.000Z"
STATUS = Status(
    version="1", store="sqlite:///x", queue="native", healthy=True, not_accepting=None, uptime_seconds=1.0, events=0,
    unmatched=0, streams=0, unrouted=0, pending=0, in_flight=0, lanes=0, dead=0, dead_by_reason={}, spooled=0, hooks={},
    oldest_pending_seconds=None, next_due_at=None, paused=[], misconfigured=[], disabled=[], stuck=[], breakers=[],
    receipts=CheckedReceipts(None, 0, None), sessions={}, readers=[], daemons=[], duties={"router": "ok"}, notes=[],
)  # fmt: skip
SESSION = SessionAnswer(
    id="claude-s1", stream="session:claude-s1", agent="claude", native_id="s1", state="idle", cwd=None, pane=None,
    transcript=None, title=None, last_prompt=None, last_answer=None, name=None, host=None, last_message=None,
    last_message_origin=None, last_message_at=None, created_at=AT, updated_at=AT,
)  # fmt: skip
CONTRACT = contract_answer(
    Contract(id="c", address=parse_address("https://x.test/")),
    has_secret=False, active=True, unserved=False, fault=None,
)  # fmt: skip


def found(
    contracts: tuple[ContractAnswer, ...] = (), sessions: tuple[SessionAnswer, ...] = (), **changes: Any
) -> list[Attention]:
    return find_attention(replace(STATUS, **changes), contracts, sessions)


def test_where_all_is_well_there_is_nothing() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "level", "text", "path", "post"),
    [
        ({"not_accepting": "the disk is full"}, "bad", "New events are refused: the disk is full", "", ""),
        ({"duties": {"router": "failed 3 times"}}, "bad", "duty router is failing", "#processes", ""),
        ({"dead": 1}, "bad", "1 delivery is dead.", "/dead-letters", ""),
        ({"dead": 1200}, "bad", "1,200 deliveries are dead.", "/dead-letters", ""),
        (
            {"stuck": [StuckLaneAnswer("c s", 3, 7, "evt_1", 2, "answered 503", AT)]},
            "bad", "2 deliveries wait in lane c s behind one that failed 2 times: answered 503",
            "/events/evt_1", "/deliveries/7/retry",
        ),
        (
            {"misconfigured": [MisconfiguredContract("a/b", "policy 'x' is unknown")]},
            "bad", "Contract a/b is misconfigured: policy 'x' is unknown.", "/contracts/a%2Fb", "",
        ),
        (
            {"receipts": CheckedReceipts(AT, 2, ReceiptFault("node-0001", 7, "hash", "link 7 was changed", None))},
            "bad", "The receipts have 2 faults. First: link 7 was changed.", "#receipts", "/receipts/verify",
        ),
        (
            {"paused": [PausedItem("contract", "orders")]},
            "warn", "Deliveries of contract orders are paused.", "/contracts/orders", "/resume/contract/orders",
        ),
        (
            {"paused": [PausedItem("address", "https://x.test/…")]},
            "warn", "Deliveries of address https://x.test/… are paused.", "", "",
        ),
        ({"disabled": ["c"]}, "warn", "Contract c is disabled.", "/contracts/c", "/contracts/c/enable"),
        ({"breakers": ["https://x.test/"]}, "warn", "https://x.test/ keeps failing", "/contracts", ""),
        ({"oldest_pending_seconds": 3600}, "warn", "The oldest pending delivery was created 1 h ago.", "#queues", ""),
        ({"hooks": {"unlisted": 2, "repeated": 9}}, "warn", "2 hook events of agents were not appended", "", ""),
        ({"notes": ["the hooks of codex are installed but not trusted"]}, "warn", "The hooks of codex are", "", ""),
    ],
)  # fmt: skip
def test_each_fault_is_one_sentence_with_its_repair(
    changes: dict[str, Any], level: str, text: str, path: str, post: str
) -> None:
    (item,) = found(**changes)
    assert item.level == level
    assert text in item.text
    assert (item.path, item.post) == (path, post)
    assert bool(item.path) == bool(item.label)


def test_a_process_that_died_is_reported() -> None:
    died = WorkingDaemon(1, "db", 17, False, AT, AT, 3, 0, "node-0001")
    (item,) = found(daemons=[died, replace(died, alive=True)])
    assert "Process 17 on db has died" in item.text


def test_an_open_breaker_leads_to_its_contract() -> None:
    (item,) = found((CONTRACT,), breakers=["https://x.test/"])
    assert item.path == "/contracts/c"


def test_an_agent_that_waits_is_named_and_the_worst_comes_first() -> None:
    waiting = replace(SESSION, state="waiting", title="Fix the tests")
    items = found((), (waiting, replace(SESSION, state="idle")), dead=1, notes=["something"])
    assert [item.level for item in items] == ["bad", "warn", "warn"]
    assert items[-1].text == "claude waits for you in “Fix the tests”."
    assert items[-1].path == "/sessions/claude-s1"


def test_a_list_of_many_is_cut() -> None:
    paused = [PausedItem("contract", f"c{number}") for number in range(50)]
    assert len(found(paused=paused)) == 5
