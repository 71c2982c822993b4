"""A webhook delivery: its request, its signatures and its connection."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.errors import StoreBusy
from holdfast.domain.signature import hook_signature, verify_hook
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.ports import SystemClock
from receivers import raw_server
from sink import Sink
from webhook_deliveries import CANARY, ID, LOOPBACK, NOW_MS, claim, deliver, deliverer


class Hands:
    """A clock moved by hand."""

    boot_id = "boot"

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def boot_ms(self) -> int:
        return self.ms


# What is sent


async def test_a_delivery_is_one_post_of_exactly_the_events_bytes():
    async with Sink() as sink:
        work = claim(sink.url + "/a%2Fb?x=1&y=%20")
        async with deliverer() as one:
            outcome = await one.deliver(work)
        assert isinstance(outcome, Delivered)
        (got,) = sink.received
    assert got.path == "/hook/a%2Fb?x=1&y=%20"
    assert got.body == work.event.body()
    assert json.loads(got.body)["payload"]["text"] == "é\u2028 </script>"
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["User-Agent"] == "Holdfast/test"
    assert got.headers["Accept-Encoding"] == "identity"
    assert got.headers["Content-Length"] == str(len(got.body))
    assert got.headers["webhook-id"] == ID


async def test_both_signatures_verify_with_every_secret_of_a_rotation():
    older = "whsec_" + "b2xk" * 8
    async with Sink() as sink:
        assert isinstance(await deliver(sink.url, secrets=[CANARY, older]), Delivered)
        (got,) = sink.received
    headers = {name.lower(): value for name, value in got.headers.items()}
    for secret in (CANARY, older):
        assert Webhook(secret).verify(got.body, headers)["id"] == ID
    assert verify_hook([CANARY], got.body, got.headers["X-Hook-Signature"])


async def test_without_a_contract_or_a_secret_nothing_is_signed():
    async with Sink() as sink, deliverer(secrets=()) as one:
        await one.deliver(claim(sink.url, contract=None))
        await one.deliver(claim(sink.url))
        for got in sink.received:
            assert "webhook-signature" not in got.headers
            assert got.headers["webhook-id"] == ID


async def test_over_retries_the_id_stays_and_the_timestamp_is_fresh():
    clock = Hands()
    async with Sink([503, 503, 200]) as sink, deliverer(clock=clock) as one:
        outcomes = []
        for _ in range(3):
            outcomes.append(type(await one.deliver(claim(sink.url))))
            clock.ms += 60_000
        assert outcomes == [Retry, Retry, Delivered]
        assert {got.headers["webhook-id"] for got in sink.received} == {ID}
        stamps = [int(got.headers["webhook-timestamp"]) for got in sink.received]
        assert stamps == [1_700_000_000, 1_700_000_060, 1_700_000_120]
        assert len({got.headers["webhook-signature"] for got in sink.received}) == 3


async def test_the_largest_event_is_carried():
    payload = json.dumps("x" * (1024 * 1024 - 2))
    async with Sink() as sink, deliverer() as one:
        work = claim(sink.url, payload)
        assert isinstance(await one.deliver(work), Delivered)
        assert sink.received[0].body == work.event.body()
        assert sink.received[0].headers["Content-Type"] == "application/json"
        assert sink.received[0].headers["Content-Length"] == str(len(work.event.body()))


async def test_proxies_and_cookies_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    cookie = (200, {"Set-Cookie": "a=b; Path=/"}, b"")
    async with Sink([cookie, 200]) as sink, deliverer() as one:
        for _ in range(2):
            assert isinstance(await one.deliver(claim(sink.url)), Delivered)
        assert "Cookie" not in sink.received[1].headers


async def test_a_connection_is_used_again():
    ports = set()

    async def note(request):
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.Response(body=b"ok")

    async with Sink(note) as sink, deliverer() as one:
        for _ in range(3):
            await one.deliver(claim(sink.url))
    assert len(ports) == 1


async def test_a_kept_connection_that_was_closed_meanwhile_costs_no_attempt():
    heads = []

    async def talk_once_per_connection(reader, writer):
        heads.append(1)
        body = len(claim("http://x/").event.body())
        await reader.readexactly(body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        # The connection looks kept, and breaks when it is used again.
        await reader.readuntil(b"\r\n\r\n")

    async with raw_server(talk_once_per_connection) as url, deliverer() as one:
        assert isinstance(await one.deliver(claim(url)), Delivered)
        assert isinstance(await one.deliver(claim(url)), Delivered)
    assert len(heads) == 2


async def test_the_number_of_requests_to_one_host_at_once_is_limited():
    now, most = 0, 0

    async def count(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        return web.Response()

    async with Sink(count) as sink, deliverer(concurrency_per_host=3) as one:
        outcomes = await asyncio.gather(*(one.deliver(claim(sink.url)) for _ in range(20)))
    assert most == 3
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)


# Secrets


@pytest.mark.parametrize("status", [200, 400, 410, 503])
async def test_a_receiver_that_echoes_the_secret_does_not_get_it_into_the_records(status):
    bare = CANARY.removeprefix("whsec_")
    echo = f"expected {CANARY} or {bare}, got something else".encode()
    async with Sink([(status, {"Retry-After": CANARY}, echo)]) as sink:
        outcome = await deliver(sink.url + "?key=" + CANARY)
    assert bare not in repr(outcome)
    assert "expected ***" in outcome.detail["response"]


async def test_a_secret_that_cannot_be_read_sends_nothing_and_is_tried_again():
    async def broken(contract_id):
        raise RuntimeError(f"keyring: {CANARY}")

    async def busy(contract_id):
        raise StoreBusy("another writer held the database for too long")

    async with Sink() as sink:
        for lookup, words in ((broken, "RuntimeError"), (busy, "another writer")):
            one = WebhookDeliverer(LOOPBACK, lookup, SystemClock(), user_agent="x")
            outcome = await one.deliver(claim(sink.url))
            await one.close()
            assert isinstance(outcome, Retry)
            assert words in outcome.error
            assert CANARY not in repr(outcome)
        assert sink.received == []


async def test_a_malformed_secret_sends_nothing_and_is_not_shown():
    async with Sink() as sink:
        outcome = await deliver(sink.url, secrets=["whsec_!canary!"])
        assert isinstance(outcome, Retry)
        assert "not base64" in outcome.error
        assert "canary" not in repr(outcome)
        assert sink.received == []


# Secrets, headers and formats


async def test_it_serves_every_address_of_its_kind():
    async with deliverer() as one:
        assert one.kind == "https"
        assert one.serves() is None


async def test_a_contracts_own_headers_are_sent_and_never_shown():
    async with Sink([500]) as sink:
        outcome = await deliver(sink.url, request={"headers": {"Authorization": "Bearer canary-2", "X-Team": "blue"}})
        headers = sink.received[0].headers
    assert (headers["Authorization"], headers["X-Team"]) == ("Bearer canary-2", "blue")
    assert outcome.detail["request_headers"]["Authorization"] == "***"
    assert outcome.detail["request_headers"]["webhook-id"] == headers["webhook-id"]
    assert "canary" not in repr(outcome)


async def test_a_contracts_own_header_replaces_the_default_in_any_case():
    own = {"content-type": "application/vnd.shop+json", "USER-AGENT": "shop", "title": "mine"}
    async with Sink() as sink:
        assert isinstance(await deliver(sink.url, request={"format": "ntfy", "headers": own}), Delivered)
        headers = sink.received[0].headers
    for name, value in own.items():
        assert headers.getall(name) == [value]
    assert headers.getall("Accept") == ["*/*"]


async def test_a_status_in_retry_on_is_retried():
    async with Sink([404, 404]) as sink:
        assert isinstance(await deliver(sink.url), Dead)
        assert isinstance(await deliver(sink.url, request={"retry_on": frozenset({404})}), Retry)


async def test_the_body_of_a_format_is_what_is_signed_and_sent():
    async with Sink() as sink:
        assert isinstance(await deliver(sink.url, request={"format": "slack"}), Delivered)
        (got,) = sink.received
    assert set(json.loads(got.body)) == {"text"}
    assert got.headers["X-Hook-Signature"] == hook_signature(CANARY, got.body)
