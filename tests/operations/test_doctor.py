"""The doctor finds what is really wrong, says it in one sentence each, and disturbs nothing."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, Said, run_cli, shop
from holdfast import __version__
from holdfast.agents.install.installer import Installer
from holdfast.home import Home
from holdfast.operations.doctor.agents import check_agents
from holdfast.operations.doctor.examine import Case, examine
from holdfast.operations.doctor.finding import Finding
from holdfast.operations.doctor.home import check_disk, check_filesystem, check_permissions
from holdfast.operations.doctor.spool import check_receiver, check_spool
from holdfast.operations.doctor.store import check_store
from holdfast.store.open import migrate_store
from holdfast.surfaces.cli.doctor import _store_of
from installing import make_environment
from postgres import Server, newest, own_server, schema, server  # noqa: F401
from receiving import PYTHON, Receiver

MIB = 1 << 20


def levels(found: list[Finding]) -> dict[str, str]:
    return {finding.id: finding.level for finding in found}


def said_levels(said: Said) -> dict[str, str]:
    return {finding["id"]: finding["level"] for finding in said.json["findings"]}


def text_of(said: Said, id: str) -> str:
    return next(finding["text"] for finding in said.json["findings"] if finding["id"] == id)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A user without agent CLIs."""
    return {"HOME": str(tmp_path / "user"), "PATH": "/usr/bin:/bin"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


def test_a_healthy_house_has_nothing_but_ok(tmp_path: Path, env: dict[str, str]) -> None:
    with Daemon(tmp_path / "home", env=env) as daemon:
        daemon.cli("emit", "hello.world")
        said = daemon.cli("doctor", "--json", env=env)
        assert said.code == 0, said.out
        found = said_levels(said)
        assert set(found.values()) == {"ok"}, said.out
        assert {"config", "home.permissions", "home.secrets", "home.filesystem", "home.disk", "home.ballast", "daemon",
                "spool.waiting", "spool.rejected", "receiver.trouble", "receiver", "store.library", "store.reached",
                "store.whole", "store.dead", "store.pending", "contracts", "agents"} == set(found)  # fmt: skip
        assert said.json["healthy"]
        shown = daemon.cli("doctor", env=env)
        assert shown.code == 0
        assert shown.out.splitlines()[-1] == "0 failures, 0 warnings"


def test_without_a_daemon_it_works_and_makes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
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


def test_a_store_that_only_the_daemon_can_open_is_said_not_to_be_examined() -> None:
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


def test_what_others_may_read_is_a_failure(home: Home) -> None:
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
def test_the_kind_of_disk_is_told(home: Home, tmp_path: Path, kind: str, level: str) -> None:
    spaced = str(home.root.resolve()).replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - xfs /dev/a rw\n2 1 0:9 / {spaced} rw shared:1 - {kind} far:/x rw\n")
    (found,) = check_filesystem(home, None, mounts)
    assert (found.level, kind in found.text) == (level, True)


def test_too_little_room_and_a_lost_ballast_are_told(home: Home) -> None:
    url = f"sqlite:///{home.database}"
    free = os.statvfs(home.root).f_bavail * os.statvfs(home.root).f_frsize
    assert levels(check_disk(home, url, free * 2, MIB, alive=True)) == {"home.disk": "fail"}
    assert levels(check_disk(home, url, free // 2, free, alive=True)) == {"home.disk": "warn"}
    assert levels(check_disk(home, url, MIB, MIB, alive=True)) == {"home.disk": "ok", "home.ballast": "warn"}
    home.database.with_name("holdfast.db.ballast").write_bytes(bytes(MIB))
    assert levels(check_disk(home, url, MIB, MIB, alive=True))["home.ballast"] == "ok"
    assert levels(check_disk(home, url, MIB, MIB, alive=False)) == {"home.disk": "ok"}


def test_what_waits_is_stuck_only_if_a_daemon_should_have_taken_it(home: Home) -> None:
    assert set(levels(check_spool(home, True, time.time())).values()) == {"ok"}
    Receiver(home.root)("--agent", "claude", "Stop", stdin=b"{}")
    now_s = time.time()
    assert levels(check_spool(home, False, now_s))["spool.waiting"] == "warn"
    assert levels(check_spool(home, True, now_s))["spool.waiting"] == "ok"
    assert levels(check_spool(home, True, now_s + 120))["spool.waiting"] == "fail"


def test_records_that_cannot_be_read_or_were_set_aside_are_told(tmp_path: Path, env: dict[str, str]) -> None:
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


def test_events_in_a_fallback_folder_and_the_receivers_log_are_told(tmp_path: Path, env: dict[str, str]) -> None:
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


def test_dead_letters_and_what_waits_too_long_are_told(tmp_path: Path, env: dict[str, str]) -> None:
    with shop(tmp_path, env=env) as daemon:
        daemon.cli("emit", "bad.order")
        daemon.cli("emit", "slow.order")
        daemon.wait_for("/api/status", lambda status: status["dead"] == 1 and status["pending"] == 1)
        said = daemon.cli("doctor", "--json", env=env)
        found = said_levels(said)
        assert (said.code, found["store.dead"], found["store.pending"]) == (0, "warn", "ok")
        assert text_of(said, "store.dead") == "1 dead letter"


async def test_a_delivery_that_waits_for_hours_is_told(tmp_path: Path, env: dict[str, str]) -> None:
    with shop(tmp_path, env=env) as daemon:
        daemon.cli("emit", "slow.order")
        daemon.wait_for("/api/status", lambda status: status["pending"] == 1)
    url = f"sqlite:///{daemon.home / 'holdfast.db'}"
    found = await check_store(url, time.time_ns() // 1_000_000 + 5 * 3600_000)
    assert levels(found)["store.pending"] == "warn"
    assert next(each.text for each in found if each.id == "store.pending").endswith("the oldest for 5 h")


async def test_a_damaged_file_is_a_failure(tmp_path: Path, env: dict[str, str]) -> None:
    with Daemon(tmp_path / "home", env=env) as daemon:
        for number in range(30):
            daemon.request("POST", "/api/events", {"type": "hello.world", "payload": {"n": number, "text": "x" * 2000}})
        daemon.stop()
    path = daemon.home / "holdfast.db"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 :] = os.urandom(len(raw) - len(raw) // 2)
    path.write_bytes(raw)
    found = levels(await check_store(f"sqlite:///{path}", time.time_ns() // 1_000_000))
    assert "fail" in found.values(), found
    path.write_bytes(b"no database at all")
    said = run_cli(daemon.home, "doctor", "--json", env=env)
    assert (said.code, said_levels(said)["store.reached"]) == (1, "fail")


async def test_another_version_and_a_tired_duty_are_told(home: Home, tmp_path: Path) -> None:
    async def level(status: dict[str, Any]) -> str:
        case = Case(home, make_environment(tmp_path), None, 0, 0, time.time_ns() // 1_000_000, status=status)
        found = {each.id: each.level for each in (await examine(case)).findings}
        return found["daemon"]

    assert await level({"version": __version__, "duties": {"spool": "ok"}}) == "ok"
    assert await level({"version": "0.0.1", "duties": {"spool": "ok"}}) == "warn"
    assert await level({"version": __version__, "duties": {"spool": "failing"}}) == "fail"


def test_each_agent_says_how_it_stands(home: Home, tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    for name in (".claude", ".codex", ".gemini", ".qwen"):
        (environment.home / name).mkdir()
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '2.1.9 (Claude Code)'\n")
    program.chmod(0o755)
    package = tmp_path / "lib" / "node_modules" / "gemini-cli"
    (package / "bundle").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": "0.61.0", "bin": {"gemini": "bundle/gemini.js"}}))
    script = package / "bundle" / "gemini.js"
    script.write_text("#!/bin/sh\necho started >&2; exit 1\n")
    script.chmod(0o755)
    (tmp_path / "bin" / "gemini").symlink_to(script)
    Installer(environment, home).install(["claude", "codex", "gemini"])
    settings = environment.home / ".gemini" / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "hooksConfig": {"enabled": False}}))
    heard = {"claude": "2026-01-31T12:00:00.000Z"}
    found = {each.id: each for each in check_agents(environment, home, heard, 1769861000.0)}
    assert {id: each.level for id, each in found.items()} == {
        "agent.claude": "ok", "agent.codex": "warn", "agent.gemini": "warn", "agent.qwen": "ok"
    }  # fmt: skip
    assert found["agent.claude"].text == "claude 2.1.9: installed, last event 3 min ago"
    assert found["agent.codex"].text == "codex (not on PATH): installed but not trusted, no recent event"
    assert "/hooks" in (found["agent.codex"].todo or "")
    assert found["agent.gemini"].text.startswith("gemini 0.61.0: disabled by setting")
    assert "receives no events" in found["agent.qwen"].text
    Path(environment.receiver).unlink()
    (environment.home / ".codex" / "hooks.json").write_text("{broken")
    found = {each.id: each for each in check_agents(environment, home, None, 0.0)}
    assert (found["agent.claude"].level, "stale path" in found["agent.claude"].text) == ("fail", True)
    assert (found["agent.codex"].level, "unreadable" in found["agent.codex"].text) == ("fail", True)


async def test_a_postgres_store_is_examined_too(server: Server, schema: str) -> None:  # noqa: F811
    url = server.url(schema)
    now_ms = time.time_ns() // 1_000_000
    migrate_store(url, own=True)
    found = await check_store(url, now_ms)
    assert set(levels(found).values()) == {"ok"}
    assert found[0].text.startswith(f"the store is PostgreSQL {server.version}")


async def test_a_server_that_may_lose_commits_is_a_failure() -> None:
    server = own_server(newest())  # noqa: F811
    try:
        server.psql("ALTER SYSTEM SET fsync = off")
        server.psql("ALTER SYSTEM SET synchronous_commit = off")
        server.psql("SELECT pg_reload_conf()")
        url = server.url("doctor")
        migrate_store(url, own=True)
        found = [each for each in await check_store(url, 0) if each.id == "store.whole"]
        assert [each.level for each in found] == ["fail", "fail"]
        assert {each.text.split()[0] for each in found} == {"fsync", "synchronous_commit"}
    finally:
        server.stop()
    (lost,) = await check_store(url, 0)
    assert (lost.id, lost.level) == ("store.reached", "fail")
