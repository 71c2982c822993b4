"""`holdfast doctor`: each fault gives one finding, and nothing is changed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from daemon import Daemon, run_cli
from doctor_findings import levels, said_levels, text_of
from holdfast.home import Home
from holdfast.operations.doctor.home import check_disk, check_filesystem, check_permissions
from holdfast.operations.doctor.spool import check_receiver, check_spool
from holdfast.surfaces.cli.doctor import _store_of
from receiving import PYTHON, Receiver

MIB = 1 << 20


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A user without agent CLIs."""
    return {"HOME": str(tmp_path / "user"), "PATH": "/usr/bin:/bin"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


def test_a_healthy_installation_has_only_ok_findings(tmp_path: Path, env: dict[str, str]) -> None:
    with Daemon(tmp_path / "home", env=env) as daemon:
        daemon.cli("emit", "hello.world")
        said = daemon.cli("doctor", "--json", env=env)
        assert said.code == 0, said.out
        found = said_levels(said)
        assert set(found.values()) == {"ok"}, said.out
        assert {"config", "home.permissions", "home.secrets", "home.filesystem", "home.disk", "home.ballast", "daemon",
                "spool.waiting", "spool.rejected", "receiver.trouble", "receiver", "store.library", "store.reached",
                "store.whole", "store.dead", "store.pending", "store.log", "contracts", "service", "machine.tmux",
                "machine.clock", "agents"} == set(found)  # fmt: skip
        assert said.json["healthy"]
        shown = daemon.cli("doctor", env=env)
        assert shown.code == 0
        assert shown.out.splitlines()[-1] == "0 failures, 0 warnings"


def test_without_a_daemon_it_works_and_creates_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    said = run_cli(tmp_path / "nowhere", "doctor", "--json", env=env)
    found = said_levels(said)
    assert (said.code, found["daemon"], found["home.permissions"], found["store.reached"]) == (
        0,
        "warn",
        "warn",
        "warn",
    )
    assert not (tmp_path / "nowhere").exists()


def test_beside_an_application_its_own_store_is_examined(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "other.py").write_text(f'from holdfast import Outbox\noutbox = Outbox("sqlite:///{tmp_path}/app.db")\n')
    with Daemon(tmp_path / "home", app="other:outbox", cwd=tmp_path, env=env) as daemon:
        said = daemon.cli("doctor", "--json", env=env)
    assert said_levels(said)["store.reached"] == "ok"
    assert text_of(said, "store.reached").startswith("the store is SQLite")


def test_a_store_that_only_the_daemon_can_open_is_reported_as_not_checked() -> None:
    hidden, whole = "postgresql://app:***@db/shop", "postgresql://app:secret@db/shop"
    assert _store_of({"store": hidden}, "sqlite:///home.db") == (None, hidden)
    assert _store_of({"store": hidden}, whole) == (whole, None)
    assert _store_of({"store": "sqlite:///app.db"}, None) == ("sqlite:///app.db", None)
    assert _store_of(None, "sqlite:///home.db") == ("sqlite:///home.db", None)


def test_a_daemon_that_does_not_answer_is_a_failure(tmp_path: Path, env: dict[str, str]) -> None:
    said = run_cli(tmp_path / "home", "doctor", "--json", env={**env, "HOLDFAST_URL": "http://127.0.0.1:1"})
    assert (said.code, said_levels(said)["daemon"]) == (1, "fail")


def test_a_secret_that_does_not_resolve_is_named_and_never_shown(tmp_path: Path, env: dict[str, str]) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "holdfast.yml").write_text("hooks: {inbound: {shop: {secret: '${SHOP_SECRET}'}}}")
    said = run_cli(folder, "doctor", "--json", env=env)
    assert (said.code, said_levels(said)["config"]) == (1, "fail")
    assert "SHOP_SECRET is not set" in text_of(said, "config")
    said = run_cli(folder, "doctor", "--json", env={**env, "SHOP_SECRET": "whsec_c2VjcmV0LW9mLXRoZS1zaG9w"})
    assert said_levels(said)["config"] == "ok"
    assert "c2VjcmV0" not in said.out + said.err


