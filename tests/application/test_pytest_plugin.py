"""The fixture that applications test with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import BadInput, Contract, Event, Outbox, Reject, RetryAfter
from holdfast.domain.address import parse_address
from holdfast.testing.outbox import RecordingOutbox


def publish(outbox: RecordingOutbox, *types: str) -> None:
    with outbox.connection() as connection:
        for type in types:
            outbox.publish(connection, type, {"of": type})


def test_only_committed_events_are_published(holdfast_outbox: RecordingOutbox) -> None:
    publish(holdfast_outbox, "order.placed", "order.paid", "user.seen")
    holdfast_outbox.publish(holdfast_outbox.connection(), "order.lost")
    assert [event.type for event in holdfast_outbox.published("order.*")] == ["order.placed", "order.paid"]
    assert len(holdfast_outbox.published()) == 3


def test_drain_runs_the_applications_own_handlers(holdfast_outbox: RecordingOutbox) -> None:
    application, seen = Outbox("sqlite:///elsewhere.db"), []

    @application.on("order.placed")
    async def ship(event: Event) -> None:
        seen.append(event.type)
        publish(holdfast_outbox, "order.shipped")

    @application.on("order.shipped")
    def thank(event: Event) -> None:
        seen.append(event.type)

    holdfast_outbox.include(application)
    publish(holdfast_outbox, "order.placed")
    drained = holdfast_outbox.drain()
    assert (seen, drained.delivered, drained.dead) == (["order.placed", "order.shipped"], 2, [])
    assert holdfast_outbox.drain().delivered == 0


async def test_drain_is_awaited_in_a_coroutine(holdfast_outbox: RecordingOutbox) -> None:
    @holdfast_outbox.on("*")
    async def take(event: Event) -> None: ...

    publish(holdfast_outbox, "a", "b")
    assert (await holdfast_outbox.drain()).delivered == 2


def test_a_failure_is_retried_when_time_has_passed(holdfast_outbox: RecordingOutbox) -> None:
    seen = []

    @holdfast_outbox.on("*")
    async def take(event: Event) -> None:
        seen.append(event.type)

    publish(holdfast_outbox, "a")
    holdfast_outbox.fail_next(ConnectionError("down"), times=2)
    assert (holdfast_outbox.drain().failed, seen) == (1, [])
    assert holdfast_outbox.drain().failed == 0
    holdfast_outbox.advance(5)
    assert holdfast_outbox.drain().failed == 1
    holdfast_outbox.advance(5)
    assert (holdfast_outbox.drain().delivered, seen) == (1, ["a"])


@pytest.mark.parametrize(
    ("failure", "reason", "error"),
    [
        (422, "rejected", "answered 422: the receiver refuses this event"),
        (Reject("no"), "rejected", "no"),
        (503, None, None),
        (RetryAfter(30), None, None),
    ],
)
def test_failures_end_as_they_would(holdfast_outbox: RecordingOutbox, failure, reason, error) -> None:
    holdfast_outbox.on("*")(_take)
    publish(holdfast_outbox, "a")
    holdfast_outbox.fail_next(failure)
    dead = [(letter.reason, letter.last_error) for letter in holdfast_outbox.drain().dead]
    assert dead == ([] if reason is None else [(reason, error)])


def test_a_status_that_is_no_failure_is_refused(holdfast_outbox: RecordingOutbox) -> None:
    with pytest.raises(BadInput, match="204"):
        holdfast_outbox.fail_next(204)


def test_invalid_arguments_are_named(holdfast_outbox: RecordingOutbox) -> None:
    with pytest.raises(BadInput, match="from 300 to 599, not 'down'"):
        holdfast_outbox.fail_next("down")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="times must be at least 1, not 0"):
        holdfast_outbox.fail_next(503, times=0)
    for seconds in (-1, "5", float("nan")):
        with pytest.raises(BadInput, match="takes a number of seconds, 0 or more"):
            holdfast_outbox.advance(seconds)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="the application's Outbox, not 'shop:outbox'"):
        holdfast_outbox.include("shop:outbox")  # type: ignore[arg-type]


def test_webhooks_are_recorded_and_never_sent(holdfast_outbox: RecordingOutbox) -> None:
    holdfast_outbox.contracts.register(Contract("partner", parse_address("https://example.com/hook")))
    publish(holdfast_outbox, "order.placed")
    assert holdfast_outbox.drain().delivered == 1
    assert [(url, event.type) for url, event in holdfast_outbox.sent] == [("https://example.com/hook", "order.placed")]


def test_the_plugin_is_there_without_a_conftest_and_costs_little(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(
        "import sys\n"
        "def test_light():\n"
        "    assert not {'aiohttp', 'holdfast.outbox', 'apsw'} & set(sys.modules)\n"
        "def test_shop(holdfast_outbox):\n"
        "    with holdfast_outbox.connection() as connection:\n"
        "        holdfast_outbox.publish(connection, 'order.placed')\n"
        "    assert len(holdfast_outbox.published('order.*')) == 1\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, env=kept, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr


async def _take(event: Event) -> None: ...


def test_drain_returns_what_failed_attempts_raised(holdfast_outbox: RecordingOutbox) -> None:
    @holdfast_outbox.on("order.*")
    def ship(event: Event) -> None:
        event.payload["nokey"]

    publish(holdfast_outbox, "order.placed")
    drained = holdfast_outbox.drain()
    assert [repr(error) for error in drained.errors] == ["KeyError('nokey')"]
    assert repr(drained) == "Drained(delivered=0, failed=1, dead=0, errors=[KeyError('nokey')])"
    assert 'event.payload["nokey"]' in str(drained)
    assert holdfast_outbox.drain().errors == []


def test_events_without_a_contract_are_counted(holdfast_outbox: RecordingOutbox) -> None:
    publish(holdfast_outbox, "order.placed", "order.paid")
    drained = holdfast_outbox.drain()
    assert (drained.delivered, drained.unmatched) == (0, 2)
    assert "2 matched no contract; include(outbox)" in str(drained)
    assert "is include(outbox) missing?" in repr(drained)
