"""A short share of the proof of publishing: servers are killed under load, and every event is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.proof.streams.campaign import kill_servers, lose_leaders
from holdfast.proof.streams.judge import Stored, judge


def say(line: str) -> None:
    pass


@pytest.mark.slow
def test_daemon_redis_and_nats_are_killed_and_every_event_arrives_in_order(tmp_path: Path) -> None:
    campaign = kill_servers(tmp_path, kills=8, seed=1, progress=say)
    assert campaign.violations == []
    assert campaign.events > 20
    assert sum(campaign.kills.values()) == 8


@pytest.mark.slow
def test_a_cluster_of_three_loses_its_leader_twice_and_no_event(tmp_path: Path) -> None:
    campaign = lose_leaders(tmp_path, losses=2, seed=1, progress=say, resume_max_s=120)  # a busy machine is slow
    assert campaign.violations == []
    assert campaign.repeats == 0
    assert campaign.events > 20
    assert len(campaign.pauses_s) == 2


def events(*seqs: int) -> list[Stored]:
    return [Stored(f"evt_{seq}", seq) for seq in seqs]


@pytest.mark.parametrize(
    ("held", "promise"),
    [
        (events(1, 2, 3), None),
        (events(1, 2, 1, 2, 3), None),
        (events(1, 3), "lost"),
        (events(1, 2), "lost"),
        (events(1, 3, 2), "order"),
        ([*events(1, 2), Stored("evt_other", 3)], "lost"),
    ],
)
def test_the_judge_sees_a_missing_and_a_misplaced_event(held: list[Stored], promise: str | None) -> None:
    found = judge({"s": ["evt_1"]}, {"s": events(1, 2, 3)}, {"bus": {"s": held}})
    assert [line.partition(":")[0] for line in found] == ([] if promise is None else [promise])


def test_the_judge_sees_an_accepted_event_that_the_store_lost() -> None:
    assert judge({"s": ["evt_9"]}, {"s": events(1)}, {})[0].startswith("lost: the store lacks 1")
