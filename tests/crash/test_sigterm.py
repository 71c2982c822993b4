"""SIGTERM: no new claims, running deliveries may finish, others are released, and the next start continues at once."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from holdfast.proof.kills.checker import check
from holdfast.proof.kills.processes import Daemon
from holdfast.proof.kills.sqlite_setup import SqlitePlan, SqliteSetup
from holdfast.store.sqlite.connection import ApswConnection

pytestmark = pytest.mark.slow

# Long enough for busy machines, but shorter than the grace of a stop (20 s) and a lease (30 s).
STOP_WITHIN_S = 15.0
RESUME_WITHIN_S = 15.0


def look(database: Path, query: str) -> list[tuple[object, ...]]:
    connection = ApswConnection(database, readonly=True)
    try:
        return connection.rows(query)
    finally:
        connection.close()


def test_a_stop_under_load_releases_unstarted_claims_and_loses_nothing(tmp_path: Path) -> None:
    """Two requests at a time, so that the daemon holds unstarted claims when it is stopped."""
    with SqliteSetup(tmp_path, SqlitePlan(seed=7, rate=300, fail=0.0, concurrency=2)) as setup:
        setup.open()
        for _ in range(3):
            time.sleep(0.7)
            assert setup.stop() < STOP_WITHIN_S
            assert look(setup.database, "SELECT * FROM holdfast_ready WHERE token IS NOT NULL") == []
            assert look(setup.database, "SELECT * FROM holdfast_ready WHERE starts <> 0") == []
            assert look(setup.database, "SELECT * FROM holdfast_owners WHERE ended_at IS NULL") == []
            assert not (setup.home / "address").exists()
            setup.start()
            began_s = time.monotonic()
            setup.wait_first_delivery()
            assert time.monotonic() - began_s < RESUME_WITHIN_S
            setup.daemon.wait_answering()
        setup.drain(print)
    verdict = check(setup.evidence())
    # No life was killed, so no duplicate is excused: started deliveries were finished and settled.
    assert verdict.violations == ()
    assert verdict.states["delivered"] > 0


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8])
def test_a_stop_during_start_up_ends_cleanly_and_the_next_start_works(tmp_path: Path, after_s: float) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir(mode=0o700)
    for attempt in range(2):  # on a new home, and on one left by such a stop
        daemon = Daemon(home, log)
        try:
            time.sleep(after_s)
            daemon.signal(signal.SIGTERM)
            code = daemon.wait(60)
        finally:
            daemon.end()
        # Before the signal handler is installed the signal ends the process: there is nothing to finish.
        assert code in (0, -signal.SIGTERM), f"attempt {attempt}: {log.read_text()}"
        assert "Traceback" not in log.read_text()
        assert not (home / "address").exists()
    daemon = Daemon(home, log)
    try:
        daemon.wait_answering()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    finally:
        daemon.end()


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    """After a second signal the daemon exits at once, and the next start takes over its leases."""
    with SqliteSetup(tmp_path, SqlitePlan(seed=9, rate=200, fail=0.0)) as setup:
        setup.open()
        setup.daemon.signal(signal.SIGTERM)
        setup.daemon.signal(signal.SIGTERM)
        assert setup.daemon.wait(60) in (0, 130)
        setup.start()
        setup.wait_first_delivery()
        setup.drain(print)
    verdict = check(setup.evidence())
    assert [item for item in verdict.violations if item.promise != "duplicate"] == []
