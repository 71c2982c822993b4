"""The flows of the hook service on a running daemon: its configuration as it was written, its four flows, a sink.

An internal event reaches a handler and a URL; a platform's push comes in, is normalized and goes out; deliveries are
retried, rejected and buried; contracts come from the file, the API and the code, and go again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from daemon import Daemon, fetch
from holdfast import Outbox
from holdfast.domain.retry import POLICIES
from postgres import newest, start
from sink import Received, Sink

pytest_plugins = ("postgres",)

ROUTE = """
hooks:
  inbound:
    github:
      path: /hooks/github
      secret: ${GITHUB_WEBHOOK_SECRET}
      normalizer: github
"""
HOOKS = """
hooks:
  # Inbound: receive webhooks from external platforms
  inbound:
    github:
      path: /hooks/github
      secret: ${GITHUB_WEBHOOK_SECRET}
      normalizer: github
    whatsapp:
      path: /hooks/whatsapp
      verify_token: ${WHATSAPP_VERIFY_TOKEN}
      secret: ${WHATSAPP_SECRET}
      normalizer: whatsapp

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
ALERT_SECRET = "whsec_" + base64.b64encode(b"alerts of the seed, 32 bytes long").decode()
GITHUB_SECRET = "canary-of-github"
ENV = {
    "GITHUB_WEBHOOK_SECRET": GITHUB_SECRET,
    "WHATSAPP_VERIFY_TOKEN": "canary-token",
    "WHATSAPP_SECRET": "canary-of-whatsapp",
    "ALERT_SECRET": ALERT_SECRET,
}
QUICK = "egress: {allow: [127.0.0.0/8]}\npolicies: {webhook: {schedule: [0.05], attempts: 3}}\n"


def seed(sink: Sink, **env: str) -> dict[str, Any]:
    """The configuration with nothing changed but where the alerts go."""
    return {
        "config": HOOKS.replace("https://example.com/alerts", "${ALERT_URL}"),
        "env": {**ENV, "ALERT_URL": sink.url, **env},
    }


async def call(daemon: Daemon, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return await asyncio.to_thread(daemon.request, method, path, body)


async def emit(daemon: Daemon, **event: Any) -> str:
    status, answer = await call(daemon, "POST", "/api/events", event)
    assert status == 201, answer
    return str(answer["id"])


async def ended(daemon: Daemon, event: str, timeout_s: float = 20.0) -> dict[str, Any]:
    """The one delivery of an event, once it is no longer pending, with its history."""

    def over(page: Any) -> bool:
        return bool(page["items"]) and all(item["state"] != "pending" for item in page["items"])

    page = await asyncio.to_thread(daemon.wait_for, f"/api/deliveries?event={event}", over, timeout_s)
    (item,) = page["items"]
    return dict((await call(daemon, "GET", f"/api/deliveries/{item['id']}"))[1])


def verified(got: Received, secret: str) -> Any:
    """The body, if a library of others finds it signed; and the older signature, worked out by hand."""
    headers = {name.lower(): value for name, value in got.headers.items()}
    expected = "sha256=" + hmac.new(secret.encode(), got.body, hashlib.sha256).hexdigest()
    assert headers["x-hook-signature"] == expected
    return Webhook(secret).verify(got.body, headers)


@pytest.mark.parametrize("config", [ROUTE, HOOKS], ids=["one route", "the whole section"])
def test_the_configuration_loads_as_it_was_written(tmp_path: Path, config: str) -> None:
    with Daemon(tmp_path / "home", config=config, env=ENV) as daemon:
        served = daemon.request("GET", "/openapi.json")[1]["paths"]
        assert "post" in served["/hooks/github"]
        contracts = daemon.request("GET", "/hooks/contracts")[1]
        assert [one["id"] for one in contracts] == (["log-sessions", "notify-on-error"] if config is HOOKS else [])
        assert "canary" not in json.dumps([served, contracts])


# 1. An internal event, a contract, a delivery


async def test_an_internal_event_reaches_the_handler_and_the_url(tmp_path: Path) -> None:
    """The bus of a host application, in a process of its own, beside the daemon on the same store."""
    async with Sink() as sink:
        with Daemon(tmp_path / "home", **seed(sink)) as daemon:
            bus = Outbox(f"sqlite:///{daemon.home}/holdfast.db").bus
            try:
                await bus.emit("SESSION_STARTED", session_id="s-1")
                await bus.emit("AGENT_EVENT", session_id="s-1", event_type="agent_stop")
                await bus.emit("ERROR", session_id="s-1", severity="fatal", source="tmux", code="E7", message="gone")
                await bus.emit("SESSION_CLOSED", session_id="s-1")
            finally:
                bus.close()
            (got,) = await sink.wait_for(1)
            event = verified(got, ALERT_SECRET)
            assert (event["source"], event["type"]) == ("system", "error.fatal")
            assert event["properties"]["session_id"] == "s-1"
            for type in ("session.started", "session.closed"):
                page = (await call(daemon, "GET", f"/api/events?type={type}"))[1]
                (item,) = page["items"]
                assert (item["source"], item["properties"]) == ("system", {"session_id": "s-1"})
                delivery = await ended(daemon, item["id"])
                assert (delivery["state"], delivery["contract_id"]) == ("delivered", "log-sessions")
                assert f"{type} session:s-1" in daemon.log, "the handler of the daemon said so"
            unmatched = (await call(daemon, "GET", "/api/events?unmatched=true"))[1]["items"]
            assert [item["type"] for item in unmatched] == ["agent.agent_stop"], "no contract, no delivery"
            assert len(sink.received) == 1


# 2. A platform's webhook, normalized and dispatched


def push(daemon: Daemon, secret: str = GITHUB_SECRET, delivery: str = "d-1") -> tuple[int, Any]:
    body = json.dumps({"ref": "refs/heads/main", "repository": {"full_name": "octo/hello"}}).encode()
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": signature,
    }
    return fetch(daemon.url, "POST", "/hooks/github", body, headers)