def test_files_that_others_may_read_are_a_failure(home: Home) -> None:
    home.token.write_text("hf_token")
    home.token.chmod(0o600)
    assert set(levels(check_permissions(home)).values()) == {"ok"}
    home.token.chmod(0o644)
    assert levels(check_permissions(home))["home.secrets"] == "fail"
    home.token.chmod(0o600)
    home.database.touch(mode=0o600)
    home.database.chmod(0o644)
    assert levels(check_permissions(home))["home.secrets"] == "ok"  # nobody gets into the folder
    home.root.chmod(0o755)
    assert levels(check_permissions(home)) == {"home.permissions": "warn", "home.secrets": "fail"}
    home.root.chmod(0o777)
    assert levels(check_permissions(home)) == {"home.permissions": "fail"}


@pytest.mark.parametrize(
    ("kind", "level"), [("ext4", "ok"), ("nfs4", "fail"), ("fuse.sshfs", "fail"), ("tmpfs", "warn")]
)
def test_the_kind_of_disk_is_reported(home: Home, tmp_path: Path, kind: str, level: str) -> None:
    spaced = str(home.root.resolve()).replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - xfs /dev/a rw\n2 1 0:9 / {spaced} rw shared:1 - {kind} far:/x rw\n")
    (found,) = check_filesystem(home, None, mounts)
    assert (found.level, kind in found.text) == (level, True)


def test_low_disk_space_and_a_lost_ballast_are_reported(home: Home) -> None:
    url = f"sqlite:///{home.database}"
    free = os.statvfs(home.root).f_bavail * os.statvfs(home.root).f_frsize
    assert levels(check_disk(home, url, free * 2, MIB, alive=True)) == {"home.disk": "fail"}
    assert levels(check_disk(home, url, free // 2, free, alive=True)) == {"home.disk": "warn"}
    assert levels(check_disk(home, url, MIB, MIB, alive=True)) == {"home.disk": "ok", "home.ballast": "warn"}
    home.database.with_name("holdfast.db.ballast").write_bytes(bytes(MIB))
    assert levels(check_disk(home, url, MIB, MIB, alive=True))["home.ballast"] == "ok"
    assert levels(check_disk(home, url, MIB, MIB, alive=False)) == {"home.disk": "ok"}


def test_waiting_records_are_stuck_only_if_a_daemon_runs(home: Home) -> None:
    assert set(levels(check_spool(home, True, time.time())).values()) == {"ok"}
    Receiver(home.root)("--agent", "claude", "Stop", stdin=b"{}")
    now_s = time.time()
    assert levels(check_spool(home, False, now_s))["spool.waiting"] == "warn"
    assert levels(check_spool(home, True, now_s))["spool.waiting"] == "ok"
    assert levels(check_spool(home, True, now_s + 120))["spool.waiting"] == "fail"


def test_unreadable_and_rejected_records_are_reported(tmp_path: Path, env: dict[str, str]) -> None:
    with Daemon(tmp_path / "home", env=env) as daemon:
        home = Home(daemon.home)
        Receiver(home.root)("--agent", "claude", "Stop", stdin=b"{}")
        daemon.wait_for("/api/status", lambda status: status["events"] > 0)
        daemon.stop()
        Receiver(home.root)("--agent", "claude", "Stop", stdin=b"{}")
        (name,) = Receiver(home.root).names()
        (home.spool / name).write_bytes(b"no header")
        assert levels(check_spool(home, False, time.time()))["spool.corrupt"] == "warn"
        daemon.start()
        daemon.wait_for("/api/status", lambda status: status["spooled"] == 0)
        said = daemon.cli("doctor", "--json", env=env)
        assert (said.code, said_levels(said)["spool.rejected"]) == (0, "warn")


def test_events_in_a_fallback_folder_and_the_receivers_log_are_reported(tmp_path: Path, env: dict[str, str]) -> None:
    root = tmp_path / "home"
    root.mkdir(mode=0o700)
    (root / "spool").write_text("not a folder")
    receiver = Receiver(root)
    try:
        receiver("--agent", "claude", "Stop", stdin=b"{}")
        found = said_levels(run_cli(root, "doctor", "--json", env=env))
        assert (found["spool.fallback"], found["receiver.trouble"]) == ("warn", "warn")
    finally:
        receiver.clean()


def test_a_receiver_that_keeps_nothing_is_a_failure() -> None:
    assert levels(check_receiver(PYTHON)) == {"receiver": "ok"}
    assert levels(check_receiver(["/bin/false"])) == {"receiver": "fail"}
    assert levels(check_receiver(["/nowhere/python"])) == {"receiver": "fail"}
    (found,) = check_receiver([sys.executable, "-c", "print('heard')"])
    assert found.level == "fail"
