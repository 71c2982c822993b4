"""The recipes of docs/webhooks/inbound.md over real HTTP, each signed as the platform documents it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp
import pytest

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks" / "inbound.md").read_text(encoding="utf-8")
HOST = "https://hooks.example.com"
SECRET = "canary-0123456789abcdef"
FORM = "application/x-www-form-urlencoded"


class Sent(NamedTuple):
    """One request of a platform: its path, headers and body."""

    path: str
    headers: dict[str, str]
    body: bytes


def mac(content: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.new(SECRET.encode(), content, algorithm).digest()


def base64_mac(content: bytes, algorithm: str = "sha256") -> str:
    return base64.b64encode(mac(content, algorithm)).decode()


def now_s() -> str:
    return str(int(time.time()))


def dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def gitlab(change: str = "") -> Sent:
    body = {
        "object_kind": "merge_request",
        "user": {"username": "mona"},
        "project": {"path_with_namespace": "octo/hello"},
        "object_attributes": {"iid": 7, "action": "open", "source_branch": "fix" + change},
    }
    headers = {"X-Gitlab-Event": "Merge Request Hook", "X-Gitlab-Token": SECRET, "Idempotency-Key": "i-1"}
    return Sent("/hooks/gitlab", {**headers, "X-Gitlab-Event-UUID": "shared"}, dumps(body))


def shopify(change: str = "") -> Sent:
    body = dumps({"id": 820982911946154508, "email": "jon@example.com" + change})
    headers = {
        "X-Shopify-Topic": "orders/create",
        "X-Shopify-Hmac-Sha256": base64_mac(body),
        "X-Shopify-Shop-Domain": "hello.myshopify.com",
        "X-Shopify-Webhook-Id": "w-1",
        "X-Shopify-Event-Id": "e-1",
        "X-Shopify-Triggered-At": "2026-03-29T18:00:27.877041743Z",
    }
    return Sent("/hooks/shopify", headers, body)


def twilio(change: str = "") -> Sent:
    fields = {"MessageSid": "SM1", "SmsStatus": "received", "From": "+4915", "To": "+1800", "Body": "hä? " + change}
    signed = f"{HOST}/hooks/twilio?tag=a%20b" + "".join(name + fields[name] for name in sorted(fields))
    headers = {
        "Content-Type": FORM,
        "X-Twilio-Signature": base64_mac(signed.encode(), "sha1"),
        "I-Twilio-Idempotency-Token": "t-1",
    }
    return Sent("/hooks/twilio?tag=a%20b", headers, urlencode(fields).encode())


def zendesk(change: str = "") -> Sent:
    body = dumps({
        "type": "zen:event-type:ticket.created", "account_id": 123, "id": "zev-1", "time": "2026-01-01T00:00:00Z",
        "subject": "zen:ticket:35436", "detail": {"id": "35436", "subject": "Help " + change},
    })  # fmt: skip
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    headers = {
        "X-Zendesk-Webhook-Signature": base64_mac(stamp.encode() + body),
        "X-Zendesk-Webhook-Signature-Timestamp": stamp,
        "X-Zendesk-Webhook-Invocation-Id": "8350205582",
        "X-Zendesk-Webhook-Id": "01F1",
    }
    return Sent("/hooks/zendesk", headers, body)


def paddle(change: str = "") -> Sent:
    body = dumps({
        "event_id": "evt_1", "event_type": "transaction.completed", "occurred_at": "2026-01-01T00:00:00.000000Z",
        "notification_id": "ntf_1", "data": {"id": "txn_1", "customer_id": "ctm_1", "status": "completed" + change},
    })  # fmt: skip
    stamp = now_s()
    signature = mac(stamp.encode() + b":" + body).hex()
    return Sent("/hooks/paddle", {"Paddle-Signature": f"ts={stamp};h1={'0' * 64};h1={signature}"}, body)


def square(change: str = "") -> Sent:
    body = dumps({
        "merchant_id": "M1", "location_id": "L1", "type": "payment.updated", "event_id": "ev-1",
        "created_at": "2026-01-01T00:00:00Z", "data": {"type": "payment", "id": "p-1", "object": {"note": change}},
    })  # fmt: skip
    signature = base64_mac(f"{HOST}/hooks/square".encode() + body)
    return Sent("/hooks/square", {"X-Square-HmacSha256-Signature": signature, "Square-Environment": "Sandbox"}, body)


def hubspot(change: str = "") -> Sent:
    event = {
        "eventId": 1, "subscriptionId": 12345, "portalId": 62515, "occurredAt": 1790000000000, "attemptNumber": 0,
        "subscriptionType": "contact.propertyChange", "objectId": 123, "propertyName": "email",
        "propertyValue": "a@b.c" + change,
    }  # fmt: skip
    body, stamp = dumps([event]), str(int(time.time() * 1000))
    signature = base64_mac(f"POST{HOST}/hooks/hubspot".encode() + body + stamp.encode())
    headers = {"X-HubSpot-Signature-v3": signature, "X-HubSpot-Request-Timestamp": stamp}
    return Sent("/hooks/hubspot", headers, body)


def zoomed(value: Any) -> Sent:
    body, stamp = dumps(value), now_s()
    signature = "v0=" + mac(f"v0:{stamp}:".encode() + body).hex()
    return Sent("/hooks/zoom", {"X-Zm-Signature": signature, "X-Zm-Request-Timestamp": stamp}, body)


def zoom(change: str = "") -> Sent:
    meeting = {"id": "1234567890", "uuid": "u==", "host_id": "h-1", "topic": "Standup" + change}
    payload = {"account_id": "a-1", "object": meeting}
    return zoomed({"event": "meeting.started", "event_ts": 1790000000123, "payload": payload})


def linear(change: str = "") -> Sent:
    body = dumps({
        "action": "create", "type": "Issue", "createdAt": "2026-01-01T00:00:00.000Z", "actor": {"id": "u-1"},
        "data": {"id": "i-1", "identifier": "ENG-12", "team": {"key": "ENG"}, "title": "Fix" + change},
        "organizationId": "o-1", "webhookTimestamp": int(time.time() * 1000),
    })  # fmt: skip
    headers = {"Linear-Signature": mac(body).hex(), "Linear-Delivery": "d-1", "Linear-Event": "Issue"}
    return Sent("/hooks/linear", headers, body)


def sentry(change: str = "") -> Sent:
    issue = {"id": "42", "title": "TypeError" + change, "level": "error", "project": {"slug": "web"}}
    body = dumps({"action": "created", "data": {"issue": issue}, "installation": {"uuid": "in-1"}})
    headers = {
        "Sentry-Hook-Signature": mac(body).hex(),
        "Sentry-Hook-Resource": "issue",
        "Sentry-Hook-Timestamp": now_s(),
        "Request-ID": "r-1",
    }
    return Sent("/hooks/sentry", headers, body)


def calendly(change: str = "") -> Sent:
    body, stamp = dumps({"event": "invitee.created", "payload": {"email": "a@b.c" + change}}), now_s()
    signature = mac(f"{stamp}.".encode() + body).hex()
    return Sent("/hooks/inbound/calendly", {"Calendly-Webhook-Signature": f"t={stamp},v1={signature}"}, body)


def trello(change: str = "") -> Sent:
    body = dumps({"action": {"id": "51f9", "type": "updateCard", "data": {"note": change}}, "model": {"id": "b-1"}})
    signature = base64_mac(body + f"{HOST}/hooks/inbound/trello".encode(), "sha1")
    return Sent("/hooks/inbound/trello", {"X-Trello-Webhook": signature}, body)


def bitbucket(change: str = "") -> Sent:
    body = dumps({"push": {"changes": []}, "note": change})
    headers = {"X-Hub-Signature": "sha256=" + mac(body).hex(), "X-Event-Key": "repo:push", "X-Request-UUID": "q-1"}
    return Sent("/hooks/inbound/bitbucket", headers, body)


SENDERS: dict[str, tuple[Callable[[str], Sent], str, str, dict[str, Any]]] = {
    "gitlab": (
        gitlab, "gitlab.merge_request.open", "gitlab:octo/hello",
        {"event": "Merge Request Hook", "user": "mona", "number": 7, "branch": "fix", "delivery": "i-1"},
    ),
    "shopify": (
        shopify, "shopify.orders.create", "shopify:hello.myshopify.com",
        {"event": "orders/create", "object_id": "820982911946154508", "webhook_id": "w-1", "event_id": "e-1"},
    ),
    "twilio": (twilio, "twilio.message.received", "twilio:+4915", {"message_sid": "SM1", "text": "hä? "}),
    "zendesk": (
        zendesk, "zendesk.ticket.created", "zendesk:ticket:35436",
        {"event_id": "zev-1", "object_id": "35436", "invocation_id": "8350205582"},
    ),
    "paddle": (paddle, "paddle.transaction.completed", "paddle:ctm_1", {"event_id": "evt_1", "status": "completed"}),
    "square": (square, "square.payment.updated", "square:M1", {"event_id": "ev-1", "environment": "Sandbox"}),
    "hubspot": (
        hubspot, "hubspot.contact.propertychange", "hubspot:62515:123",
        {"event": "contact.propertyChange", "property": "email", "value": "a@b.c"},
    ),
    "zoom": (zoom, "zoom.meeting.started", "zoom:1234567890", {"account": "a-1", "topic": "Standup", "uuid": "u=="}),
    "linear": (linear, "linear.issue.create", "linear:i-1", {"identifier": "ENG-12", "team": "ENG", "delivery": "d-1"}),
    "sentry": (sentry, "sentry.issue.created", "sentry:42", {"issue_id": "42", "project": "web", "request_id": "r-1"}),
    "calendly": (calendly, "calendly.invitee.created", "calendly", {"event": "invitee.created"}),
    "trello": (trello, "trello.updatecard", "trello", {"event": "updateCard"}),
    "bitbucket": (bitbucket, "bitbucket.repo.push", "bitbucket", {"event": "repo:push"}),
}  # fmt: skip
SIGN_NO_ID = ("calendly",)


class Place:
    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, url: str) -> None:
        self.runtime, self.session, self.url = runtime, session, url

    async def send(self, sent: Sent) -> tuple[int, str]:
        headers = {"Content-Type": "application/json", **sent.headers, "Host": "hooks.example.com"}
        url = aiohttp.client.URL(self.url + sent.path, encoded=True)
        async with self.session.post(url, data=sent.body, headers=headers) as response:
            text = await response.text()
            assert SECRET not in text
            return response.status, text

    async def events(self, **wanted: str) -> list[dict[str, Any]]:
        return encode(await self.runtime.operations.events.find(**wanted))["items"]

    async def settled(self, count: int) -> None:
        """Wait until so many stored requests were normalized."""
        while len(encode(await self.runtime.operations.deliveries.find(state="delivered"))["items"]) < count:
            dead = encode(await self.runtime.operations.dead_letters.inspect())["items"]
            assert not dead, dead[0]["last_error"]
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serve(folder: Path, recipe: str) -> AsyncIterator[Place]:
    (folder / "holdfast.yml").write_text(recipe, encoding="utf-8")
    config = load_config(folder / "holdfast.yml")
    runtime = Runtime(open_store(f"sqlite:///{folder}/inbound.db", keep=True), config, None)
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("admin-token", runtime.operations.tokens.scope_of)
    server = Server(build_app(runtime.operations, tokens, {"127.0.0.1"}, 100_000, config.inbound), listener)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Place(runtime, session, f"http://127.0.0.1:{listener.getsockname()[1]}")
    await server.stop()
    await runtime.stop()


def recipe_of(name: str) -> str:
    """The first block of the page that has this source."""
    return next(
        block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if re.search(rf"^    {name}:", block, re.M)
    )


@pytest.fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch) -> AsyncIterator[Place]:
    recipe = recipe_of(request.getfixturevalue("name"))
    for variable in re.findall(r"\$\{(\w+)\}", recipe):
        monkeypatch.setenv(variable, SECRET)
    async with serve(tmp_path, recipe) as place:
        yield place


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", SENDERS)
async def test_what_the_sender_signs_becomes_its_event(place: Place, name: str) -> None:
    send, type, stream, properties = SENDERS[name]
    assert (await place.send(send("")))[0] in (200, 204)
    await place.settled(1)
    (event,) = await place.events(type=type)
    assert event["stream"] == stream
    assert properties.items() <= event["properties"].items()
    (raw,) = await place.events(source="inbound")
    assert SECRET not in json.dumps(raw)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", SENDERS)
async def test_a_changed_request_is_refused(place: Place, name: str) -> None:
    good, other = SENDERS[name][0](""), SENDERS[name][0]("!")
    forged = {key: value[:-4] + "0000" if len(value) > 20 else value for key, value in good.headers.items()}
    refused = [Sent(good.path, forged, good.body), Sent(good.path, {}, good.body)]
    if name != "gitlab":  # its secret token covers nothing
        refused.append(Sent(good.path, good.headers, other.body))
    for sent in refused:
        status, text = await place.send(sent)
        assert (status, json.loads(text)["error"]) == (401, "Unverified")
    assert await place.events() == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [name for name in SENDERS if name not in SIGN_NO_ID])
async def test_a_delivery_that_is_sent_again_is_one_event(place: Place, name: str) -> None:
    sent = SENDERS[name][0]("")
    for _ in range(3):
        assert (await place.send(sent))[0] in (200, 204)
    await place.settled(1)
    assert len(await place.events(type=f"inbound.{name}")) == 1
    assert len(await place.events(type=SENDERS[name][1])) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["zoom"])
async def test_zooms_validation_is_answered_with_the_secret(place: Place, name: str) -> None:
    token = {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}
    asked = zoomed({"event": "endpoint.url_validation", "event_ts": 1790000000123, "payload": token})
    status, text = await place.send(asked)
    expected = hmac.new(SECRET.encode(), token["plainToken"].encode(), hashlib.sha256).hexdigest()
    assert (status, json.loads(text)) == (200, {**token, "encryptedToken": expected})
    status, text = await place.send(Sent(asked.path, {}, asked.body))
    assert (status, expected in text) == (401, False), "who does not know the secret learns nothing"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["hubspot"])
async def test_a_retry_of_hubspot_with_a_higher_attempt_number_is_no_new_event(place: Place, name: str) -> None:
    def attempt(*numbers: int, ids: tuple[int, ...] = (1, 2)) -> Sent:
        first = json.loads(hubspot().body)[0]
        events = [{**first, "eventId": id, "attemptNumber": number} for id, number in zip(ids, numbers, strict=True)]
        body, stamp = dumps(events), str(int(time.time() * 1000))
        signature = base64_mac(f"POST{HOST}/hooks/hubspot".encode() + body + stamp.encode())
        return Sent("/hooks/hubspot", {"X-HubSpot-Signature-v3": signature, "X-HubSpot-Request-Timestamp": stamp}, body)

    for sent in (attempt(0, 0), attempt(1, 1), attempt(2, 0, ids=(2, 3))):
        assert (await place.send(sent))[0] == 200
    await place.settled(2)
    found = await place.events(type="hubspot.contact.propertychange")
    assert [event["properties"]["event_id"] for event in found[::-1]] == ["1", "2", "3"]
    assert len(await place.events(type="inbound.hubspot.conflict")) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["gitlab"])
async def test_gitlab_with_a_signing_token(place: Place, name: str, tmp_path: Path, monkeypatch) -> None:
    key = b"k" * 32
    monkeypatch.setenv("GITLAB_WEBHOOK_SECRET", "whsec_" + base64.b64encode(key).decode())
    (tmp_path / "signed").mkdir()
    async with serve(tmp_path / "signed", recipe_of("gitlab")) as signed:
        plain, stamp = gitlab(), now_s()
        mac_ = hmac.new(key, f"i-1.{stamp}.".encode() + plain.body, hashlib.sha256).digest()
        headers = {"webhook-id": "i-1", "webhook-timestamp": stamp, "Idempotency-Key": "i-1",
                   "webhook-signature": "v1," + base64.b64encode(mac_).decode()}  # fmt: skip
        assert (await signed.send(Sent(plain.path, headers, plain.body)))[0] == 200
        assert (await signed.send(plain))[0] == 401
        assert (await signed.send(Sent(plain.path, headers, plain.body + b" ")))[0] == 401


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["trello"])
async def test_trello_may_try_the_url_with_head(place: Place, name: str) -> None:
    assert (await place.session.head(place.url + "/hooks/inbound/trello")).status == 200
    assert await place.events() == []