async def test_a_signed_push_is_normalized_and_dispatched_through_the_same_contracts(tmp_path: Path) -> None:
    async with Sink() as sink:
        setup = seed(sink)
        with Daemon(tmp_path / "home", config=setup["config"] + QUICK, env=setup["env"]) as daemon:
            wish = {
                "id": "pushes",
                "target": {"url": sink.url + "/pushes"},
                "source_criterion": {"match": "github"},
                "properties": {"repo": {"match": "octo/hello"}, "branch": {"match": ["main", "trunk"]}},
            }
            assert (await call(daemon, "POST", "/hooks/contracts", wish))[0] == 201
            assert (await asyncio.to_thread(push, daemon, "wrong"))[0] == 401
            assert await asyncio.to_thread(push, daemon) == (200, {"status": "accepted"})
            assert (await asyncio.to_thread(push, daemon))[0] == 200, "the platform sends it again"
            (got,) = await sink.wait_for(1)
            event = json.loads(got.body)
            assert (got.path, event["type"], event["properties"]["repo"]) == (
                "/hook/pushes", "github.push", "octo/hello",
            )  # fmt: skip
            found = (await call(daemon, "GET", "/api/events?source=github"))[1]["items"]
            assert [item["id"] for item in found] == [event["id"]]
            ask = "?hub.mode=subscribe&hub.verify_token=canary-token&hub.challenge=4653"
            assert await asyncio.to_thread(fetch, daemon.url, "GET", "/hooks/whatsapp" + ask, None, {}) == (200, 4653)
            wrong = ask.replace("canary-token", "other")
            assert (await asyncio.to_thread(fetch, daemon.url, "GET", "/hooks/whatsapp" + wrong, None, {}))[0] == 403


# 3. Outbound delivery


async def test_503_is_retried_under_one_id_with_fresh_signatures_until_it_is_delivered(tmp_path: Path) -> None:
    async with Sink([503, (429, {"Retry-After": "1"}, b"slow down"), 204]) as sink:
        setup = seed(sink)
        with Daemon(tmp_path / "home", config=setup["config"] + QUICK, env=setup["env"]) as daemon:
            id = await emit(daemon, type="error.fatal", source="system", payload={"code": 7})
            received = await sink.wait_for(3)
            delivery = await ended(daemon, id)
    assert (delivery["state"], delivery["attempts"]) == ("delivered", 3)
    assert [tried["detail"]["status"] for tried in delivery["history"]] == [503, 429, 204]
    assert {verified(got, ALERT_SECRET)["payload"]["code"] for got in received} == {7}
    assert {got.headers["webhook-id"] for got in received} == {id}
    assert len({got.body for got in received}) == 1
    stamps = [int(got.headers["webhook-timestamp"]) for got in received]
    assert stamps == sorted(stamps)
    assert stamps[2] > stamps[1], "the receiver asked for a second"


