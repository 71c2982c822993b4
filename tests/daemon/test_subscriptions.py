"""The `hooks.subscriptions` of a file: in force after a start, gone when taken out, never skipped in silence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon import Daemon
from holdfast.config.config import load_config
from holdfast.domain.errors import BadConfig

SEED = """
hooks:
  # Subscriptions: declare interest in events
  subscriptions:
    - id: notify-on-error
      contract:
        source:
          match: system
        type:
          pattern: 'error.*'
      target:
        url: https://example.com/alerts
        secret: ${ALERT_SECRET}

    - id: log-sessions
      contract:
        type:
          pattern: 'session.*'
      target:
        handler: session_logger
"""


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{id: a, target: {handler: h}, contract: {type: {regex: x}}}", r"entry 1 \(a\).*unknown key 'regex'"),
        ("{id: a, target: {handler: h}}, {id: a, target: {handler: h}}", r"entry 2 \(a\): duplicate id"),
        ("just text", "entry 1: a subscription is a mapping"),
        ("{id: a, target: {session: s}}", r"entry 1 \(a\): a contract for a session needs senders"),
        ("{id: a, target: {url: 'http://169.254.169.254/x'}}", r"entry 1 \(a\): .*a cloud metadata service"),
        ("{id: a, target: {url: 'https://[fe80::1]/x'}}", r"entry 1 \(a\): .*a link-local address"),
    ],
)
def test_a_mistake_stops_the_start_and_names_its_place(tmp_path: Path, entry: str, message: str) -> None:
    path = tmp_path / "holdfast.yml"
    path.write_text(f"hooks: {{subscriptions: [{entry}]}}")
    with pytest.raises(BadConfig, match=message):
        load_config(path)


def test_the_files_own_targets_are_allowed_and_those_that_are_listed_exactly(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yml"
    entries = [
        f"{{id: c{n}, target: {{url: 'http://{host}/x'}}}}" for n, host in enumerate(("10.0.0.1", "169.254.169.254"))
    ]
    path.write_text(f"hooks: {{subscriptions: [{', '.join(entries)}]}}\negress: {{allow: [169.254.169.254/32]}}\n")
    assert len(load_config(path).subscriptions) == 2


def test_the_file_is_the_truth_about_its_own_contracts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {**os.environ, "ALERT_SECRET": "canary-alert"}
    with Daemon(home, config=SEED, env=env) as daemon:
        daemon.request("POST", "/hooks/contracts", {"id": "mine", "target": {"handler": "h"}})
        _, found = daemon.request("GET", "/hooks/contracts")
        assert [(one["id"], one["source"]) for one in found] == [
            ("log-sessions", "config"), ("mine", "api"), ("notify-on-error", "config"),
        ]  # fmt: skip
        assert "canary-alert" not in str(found)
        status, problem = daemon.request("DELETE", "/hooks/contracts/log-sessions")
        assert (status, "configuration file" in problem["detail"]) == (409, True)
        assert daemon.request("POST", "/hooks/contracts/log-sessions/disable", {})[0] == 200
    (home / "holdfast.yml").write_text(SEED[: SEED.index("    - id: log-sessions")])
    with Daemon(home, env=env) as daemon:
        _, found = daemon.request("GET", "/hooks/contracts?inactive=true")
        assert [one["id"] for one in found] == ["mine", "notify-on-error"]


def test_rotation_and_the_disabled_are_reached_from_the_command_line(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home", env={**os.environ, "NEXT": "canary-next"}) as daemon:
        said = daemon.cli("contracts", "add", "--type", "agent.agent_stop", "--url", "https://example.com", "--json")
        id = said.json["id"]
        assert id.startswith("agent.agent_stop-")
        assert daemon.cli("contracts", "rotate", id, "--secret-env", "NEXT").code == 0
        assert daemon.cli("contracts", "disable", id).code == 0
        assert daemon.cli("contracts", "list", "--json").json == []
        listed = daemon.cli("contracts", "list", "--inactive")
        assert "disabled" in listed.out
        assert "canary" not in listed.out + listed.err
        assert daemon.cli("contracts", "enable", id).code == 0
        assert daemon.cli("contracts", "rotate", "nobody", "--secret-env", "NEXT").code == 3
