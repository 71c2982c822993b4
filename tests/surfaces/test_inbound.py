"""Platforms' webhooks over real HTTP: every answer the page promises, and what is in the store afterwards."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
import nacl.signing
import pytest
import stripe
from slack_sdk.signature import SignatureVerifier
from standardwebhooks import Webhook

from holdfast.config.config import load_config
from holdfast.config.inbound_config import RESERVED
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.domain.errors import BadConfig, StoreBusy, StoreFull
from holdfast.domain.inbound_event import HookEvent
from holdfast.home import Home
from holdfast.ingress.webhook import normalizing
from holdfast.ingress.webhook.content import restored
from holdfast.ingress.webhook.platforms import find_normalizer
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.gate import Tokens
from holdfast.surfaces.rest.http_limits import LimitedConnection
from holdfast.surfaces.rest.inbound import GREETING
from postgres import fresh_schema, newest, start

KEY = nacl.signing.SigningKey(b"\x07" * 32)
WHSEC = "whsec_" + base64.b64encode(b"k" * 32).decode()
CONFIG = f"""
hooks:
  inbound:
    github: {{path: /hooks/github, secrets: [old-canary, new-canary]}}
    whatsapp: {{path: /hooks/whatsapp, secret: wa-canary, verify_token: token-canary}}
    slack: {{secret: slack-canary}}
    stripe: {{secret: stripe-canary}}
    discord: {{secret: {bytes(KEY.verify_key).hex()}}}
    clerk: {{secret: {WHSEC}, normalizer: standard}}
    open: {{insecure: true, body_max_bytes: 2000}}
    odd: {{insecure: true, normalizer: broken}}
    slow: {{insecure: true, normalizer: slow_first}}
