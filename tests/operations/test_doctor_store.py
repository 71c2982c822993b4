"""`holdfast doctor` on stores, daemons and agents: each fault gives one finding."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, run_cli, shop
from doctor_findings import levels, said_levels, text_of
from holdfast import __version__
from holdfast.agents.install.installer import Installer
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.event import new_event
from holdfast.home import Home, write_secret
from holdfast.operations.doctor.agents import check_agents
from holdfast.operations.doctor.daemon import judge_daemon
from holdfast.operations.doctor.examine import Case, examine
from holdfast.operations.doctor.machine import check_tmux
from holdfast.operations.doctor.store import check_store
from holdfast.store.open import migrate_store, open_store
from installing import make_environment
from postgres import Server, newest, own_server, schema, server  # noqa: F401


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A user without agent CLIs."""
    return {"HOME": str(tmp_path / "user"), "PATH": "/usr/bin:/bin"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


def test_dead_letters_and_long_waits_are_reported(tmp_path: Path, env: dict[str, str]) -> None:
    with shop(tmp_path, env=env) as daemon:
        daemon.cli("emit", "bad.order")
        daemon.cli("emit", "slow.order")
        daemon.wait_for("/api/status", lambda status: status["dead"] == 1 and status["pending"] == 1)
        said = daemon.cli("doctor", "--json", env=env)
        found = said_levels(said)
        assert (said.code, found["store.dead"], found["store.pending"]) == (0, "warn", "ok")
        assert text_of(said, "store.dead") == "1 dead letter"


async def test_a_delivery_that_waits_for_hours_is_reported(tmp_path: Path, env: dict[str, str]) -> None:
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


async def test_another_version_and_a_failing_duty_are_reported(home: Home, tmp_path: Path) -> None:
    async def level(status: dict[str, Any]) -> str:
        case = Case(home, make_environment(tmp_path), None, 0, 0, time.time_ns() // 1_000_000, status=status)
        found = {each.id: each.level for each in (await examine(case)).findings}
        return found["daemon"]

    assert await level({"version": __version__, "duties": {"spool": "ok"}}) == "ok"
    assert await level({"version": "0.0.1", "duties": {"spool": "ok"}}) == "warn"
    assert await level({"version": __version__, "duties": {"spool": "failing"}}) == "fail"


def test_the_state_of_each_agent_is_reported(home: Home, tmp_path: Path) -> None:
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
        "agent.claude": "ok", "agent.codex": "warn", "agent.gemini": "warn", "agent.qwen": "ok",
        "agent.claude.terminal": "ok",
    }  # fmt: skip
    assert found["agent.claude"].text == "claude 2.1.9: installed, last event 3 min ago"
    assert "and this is 2.1.9" in found["agent.claude.terminal"].text
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


def test_pauses_breakers_notes_and_a_closed_intake_are_reported() -> None:
    status = {
        "version": __version__,
        "duties": {"engine": "ok"},
        "misconfigured": [],
        "not_accepting": "the disk is full",
        "paused": [{"scope": "contract", "name": f"c{number}"} for number in range(7)],
        "breakers": ["https://a.example"],
        "notes": ["fleet: mirror: 2 dead letters, more than 0"],
    }
    found = judge_daemon(status)
    assert [finding.level for finding in found if finding.id == "daemon.intake"] == ["fail"]
    paused = [finding.text for finding in found if finding.id == "daemon.paused"]
    assert paused[0] == "deliveries of contract c0 are paused"
    assert paused[-1] == "2 more are paused"
    texts = {finding.id: finding.text for finding in found}
    assert "https://a.example" in texts["daemon.breakers"]
    assert texts["daemon.notes"] == "fleet: mirror: 2 dead letters, more than 0"


async def test_a_disabled_contract_and_a_clock_in_the_past_are_reported(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/app.db", keep=True)
    await store.contracts.put(Contract("quiet", parse_address("handler:log"), active=False), None)
    await store.events.append([new_event("a")])
    await store.close()
    now_ms = time.time_ns() // 1_000_000
    found = {finding.id: finding for finding in await check_store(f"sqlite:///{tmp_path}/app.db", now_ms - 3_600_000)}
    assert found["contracts.disabled"].level == "warn"
    assert found["contracts.disabled"].todo == (
        "run: holdfast contracts enable quiet, or: holdfast contracts remove quiet"
    )
    assert found["machine.clock"].level == "warn"
    assert "in the future" in found["machine.clock"].text
    assert found["store.log"].level == "ok"


@pytest.mark.parametrize(
    ("says", "level", "text"),
    [
        ("tmux 3.3a", "ok", "tmux 3.3a"),
        ("tmux 2.9", "warn", "tmux 2.9 is older than 3.0"),
        ("tmux next", "ok", "unknown"),
    ],
)
def test_an_old_tmux_is_reported(tmp_path: Path, says: str, level: str, text: str) -> None:
    program = tmp_path / "bin" / "tmux"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    (finding,) = check_tmux(make_environment(tmp_path))
    assert (finding.level, text in finding.text) == (level, True)


def test_another_store_can_be_examined(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "other.py").write_text(f'from holdfast import Outbox\noutbox = Outbox("sqlite:///{tmp_path}/app.db")\n')
    url = f"sqlite:///{tmp_path}/app.db"
    assert run_cli(tmp_path / "home", "db", "migrate", "--store", url, env=env).code == 0
    said = run_cli(tmp_path / "home", "doctor", "--store", url, "--json", env=env)
    assert said_levels(said)["store.reached"] == "ok"
    said = run_cli(tmp_path / "home", "doctor", "--app", "other:outbox", "--json", env=env, cwd=tmp_path)
    assert said_levels(said)["store.reached"] == "ok"
    said = run_cli(tmp_path / "home", "doctor", "--app", "other:outbox", "--store", url, env=env, cwd=tmp_path)
    assert said.code == 2


def test_fix_closes_what_others_may_read_and_repairs_stale_hooks(tmp_path: Path, env: dict[str, str]) -> None:
    home = tmp_path / "home"
    (tmp_path / "user" / ".claude").mkdir(parents=True)
    assert run_cli(home, "db", "migrate", env=env).code == 0
    assert run_cli(home, "hooks", "install", "--agent", "claude", env=env).code == 0
    settings = tmp_path / "user" / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace("/agents/receiver/", "/agents/gone/"))
    write_secret(home / "token", "hf_x")
    home.chmod(0o755)
    (home / "token").chmod(0o644)
    before = run_cli(home, "doctor", "--json", env=env)
    assert said_levels(before)["home.secrets"] == "fail"
    assert said_levels(before)["agent.claude"] == "fail"
    said = run_cli(home, "doctor", "--fix", "--json", env=env)
    assert f"fixed: set the mode of {home} to 0700" in said.err
    assert said_levels(said)["home.permissions"] == "ok"
    assert said_levels(said)["home.secrets"] == "ok"
    assert "fixed: installed the hooks of claude again" in said.err
    assert said_levels(said)["agent.claude"] == "ok"
    again = run_cli(home, "doctor", "--fix", env=env)
    assert "fixed:" not in again.err


def test_readers_that_fail_or_expired_are_reported() -> None:
    reader = {"name": "sink:cache", "failing_streams": 2, "expired_streams": 1, "error": "refused", "active": True}
    idle = {"name": "old", "failing_streams": 0, "expired_streams": 0, "active": False, "lag_events": 3}
    status = {"version": __version__, "duties": {}, "misconfigured": [], "readers": [reader, idle]}
    texts = [finding.text for finding in judge_daemon(status) if finding.id == "daemon.readers"]
    assert "fails in 2 streams: refused" in texts[0]
    assert "stood still in 1 streams" in texts[1]
    assert "old ended" in texts[2]


HANGING = """
import asyncio
from holdfast import Outbox

outbox = Outbox("sqlite:///{path}")

@outbox.on("slow")
async def hang(event):
    await asyncio.sleep(600)
"""


async def test_leases_of_a_killed_process_parked_and_unserved_deliveries_are_reported(
    tmp_path: Path, env: dict[str, str]
) -> None:
    path = tmp_path / "home" / "app.db"
    path.parent.mkdir(mode=0o700)
    (tmp_path / "hanging.py").write_text(HANGING.format(path=path))
    url = f"sqlite:///{path}"
    with Daemon(tmp_path / "home", app="hanging:outbox", cwd=tmp_path, env=env) as daemon:
        for id, handler in (("off", "off"), ("nobody", "nobody")):
            assert daemon.cli("contracts", "add", "--id", id, "--type", id, "--handler", handler).code == 0
        for type in ("slow", "off", "off"):
            daemon.cli("emit", type)
        daemon.wait_for("/api/status", lambda status: status["in_flight"] == 1 and status["pending"] == 3)
        assert daemon.cli("contracts", "disable", "off").code == 0
        said = run_cli(tmp_path / "other", "doctor", "--store", url, "--json", env=env)
        assert text_of(said, "store.leases") == "1 delivery is leased by processes that run"
        assert (
            text_of(said, "contracts") == "contract nobody is misconfigured: handler 'nobody' is served by no process"
        )
        assert text_of(said, "contracts.disabled") == "contract off is disabled, and 2 deliveries are parked"
        pid = daemon.pid
        daemon.kill9()
        said = run_cli(tmp_path / "other", "doctor", "--store", url, "--json", env=env)
        assert said_levels(said)["store.leases"] == "warn"
        assert text_of(said, "store.leases") == f"1 delivery is still leased by processes that are gone (pid {pid})"
        assert said_levels(said)["contracts"] == "ok"  # nothing works on the store, so nothing can be said