async def test_400_is_rejected_at_once_and_503_is_dead_after_its_attempts(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=json.loads(await request.read())["payload"]["answer"])

    async with Sink(answer) as sink:
        setup = seed(sink)
        with Daemon(tmp_path / "home", config=setup["config"] + QUICK, env=setup["env"]) as daemon:
            refused = await emit(daemon, type="error.a", source="system", payload={"answer": 400})
            failing = await emit(daemon, type="error.b", source="system", payload={"answer": 503})
            first, second = await ended(daemon, refused), await ended(daemon, failing)
            dead = (await call(daemon, "GET", "/api/dlq"))[1]["items"]
    assert (first["state"], first["reason"], first["attempts"]) == ("dead", "rejected", 1)
    assert (second["state"], second["reason"], second["attempts"]) == ("dead", "exhausted", 3)
    assert {item["event_id"] for item in dead} == {refused, failing}
    assert len(sink.received) == 4


def test_the_schedule_is_the_documented_one() -> None:
    webhook = POLICIES["webhook"]
    waits = [webhook.delay_s(attempt, chance=0.0) for attempt in range(1, 10)]
    assert (waits, webhook.attempts) == ([1, 2, 4, 8, 16, 32, 60, 60, 60], 10)


# 4. The life of contracts

APPLICATION = """
import os
from holdfast import Contract, Outbox
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Criterion

outbox = Outbox("sqlite:///" + os.environ["HOLDFAST_HOME"] + "/holdfast.db")
outbox.contracts.register(
    Contract("in-code", parse_address(os.environ["SINK"]), type_criterion=Criterion("code.sent"), source="programmatic")
)
"""


async def test_contracts_come_from_the_file_the_api_and_the_code(tmp_path: Path) -> None:
    (tmp_path / "host.py").write_text(APPLICATION, encoding="utf-8")
    async with Sink() as sink:
        setup = seed(sink, SINK=sink.url)
        with Daemon(tmp_path / "home", app="host:outbox", cwd=tmp_path, **setup) as daemon:
            wish = {"id": "by-api", "target": {"handler": "nobody-has-it"}, "type_criterion": {"match": "x.y"}}
            status, made = await call(daemon, "POST", "/hooks/contracts", wish)
            assert (status, made["source"], made["unserved"]) == (201, "api", True)
            for life in range(2):  # and all of them survive a restart
                found = (await call(daemon, "GET", "/hooks/contracts"))[1]
                assert {one["id"]: one["source"] for one in found} == {
                    "by-api": "api", "in-code": "programmatic", "log-sessions": "config", "notify-on-error": "config",
                }  # fmt: skip
                await emit(daemon, type="code.sent")
                await sink.wait_for(life + 1)
                await asyncio.to_thread(daemon.restart)
            kept = (await call(daemon, "GET", "/hooks/contracts?source=programmatic"))[1]
            assert [one["id"] for one in kept] == ["in-code"]


async def test_a_contract_matches_nothing_after_its_time_to_live(tmp_path: Path) -> None:
    async with Sink() as sink:
        with Daemon(tmp_path / "home", config=QUICK) as daemon:
            wish = {"id": "short", "target": {"url": sink.url}, "type_criterion": {"match": "a.b"}, "ttl_seconds": 2}
            status, made = await call(daemon, "POST", "/hooks/contracts", wish)
            assert (status, made["active"]) == (201, True)
            assert made["expires_at"] > made["created_at"]
            await emit(daemon, type="a.b")
            await sink.wait_for(1)
            await asyncio.sleep(2.1)
            late = await emit(daemon, type="a.b")
            explained = (await call(daemon, "GET", f"/api/events/{late}/explain"))[1]
            assert "expired" in json.dumps(explained)
            shown = (await call(daemon, "GET", f"/api/events/{late}"))[1]
            assert shown["deliveries"] == []
            assert len(sink.received) == 1


