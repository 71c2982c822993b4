"""Every operator verb that changes something leaves a receipt with its actor."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

import pytest

from daemon import Daemon, shop

STEPS: list[tuple[str, str, object, str]] = [
    ("POST", "/hooks/contracts", {"id": "c", "target": {"handler": "none"}, "type_criterion": "x.y"}, "contract.put"),
    ("POST", "/hooks/contracts/c/disable", {}, "contract.disable"),
    ("POST", "/hooks/contracts/c/enable", {}, "contract.enable"),
    ("POST", "/hooks/contracts/c/rotate", {"secret": "canary"}, "contract.rotate"),
    ("DELETE", "/hooks/contracts/c", None, "contract.remove"),
    ("POST", "/api/pause", {"scope": "lane", "name": "l"}, "pause"),
    ("POST", "/api/resume", {"scope": "lane", "name": "l"}, "resume"),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with shop(tmp_path_factory.mktemp("shop")) as running:
        yield running


def recorded(daemon: Daemon) -> list[tuple[str, str]]:
    """Actions and their actors, in order."""
    database = sqlite3.connect(daemon.home / "holdfast.db")
    rows = database.execute("SELECT leaves FROM holdfast_receipts WHERE chain <> 'substrate' ORDER BY rowid")
    leaves = [json.loads(line) for (text,) in rows for line in text.split(b"\n")]
    database.close()
    return [(leaf["action"], leaf["actor"]) for leaf in leaves if "action" in leaf]


def test_every_action_over_rest_leaves_a_receipt(daemon: Daemon) -> None:
    for method, path, body, action in STEPS:
        before = recorded(daemon)
        status, answer = daemon.request(method, path, body)
        assert status in (200, 201), answer
        assert recorded(daemon)[len(before) :] == [(action, "api:admin")], path


def test_a_token_made_on_the_command_line_leaves_a_receipt(daemon: Daemon) -> None:
    made = daemon.cli("token", "create", "ci", "--json").json
    assert daemon.cli("token", "revoke", made["id"]).code == 0
    *_, (created, by), (revoked, _) = recorded(daemon)
    assert (created, revoked, by.partition(":")[0]) == ("token.create", "token.revoke", "local")
    assert daemon.cli("receipts", "verify", "--rows").code == 0


def test_the_configuration_and_the_code_leave_receipts_when_the_daemon_starts(daemon: Daemon) -> None:
    actors = {actor for _, actor in recorded(daemon)}
    assert actors & {"application", "configuration"}
