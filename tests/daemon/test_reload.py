"""The configuration file is read again when it changes or on SIGHUP; a file with a mistake changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import READY_S, Daemon, clean_env, fetch, wait_until
from holdfast.config.changes import Difference, compare, in_force
from holdfast.config.settings_file import read_settings
from screen import Screen

ONE = """
hooks:
  subscriptions:
    - {id: one, contract: {type: order.placed}, target: {url: "https://example.com/one"}}
"""
TWO = """
hooks:
  subscriptions:
    - {id: one, contract: {type: {pattern: order.*}}, target: {url: "https://example.com/one"}}
    - {id: two, contract: {type: order.paid}, target: {url: "https://example.com/two"}}
  inbound:
    acme: {path: /hooks/acme, insecure: true, normalizer: json}
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "home", config=ONE) as daemon:
        yield daemon


def write(daemon: Daemon, text: str) -> None:
    """As an editor does: a new file in place of the old one."""
    fresh = daemon.home / "holdfast.yml.new"
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(daemon.home / "holdfast.yml")


def contracts(daemon: Daemon) -> dict[str, Any]:
    return {each["id"]: each for each in daemon.request("GET", "/hooks/contracts?source=config")[1]}


def logged(daemon: Daemon, text: str) -> None:
    wait_until(lambda: text in daemon.log, READY_S, lambda: f"{text!r} is not in the log:\n{daemon.log}")


def post(daemon: Daemon, path: str) -> int:
    return fetch(daemon.url, "POST", path, json.dumps({"type": "a.b"}).encode(), {"Content-Type": "application/json"})[
        0
    ]


def test_contracts_and_inbound_routes_apply_without_a_restart(daemon: Daemon) -> None:
    assert contracts(daemon).keys() == {"one"}
    assert post(daemon, "/hooks/acme") == 401
    pid = daemon.pid
    write(daemon, TWO)
    logged(daemon, "contract added: two; contract changed: one; inbound source added: acme")
    assert contracts(daemon).keys() == {"one", "two"}
    assert contracts(daemon)["one"]["type_criterion"]["pattern"] == "order.*"
    assert post(daemon, "/hooks/acme") == 200
    daemon.wait_for("/api/events?source=acme", lambda page: len(page["items"]) == 1)
    assert "/hooks/acme" in daemon.request("GET", "/openapi.json")[1]["paths"]
    write(daemon, ONE)
    logged(daemon, "contract removed: two; inbound source removed: acme")
    assert contracts(daemon).keys() == {"one"}
    assert post(daemon, "/hooks/acme") == 401
    assert daemon.pid == pid


def test_a_file_with_a_mistake_is_refused_and_the_old_settings_stay(daemon: Daemon) -> None:
    for text, what in (
        ("hooks: [", "is not valid YAML"),
        ("hooks: {subscriptions: [{id: x}]}", "hooks.subscriptions"),
        ("hooks: {inbound: {acme: {path: /x, normalizer: 'no.such:module', insecure: true}}}", "cannot be imported"),
        ("store: ${NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE"),
    ):
        write(daemon, text)
        logged(daemon, what)
        assert contracts(daemon).keys() == {"one"}
        notes = daemon.request("GET", "/api/status")[1]["notes"]
        assert any("was not reloaded" in note and what in note for note in notes), notes
    write(daemon, TWO)
    daemon.wait_for("/hooks/contracts?source=config", lambda found: len(found) == 2)
    daemon.wait_for("/api/status", lambda answer: answer["notes"] == [])


def test_settings_that_need_a_restart_are_named_and_the_others_apply(daemon: Daemon) -> None:
    write(daemon, TWO + "server: {port: 4999}\nretention: {dead_days: 3}\nstore: sqlite:///elsewhere.db\n")
    logged(daemon, "these settings change only after a restart: store, server.port, retention.dead_days")
    assert contracts(daemon).keys() == {"one", "two"}
    daemon.wait_for("/api/status", lambda answer: any("server.port" in note for note in answer["notes"]))
    assert "elsewhere" not in daemon.log, "values may be secret"


def test_sighup_reads_the_file_and_a_missing_file_removes_nothing(daemon: Daemon) -> None:
    os.kill(daemon.pid, signal.SIGHUP)
    logged(daemon, "nothing that applies at once has changed")
    (daemon.home / "holdfast.yml").unlink()
    logged(daemon, "does not exist; the settings in force stay")
    assert contracts(daemon).keys() == {"one"}