async def test_contracts_are_listed_by_their_criteria_and_deleted(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home", config=HOOKS, env=ENV) as daemon:
        for id, severity in (("one", ["error", "fatal"]), ("two", "info")):
            wish = {
                "id": id, "target": {"handler": "session_logger"},
                "properties": {"severity": {"match": severity}, "host": {"required": True}},
            }  # fmt: skip
            assert (await call(daemon, "POST", "/hooks/contracts", wish))[0] == 201

        async def listed(query: str) -> list[str]:
            return [one["id"] for one in (await call(daemon, "GET", "/hooks/contracts" + query))[1]]

        assert await listed("") == ["log-sessions", "notify-on-error", "one", "two"]
        assert await listed("?property=severity") == ["one", "two"]
        assert await listed("?property=severity&value=fatal") == ["one"]
        assert await listed("?property=type&value=session.started") == ["log-sessions"]
        assert await listed("?source=config") == ["log-sessions", "notify-on-error"]
        properties = (await call(daemon, "GET", "/hooks/properties"))[1]
        assert properties == {"host": [], "severity": ["error", "fatal", "info"]}
        assert await call(daemon, "DELETE", "/hooks/contracts/one") == (200, {"deactivated": "one"})
        assert (await call(daemon, "DELETE", "/hooks/contracts/one"))[0] == 404
        assert (await call(daemon, "DELETE", "/hooks/contracts/log-sessions"))[0] == 409
        assert await listed("?property=severity") == ["two"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type_criterion": {"regex": "x"}}, "unknown key 'regex'"),
        ({"type_criterion": {"match": []}}, "never match"),
        ({"properties": {"x": {"pattern": ""}}}, "wildcard of 1 to 200"),
        ({"target": {"url": "not a url"}}, "not an address"),
        ({"target": {"url": "https://169.254.169.254/"}}, "metadata"),
        ({"target": {"url": "https://example.com", "handler": "h"}}, "Exactly one"),
        ({"target": {"secret": "only"}}, "Exactly one"),
        ({"ttl_seconds": -1}, "ttl_seconds must be positive"),
        ({"ttl_seconds": 60, "expires_at": "2999-01-01T00:00:00Z"}, "not both"),
    ],
)
def test_an_invalid_contract_is_refused_with_the_reason(running: Daemon, change: dict[str, Any], message: str) -> None:
    status, problem = running.request("POST", "/hooks/contracts", {"id": "c", "target": {"handler": "h"}, **change})
    assert (status, message in problem["detail"]) == (422, True), problem


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Daemon(tmp_path_factory.mktemp("daemon") / "home") as daemon:
        yield daemon


# Several daemons on one store


async def test_a_change_made_at_one_daemon_is_in_force_at_the_other_within_a_second(tmp_path: Path) -> None:
    """The other one accepts an event a second later, and the new contract gets it, whichever daemon routes it."""
    env = {"HOLDFAST_STORE": start(newest()).url(f"seed_{tmp_path.name[-20:].replace('-', '_').lower()}")}
    async with Sink() as sink:
        with Daemon(tmp_path / "a", config=QUICK, env=env) as one, Daemon(tmp_path / "b", config=QUICK, env=env) as two:
            wish = {"id": "new", "target": {"url": sink.url}, "type_criterion": {"match": "a.b"}}
            for round in range(3):
                assert (await call(one, "POST", "/hooks/contracts", wish))[0] == 201
                made = time.monotonic()
                assert (await call(two, "GET", "/hooks/contracts/new"))[0] == 200
                await asyncio.sleep(max(0.0, made + 1.0 - time.monotonic()))
                await emit(two, type="a.b", payload={"round": round})
                await sink.wait_for(round + 1)
                assert (await call(one, "DELETE", "/hooks/contracts/new"))[0] == 200
                await asyncio.sleep(1.0)
                missed = await emit(two, type="a.b")
                await asyncio.to_thread(wait_unmatched, two, missed)
            assert len(sink.received) == 3


def wait_unmatched(daemon: Daemon, event: str) -> None:
    """Until the router has looked at it: only then is it known that nobody wants it."""

    def listed(page: Any) -> bool:
        return any(item["id"] == event for item in page["items"])

    daemon.wait_for("/api/events?unmatched=true&limit=1000", listed)
