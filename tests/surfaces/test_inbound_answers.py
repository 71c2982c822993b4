"""Answers of inbound sources: challenges, platforms' own libraries, paths."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
import stripe
from slack_sdk.signature import SignatureVerifier
from standardwebhooks import Webhook

from holdfast.config.config import load_config
from holdfast.config.inbound_config import RESERVED
from holdfast.domain.errors import BadConfig
from holdfast.operations.answers.encode import encode
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.inbound import GREETING
from holdfast.surfaces.rest.request_filter import BearerTokens
from inbound_api import KEY, WHSEC, Place, hub, inbound_handler, serve


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with serve(tmp_path) as place:
        yield place


async def test_a_challenge_is_answered_only_to_who_knows_the_token(place: Place) -> None:
    def asking(token: str, mode: str = "subscribe", challenge: str = "1158201444") -> str:
        return "/hooks/whatsapp?" + urlencode({"hub.mode": mode, "hub.verify_token": token, "hub.challenge": challenge})

    status, text, headers = await place.send(asking("token-canary"), method="GET")
    assert (status, text) == (200, "1158201444")
    assert headers["Content-Type"].startswith("text/plain")
    for path in (
        asking("wrong"), asking("tökén"), asking("token-canary", mode="x"), asking("token-canary", challenge=""),
        asking("token-canary").replace("whatsapp", "github"), "/hooks/whatsapp?hub.mode=subscribe",
    ):  # fmt: skip
        assert (await place.send(path, method="GET"))[0] == 403
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        status, _, headers = await place.send("/hooks/whatsapp", method=method)
        assert (status, set(headers["Allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})


async def test_opening_the_url_tells_what_it_is_for_and_nothing_else(place: Place) -> None:
    for path in ("/hooks/github", "/hooks/whatsapp", "/hooks/inbound/open", "/hooks/inbound/odd?a=1"):
        status, text, headers = await place.send(path, method="GET")
        assert (status, text) == (200, GREETING)
        assert headers["Content-Type"].startswith("text/plain")
        assert (await place.session.head(place.url + path)).status == 200
    assert await place.events() == []


async def test_one_whatsapp_request_may_hold_several_messages(place: Place) -> None:
    messages = [
        {"from": "4915", "id": f"wamid.{i}", "timestamp": "1790000000", "type": "text", "text": {"body": str(i)}}
        for i in range(3)
    ]
    body = json.dumps({"entry": [{"changes": [{"field": "messages", "value": {"messages": messages}}]}]}).encode()
    assert (await place.send("/hooks/whatsapp", body, **{"X-Hub-Signature-256": hub("wa-canary", body)}))[0] == 200
    found = await place.settled("whatsapp.message.text", 3)
    assert [event["properties"]["text"] for event in found[::-1]] == ["0", "1", "2"]
    again = json.dumps({"entry": [{"changes": [{"value": {"messages": messages[1:]}}]}]}).encode()
    assert (await place.send("/hooks/whatsapp", again, **{"X-Hub-Signature-256": hub("wa-canary", again)}))[0] == 200
    deliveries = place.runtime.operations.deliveries
    async with asyncio.timeout(60):
        while len(encode(await deliveries.find(state="delivered"))["items"]) < 2:
            await asyncio.sleep(0.01)
    assert len(await place.events(type="whatsapp.message.text")) == 3


def slack_headers(body: bytes, kind: str = "application/json") -> dict[str, str]:
    stamp = str(int(time.time()))
    signature = SignatureVerifier("slack-canary").generate_signature(timestamp=stamp, body=body)
    assert signature
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature, "Content-Type": kind}


async def test_slack_gets_its_challenge_and_no_text_for_a_command(place: Place) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "c-1", "token": "t"}).encode()
    assert (await place.send("/hooks/inbound/slack", body, **slack_headers(body)))[:2] == (200, {"challenge": "c-1"})
    form = urlencode({"command": "/deploy", "text": "now", "team_id": "T1", "channel_id": "C1"}).encode()
    headers = slack_headers(form, "application/x-www-form-urlencoded")
    assert (await place.send("/hooks/inbound/slack", form, **headers))[:2] == (200, "")
    (event,) = await place.settled("slack.command.deploy")
    assert event["properties"]["text"] == "now"
    assert (await place.send("/hooks/inbound/slack", form + b"x", **headers))[0] == 401


async def test_discord_gets_its_pong_and_refuses_a_forged_one(place: Place) -> None:
    event = {"type": 1, "event": {"type": "ENTITLEMENT_CREATE", "data": {}}}
    for body, status, answer in (
        ({"id": "1", "type": 1}, 200, {"type": 1}),
        ({"id": "2", "type": 2}, 200, {"type": 5}),
        ({"version": 1, "application_id": "3", "type": 0}, 204, ""),  # its webhook events want 204, and no body
        ({"version": 1, "application_id": "3", **event}, 204, ""),
    ):
        raw, stamp = json.dumps(body).encode(), str(int(time.time()))
        signed = {
            "X-Signature-Timestamp": stamp,
            "X-Signature-Ed25519": KEY.sign(stamp.encode() + raw).signature.hex(),
        }
        assert (await place.send("/hooks/inbound/discord", raw, **signed))[:2] == (status, answer)
        assert (await place.send("/hooks/inbound/discord", raw + b" ", **signed))[0] == 401


async def test_stripe_by_its_own_library(place: Place) -> None:
    charge = {"id": "ch_1", "object": "charge", "customer": "cus_1"}
    body = json.dumps({"id": "evt_1", "object": "event", "type": "charge.succeeded", "data": {"object": charge}})
    now = int(time.time())
    signed = {"Stripe-Signature": stripe_header(body, now)}
    assert stripe.Webhook.construct_event(body, signed["Stripe-Signature"], "stripe-canary").id == "evt_1"
    for _ in range(2):  # a platform that sends twice is answered twice, and the event is there once
        assert (await place.send("/hooks/inbound/stripe", body.encode(), **signed))[0] == 200
    (event,) = await place.settled("stripe.charge.succeeded")
    assert event["payload"]["data"]["object"]["customer"] == "cus_1"
    assert (await place.send("/hooks/inbound/stripe", body.encode() + b" ", **signed))[0] == 401
    late = {"Stripe-Signature": stripe_header(body, now - 400)}
    assert (await place.send("/hooks/inbound/stripe", body.encode(), **late))[0] == 401


def stripe_header(body: str, now: int) -> str:
    return f"t={now},v1={stripe.WebhookSignature._compute_signature(f'{now}.{body}', 'stripe-canary')}"


async def test_standard_webhooks_by_their_own_library(place: Place) -> None:
    def headers(body: bytes, moment: datetime) -> dict[str, str]:
        signature = Webhook(WHSEC).sign("msg_1", moment, body.decode())
        return {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": signature,
        }

    now = datetime.now(UTC).replace(microsecond=0)
    body = json.dumps({"type": "user.created", "timestamp": "2026-01-01T00:00:00Z", "data": {"id": 1}}).encode()
    assert (await place.send("/hooks/inbound/clerk", body, **headers(body, now)))[0] == 200
    (event,) = await place.settled("clerk.user.created")
    assert (event["timestamp"], event["properties"]["webhook_id"]) == ("2026-01-01T00:00:00Z", "msg_1")
    late = datetime.fromtimestamp(now.timestamp() - 400, UTC)
    status, answer, _ = await place.send("/hooks/inbound/clerk", body, **headers(body, late))
    assert (status, "more than 300 seconds" in answer["detail"]) == (401, True)


async def test_a_normalizer_that_fails_leaves_a_dead_letter_that_can_be_tried_again(place: Place) -> None:
    assert (await place.send("/hooks/inbound/odd", b'{"kept": true}'))[0] == 200
    async with asyncio.timeout(60):
        while not (dead := encode(await place.runtime.operations.dead_letters.inspect())["items"]):
            await asyncio.sleep(0.01)
    assert (dead[0]["address"], dead[0]["reason"]) == ("handler:inbound.odd", "rejected")
    assert "the normalizer of odd failed: KeyError: 'the field I wanted'" in dead[0]["last_error"]
    place.runtime.deliverers.handlers.add("inbound.odd", inbound_handler("odd"))
    await place.runtime.operations.dead_letters.reprocess(ids=[dead[0]["id"]], actor="test")
    (event,) = await place.settled("odd.received")
    assert event["payload"] == {"kept": True}


async def test_the_gate_stays_shut_for_everything_that_is_no_inbound_path(place: Place) -> None:
    for path in (
        "/hooks/github/",
        "/hooks/github/x",
        "/hooks/GITHUB",
        "//hooks/github",
        "/hooks/contracts",
        "/api/events",
    ):
        assert (await place.send(path, b"{}"))[0] in (421, 404), path
    assert (await place.send("/api/events", b"{}", Host="127.0.0.1"))[0] == 401
    assert (await place.send("/hooks/github", b"{}", Origin="https://evil.example"))[0] == 401


async def test_the_openapi_document_names_the_paths(place: Place) -> None:
    async with place.session.get(place.url + "/openapi.json") as response:
        paths = (await response.json())["paths"]
    assert set(paths["/hooks/whatsapp"]) == set(paths["/hooks/github"]) == {"get", "post"}
    assert paths["/hooks/github"]["post"]["security"] == []


async def test_no_path_of_our_own_can_be_taken(place: Place, tmp_path: Path) -> None:
    tokens = BearerTokens(None, place.runtime.operations.tokens.scope_of)
    own = build_app(place.runtime.operations, tokens, [], 1).openapi()["paths"]
    assert len(own) > 20
    for path in {*own, *RESERVED}:
        config = tmp_path / "bad.yml"
        config.write_text(f"hooks: {{inbound: {{x: {{secret: s, path: '{path}'}}}}}}", encoding="utf-8")
        with pytest.raises(BadConfig, match="path"):
            load_config(config)