def test_egress_allow_applies_without_a_restart(daemon: Daemon) -> None:
    body = {"id": "local", "target": {"url": "http://127.0.0.1:9/x"}}
    status, answer = daemon.request("POST", "/hooks/contracts", body)
    assert status == 422
    line = 'egress: {allow: ["127.0.0.0/8"]}'
    for part in (str(daemon.home / "holdfast.yml"), line, "no restart is needed", "--allow-loopback 9"):
        assert part in answer["detail"]
    write(daemon, ONE + line)
    logged(daemon, "egress.allow changed")
    assert daemon.request("POST", "/hooks/contracts", body)[0] == 201


def test_one_loopback_port_is_allowed_for_one_run(tmp_path: Path) -> None:
    env = clean_env(tmp_path)
    command = [sys.executable, "-m", "holdfast", "up", "--port", "0", "--allow-loopback", "4654"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        daemon = Daemon(tmp_path)
        daemon._process = process  # type: ignore[assignment]
        daemon.wait_ready()
        for url, expected in (
            ("http://127.0.0.1:4654/x", 201), ("http://localhost:4654/x", 201), ("http://[::1]:4654/x", 201),
            ("http://127.0.0.1:4655/x", 422), ("http://10.0.0.1:4654/x", 422), ("http://169.254.169.254:4654/x", 422),
        ):  # fmt: skip
            body = {"id": "local", "target": {"url": url}}
            assert daemon.request("POST", "/hooks/contracts", body)[0] == expected, url
    finally:
        process.terminate()
        process.wait(60)


def test_a_webhook_reaches_listen_on_an_allowed_port(tmp_path: Path) -> None:
    env = {**clean_env(tmp_path), "HOOK_SECRET": "s3cret"}
    listen = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "listen", "--port", "0", "--secret-env", "HOOK_SECRET", "--count", "1"],
        env=env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert listen.stdout is not None
    first = listen.stdout.readline()
    port = first.split("127.0.0.1:")[1].split()[0]
    assert f"holdfast up --allow-loopback {port}" in listen.stdout.readline()
    command = [sys.executable, "-m", "holdfast", "up", "--port", "0", "--allow-loopback", port]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        daemon = Daemon(tmp_path)
        daemon._process = process  # type: ignore[assignment]
        daemon.wait_ready()
        target = {"url": f"http://127.0.0.1:{port}/hook", "secret": "s3cret"}
        assert daemon.request("POST", "/hooks/contracts", {"id": "local", "target": target})[0] == 201
        said = daemon.cli("contracts", "ping", "local")
        assert said.code == 0, said
        assert "answered 200" in said.out
        printed, _ = listen.communicate(timeout=60)
        assert "POST /hook" in printed
        assert "signature: verified" in printed
    finally:
        process.terminate()
        process.wait(60)
        listen.kill()
        listen.wait(60)


def test_closing_the_terminal_stops_a_daemon_in_the_foreground(tmp_path: Path) -> None:
    home = tmp_path / "home"
    screen = Screen(tmp_path, home, 80, 24)
    screen.type("up --port 0")
    screen.wait(lambda lines: any("is up at" in line for line in lines))
    pid = json.loads((home / "holdfast.db.keeper").read_text())["pid"]
    screen.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), READY_S, lambda: f"process {pid} still runs")
    assert not (home / "address").exists(), "it did not stop cleanly"


def test_config_check_says_what_a_reload_would_change(daemon: Daemon, tmp_path: Path) -> None:
    assert "The running daemon uses its contracts." in daemon.cli("config", "check").out
    (tmp_path / "other.yml").write_text(TWO)
    said = daemon.cli("config", "check", env={"HOLDFAST_CONFIG": str(tmp_path / "other.yml")})
    assert said.code == 0
    assert "contract added: two; contract changed: one" in said.out
    (tmp_path / "other.yml").write_text("hooks: {subscriptions: [{id: x}]}")
    assert daemon.cli("config", "check", env={"HOLDFAST_CONFIG": str(tmp_path / "other.yml")}).code == 1
    daemon.stop()
    assert daemon.cli("config", "check", "--json").json["changes"] is None


def settings(tmp_path: Path) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        (tmp_path / "h.yml").write_text(text)
        return read_settings(tmp_path / "h.yml")

    return read


def test_changes_are_compared_by_name(tmp_path: Path) -> None:
    read = settings(tmp_path)
    changes = compare(read(ONE), read(TWO + "policies: {slow: {schedule: [60]}}\nserver: {port: 1}\n"))
    assert changes.contracts == Difference(("two",), ("one",), ())
    assert changes.sources == Difference(("acme",), (), ())
    assert changes.restart == ("server.port", "policies")
    assert compare(read(ONE), read(ONE)).applied == []
    both = in_force(read(ONE), read(TWO + "server: {port: 1}\n"))
    assert compare(read(TWO), both).applied == []
    assert compare(read(TWO), both).restart == ()
