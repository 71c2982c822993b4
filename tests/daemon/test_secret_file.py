"""A token file that is replaced while the daemon runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from daemon import Daemon
from holdfast.config.secret_file import CHECK_EVERY_S, SecretFile
from holdfast.home import write_secret


class Moments:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self) -> None:
        self.now_s += CHECK_EVERY_S


def test_a_replaced_file_is_read_at_the_next_look(tmp_path: Path) -> None:
    moments, path = Moments(), tmp_path / "token"
    write_secret(path, "first")
    file = SecretFile(path, moments)
    assert file.text() == "first"
    write_secret(path, "second")
    assert file.text() == "first"  # not looked at again within a second
    moments.pass_by()
    assert file.text() == "second"


def test_a_file_that_may_not_be_used_leaves_the_old_secret_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moments, path = Moments(), tmp_path / "token"
    write_secret(path, "first")
    file = SecretFile(path, moments)
    assert file.text() == "first"
    path.unlink()
    moments.pass_by()
    assert file.text() == "first"
    path.write_text("loose")
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            moments.pass_by()
            assert file.text() == "first"
    assert len(caplog.messages) == 1
    assert "chmod 600" in caplog.messages[0]
    assert "loose" not in caplog.text
    path.chmod(0o600)
    moments.pass_by()
    assert file.text() == "loose"


def test_a_daemon_takes_a_new_token_without_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        before = (daemon.home / "token").read_text().strip()
        write_secret(daemon.home / "token", "hf_" + "ab" * 32)
        daemon.wait_for("/api/status", lambda answer: "version" in answer)
        assert daemon.request("GET", "/api/status")[0] == 200
        assert daemon.cli("status", env={"HOLDFAST_TOKEN": before}).code == 1