"""


def broken(payload: Any, headers: Any) -> Any:
    raise KeyError("the field I wanted")


def slow_first(payload: Any) -> HookEvent:
    time.sleep(0.3 if payload["number"] == 0 else 0)  # time for the others to overtake, if they could
    return HookEvent("slow", "slow.made", payload=payload)


Answer = tuple[int, Any, Mapping[str, str]]


class Place:
    """One served runtime, and requests to it as a platform would send them: without a token, under any Host."""

    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, url: str) -> None:
        self.runtime, self.session, self.url = runtime, session, url

    async def send(
        self, path: str, body: Any = b"", method: str = "POST", **headers: str
    ) -> tuple[int, Any, Mapping[str, str]]:
        sent = {"Host": "hooks.example.com", "Content-Type": "application/json", **headers}
        async with self.session.request(method, self.url + path, data=body, headers=sent) as response:
            raw = await response.read()
            if response.status >= 400:
                assert response.headers["content-type"] == "application/problem+json"
                assert "canary" not in raw.decode()
            value = json.loads(raw) if "json" in response.headers.get("content-type", "") else raw.decode()
            return response.status, value, response.headers

    async def github(
        self, body: Any, event: str = "push", id: str | None = None, secret: str = "new-canary", **more: str
    ):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"X-GitHub-Event": event, "X-Hub-Signature-256": hub(secret, raw), **more}
        return await self.send("/hooks/github", raw, **headers, **({"X-GitHub-Delivery": id} if id else {}))

    async def events(self, **wanted: str) -> list[dict[str, Any]]:
        return encode(await self.runtime.operations.events.find(**wanted))["items"]

    async def settled(self, type: str, count: int = 1) -> list[dict[str, Any]]:
        """The events of a type, once there are so many."""
        async with asyncio.timeout(60):
            while len(found := await self.events(type=type)) < count:
                await asyncio.sleep(0.01)
        return found


def hub(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@asynccontextmanager
async def serve(folder: Path, store: str | None = None) -> AsyncIterator[Place]:
    (folder / "holdfast.yml").write_text(CONFIG, encoding="utf-8")
    config = load_config(folder / "holdfast.yml")
    runtime = Runtime(
        open_store(store or f"sqlite:///{folder}/inbound.db", keep=True),
        config,
        None,
        normalizers={"broken": broken, "slow_first": slow_first},
    )
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = Tokens("admin-token", runtime.operations.tokens.scope_of)
    app = build_app(runtime.operations, tokens, {"127.0.0.1"}, 100_000, config.inbound)
    server = Server(app, listener)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Place(runtime, session, f"http://127.0.0.1:{listener.getsockname()[1]}")
    await server.stop()
    await runtime.stop()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with serve(tmp_path) as place:
        yield place


PUSH = {"ref": "refs/heads/main", "repository": {"full_name": "octo/hello"}, "sender": {"login": "mona"}}


async def test_a_signed_push_is_kept_and_becomes_an_event(place: Place) -> None:
    status, answer, _ = await place.github(PUSH, id="d-1")
    assert (status, answer) == (200, {"status": "accepted"})
    (event,) = await place.settled("github.push")
    assert (event["source"], event["stream"], event["payload"]) == ("github", "github:octo/hello", PUSH)
    assert event["properties"]["branch"] == "main"
    (raw,) = await place.events(source="inbound")
    assert (raw["type"], raw["stream"]) == ("inbound.github", "inbound:github")
    assert json.loads(raw["payload"]["body"]) == PUSH
    shown = encode(await place.runtime.operations.events.show(raw["id"]))
    assert [(one["address"], one["state"]) for one in shown["deliveries"]] == [("handler:inbound.github", "delivered")]
    assert "canary" not in json.dumps(shown)
    assert hub("new-canary", json.dumps(PUSH).encode()) not in json.dumps(shown)


async def test_each_of_two_secrets_opens(place: Place) -> None:
    for secret in ("old-canary", "new-canary"):
        assert (await place.github(PUSH, secret=secret))[0] == 200
    assert (await place.github(PUSH, secret="lost-canary"))[0] == 401


async def test_requests_become_events_in_the_order_they_were_accepted(place: Place) -> None:
    for number in range(10):
        assert (await place.send("/hooks/inbound/slow", b'{"number": %d}' % number))[0] == 200
    found = await place.settled("slow.made", 10)
    assert [(event["seq"], event["payload"]["number"]) for event in found[::-1]] == [(n + 1, n) for n in range(10)]


@pytest.mark.slow
async def test_the_same_holds_on_postgres(tmp_path: Path) -> None:
    async with serve(tmp_path, store=start(newest()).url(fresh_schema())) as place:
        for number in (0, 1, 1, 2):
            assert (await place.github({**PUSH, "number": number}, id=f"d-{number}"))[0] == 200
        assert (await place.github({**PUSH, "number": 9}, id="d-1"))[0] == 200
        found = await place.settled("github.push", 3)
        assert [(event["seq"], event["payload"]["number"]) for event in found[::-1]] == [(1, 0), (2, 1), (3, 2)]
        assert len(await place.events(type="inbound.github.conflict")) == 1
        twice = [{"from": "49", "id": "wamid.1", "type": "text"}] * 2
        body = json.dumps({"entry": [{"changes": [{"value": {"messages": twice}}]}]}).encode()
        assert (await place.send("/hooks/whatsapp", body, **{"X-Hub-Signature-256": hub("wa-canary", body)}))[0] == 200
        await place.settled("whatsapp.message.text", 1)
        assert encode(await place.runtime.operations.dead_letters.count())["count"] == 0


async def test_an_application_that_takes_no_requests_may_lack_a_normalizer(tmp_path: Path) -> None:
    (tmp_path / "holdfast.yml").write_text(CONFIG, encoding="utf-8")
    config = load_config(tmp_path / "holdfast.yml")
    store = open_store(f"sqlite:///{tmp_path}/app.db", keep=True)
    served = Runtime(store, config, None).handlers.serves() or frozenset()
    assert "handler:inbound.github" in served
    assert "handler:inbound.odd" not in served
    with pytest.raises(BadConfig, match="no normalizer 'broken'"):
        Runtime(store, config, Home(tmp_path))
    await store.close()


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({}, "the header x-hub-signature-256 is missing"),
        ({"X-Hub-Signature-256": "sha256=" + "0" * 64}, "does not match"),
        ({"X-Hub-Signature-256": "sha256=é"}, "does not contain a signature in hex"),
        ({"X-Hub-Signature-256": "md5=x"}, "does not begin with sha256="),
    ],
)
async def test_what_is_not_signed_is_401_and_leaves_nothing(place: Place, headers, says) -> None:
    status, answer, _ = await place.send("/hooks/github", b"{}", **headers)
    assert (status, answer["error"]) == (401, "Unverified")
    assert says in answer["detail"]
    assert await place.events() == []


async def test_refusals_do_not_fill_the_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(30):
        assert (await place.send("/hooks/github", b"{}"))[0] == 401
    told = [record for record in caplog.records if "/hooks/github was refused" in record.getMessage()]
    assert 1 <= len(told) < 30


async def test_signed_but_malformed_is_400(place: Place) -> None:
    for body in (b"{", b"\xff\xfe", b"<xml/>", b"[" * 100_000):
        status, answer, _ = await place.github(body)
        assert (status, answer["title"]) == (400, "Malformed"), body[:20]
    status, answer, _ = await place.github(PUSH, **{"Content-Encoding": "gzip"})
    assert (status, "compressed" in answer["detail"]) == (400, True)
    assert await place.events() == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"text": "cut \\ud83d"}', "cut \ufffd"),
        (b'{"text": "nul \\u0000"}', "nul \ufffd"),
        (b'\xef\xbb\xbf{"text": "after a byte order mark"}', "after a byte order mark"),
        ('{"text": "in UTF-16 ü"}'.encode("utf-16"), "in UTF-16 ü"),
        (b'{"text": "cut \xf0\x9f"}', "cut \ufffd"),
        (b'{"text": "once", "text": "twice", "odd": NaN}', "twice"),
    ],
)
async def test_what_can_be_read_at_all_becomes_an_event(place: Place, body, text) -> None:
    assert (await place.send("/hooks/inbound/open", body))[:2] == (200, {"status": "accepted"})
    (event,) = await place.settled("open.received")
    assert event["payload"]["text"] == event["properties"]["text"] == text
    (raw,) = await place.events(source="inbound")
    assert restored(raw["payload"])[1] == body
    assert encode(await place.runtime.operations.dead_letters.count())["count"] == 0


async def test_half_a_character_in_a_signed_message_does_not_kill_it(place: Place) -> None:
    message = {"from": "4915", "id": "wamid.1", "type": "text", "text": {"body": "cut \ud83d"}}
    body = json.dumps({"entry": [{"changes": [{"field": "messages", "value": {"messages": [message]}}]}]}).encode()
    assert b"\\ud83d" in body
    assert (await place.send("/hooks/whatsapp", body, **{"X-Hub-Signature-256": hub("wa-canary", body)}))[0] == 200
    (event,) = await place.settled("whatsapp.message.text")
    assert event["properties"]["text"] == "cut \ufffd"
    (raw,) = await place.events(source="inbound")
    assert restored(raw["payload"])[1] == body


def odd_bodies(count: int) -> Iterator[bytes]:
    """Bytes of every kind: noise, JSON cut or changed in one place, values that no store could carry."""
    chance = random.Random(4)
    whole = json.dumps({**PUSH, "text": "ü \ud83d \x00" + "text " * 80, "n": [float("nan"), 1e300]}).encode()
    yield from (b"", b"null", b"[]", b"3", b'"x"', whole.decode().encode("utf-16"), b"[" * 90 + b"]" * 90)
    for _ in range(count):
        at = chance.randrange(len(whole))
        yield chance.randbytes(chance.randrange(1, 60))
        yield whole[:at] + chance.randbytes(1) + whole[at + 1 :]
        yield whole[:at]


async def test_any_signed_bytes_are_stored_or_refused_by_the_rule_and_none_is_beyond_repair(place: Place) -> None:
    kept: list[bytes] = []
    for number, body in enumerate(odd_bodies(30)):
        status, answer, _ = await place.github(body, id=f"d-{number}")
        assert (status, answer.get("title")) in ((200, None), (400, "Malformed")), body
        kept += [body] if status == 200 else []
    assert len(kept) > 15
    async with asyncio.timeout(60):
        while encode(await place.runtime.operations.deliveries.find(state="pending"))["items"]:
            await asyncio.sleep(0.01)
    page = encode(await place.runtime.operations.events.find(type="inbound.github", limit=len(kept) + 1))
    assert sorted(restored(event["payload"])[1] for event in page["items"]) == sorted(kept)
    dead = encode(await place.runtime.operations.dead_letters.inspect())["items"]
    assert all("a GitHub payload must be a JSON object" in letter["last_error"] for letter in dead)
    place.runtime.handlers.add("inbound.github", inbound_handler("github"))
    await place.runtime.operations.dead_letters.reprocess(ids=[letter["id"] for letter in dead], actor="test")
    await place.settled("github.received", len(dead))
    assert encode(await place.runtime.operations.dead_letters.count())["count"] == 0


async def test_a_signature_in_upper_case_hex_passes(place: Place) -> None:
    raw = json.dumps(PUSH).encode()
    signature = "sha256=" + hub("new-canary", raw).removeprefix("sha256=").upper()
    assert (await place.send("/hooks/github", raw, **{"X-Hub-Signature-256": signature}))[0] == 200


async def test_a_signed_request_without_a_body_is_an_event(place: Place) -> None:
    assert (await place.github(b"", event="ping", id="d-1"))[0] == 200
    (event,) = await place.settled("github.ping")
    assert event["payload"] == {}


async def test_too_large_is_413(place: Place) -> None:
    status, answer, _ = await place.send("/hooks/inbound/open", b"x" * 2001)
    assert (status, "2,000" in answer["detail"]) == (413, True)
    assert (await place.send("/hooks/inbound/open", json.dumps("x" * 1900).encode()))[0] == 200


async def test_too_large_is_said_while_it_streams(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port)
    writer.write(b"POST /hooks/inbound/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(3):  # the end never comes, and is not waited for
        writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 60)
    writer.close()
    assert b"413" in head
    assert await place.events() == []


async def test_a_body_that_does_not_come_is_408(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConnection, "body_s", 0.2)
    async with serve(tmp_path) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port)
        writer.write(b"POST /hooks/inbound/open HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 60)
        writer.close()
        assert b"408" in head
        assert await place.events() == []


async def test_a_sender_that_hangs_up_leaves_nothing(place: Place) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port)
    writer.write(b"POST /hooks/inbound/open HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
    await writer.drain()
    writer.close()
    assert (await place.send("/hooks/inbound/open", b"{}"))[0] == 200
    assert len(await place.events(source="inbound")) == 1


@pytest.mark.parametrize(
    "error", [StoreFull("no room"), StoreBusy("locked"), OSError("the network went"), RuntimeError()]
)
async def test_what_cannot_be_stored_is_503_and_may_come_again(place: Place, monkeypatch, error) -> None:
    async def fail(event: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place.runtime.operations.events, "append", fail)
        status, answer, headers = await place.github(PUSH, id="d-1")
    assert (status, headers["Retry-After"]) == (503, "5")
    assert "no room" not in answer["detail"]
    assert (await place.github(PUSH, id="d-1"))[0] == 200
    assert len(await place.settled("github.push")) == 1


async def test_the_same_delivery_twice_is_one_event(place: Place) -> None:
    for _ in range(3):
        assert (await place.github(PUSH, id="d-1"))[:2] == (200, {"status": "accepted"})
    await place.settled("github.push")
    assert len(await place.events(source="inbound")) == 1
    assert len(await place.events(type="github.push")) == 1


async def test_another_body_under_a_known_id_is_accepted_kept_apart_and_not_acted_upon(place: Place) -> None:
    assert (await place.github(PUSH, id="d-1"))[0] == 200
    for _ in range(2):
        assert (await place.github({**PUSH, "forced": True}, id="d-1"))[:2] == (200, {"status": "accepted"})
    (apart,) = await place.events(type="inbound.github.conflict")
    assert json.loads(apart["payload"]["body"])["forced"] is True
    assert apart["properties"]["delivery_id"] == "d-1"
    assert len(await place.settled("github.push")) == 1
    assert encode(await place.runtime.operations.events.show(apart["id"]))["deliveries"] == []


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
    place.runtime.handlers.add("inbound.odd", inbound_handler("odd"))
    await place.runtime.operations.dead_letters.reprocess(ids=[dead[0]["id"]], actor="test")
    (event,) = await place.settled("odd.received")
    assert event["payload"] == {"kept": True}


def inbound_handler(name: str) -> Any:
    return normalizing(name, find_normalizer("json", name, {}))


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
    tokens = Tokens(None, place.runtime.operations.tokens.scope_of)
    own = build_app(place.runtime.operations, tokens, [], 1).openapi()["paths"]
    assert len(own) > 20
    for path in {*own, *RESERVED}:
        config = tmp_path / "bad.yml"
        config.write_text(f"hooks: {{inbound: {{x: {{secret: s, path: '{path}'}}}}}}", encoding="utf-8")
        with pytest.raises(BadConfig, match="path"):
            load_config(config)
