"""The webhook deliverer against real receivers: honest ones, broken ones and hostile ones."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from holdfast.domain.delivery import Claim, Dead, Delivered, Delivery, Retry
from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import Event
from holdfast.domain.retry import RETRY_AFTER_MAX_S
from holdfast.domain.signature import hook_signature, verify_hook
from holdfast.domain.states import Reason
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.exchange import SHOWN_MAX, judge, retry_after_s
from holdfast.egress.webhook.requests import RequestOptions
from holdfast.net.connection import READ_MAX
from holdfast.net.guard import Guard
from holdfast.ports import SystemClock
from receivers import answering_dns, raw_server, reset, saying, self_signed, stay_silent
from sink import Sink

CANARY = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5"
LOOPBACK = Guard(["127.0.0.0/8"])
NOW_MS = 1_700_000_000_000
ID = "evt_018bcfe5680000000000000000000000"


class Hands:
    """A clock moved by hand."""

    boot_id = "boot"

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def boot_ms(self) -> int:
        return self.ms


def claim(url, payload='{"text":"é\\u2028 </script>"}', contract="c1"):
    event = Event(1, ID, "s", 7, "app", "order.placed", "2026-01-31T12:00:00Z", NOW_MS, '{"k":1}', payload)
    return Claim(Delivery(5, url, contract, 0, 0), event, queue=1, token=99, starts=1)


@asynccontextmanager
async def deliverer(guard=LOOPBACK, secrets=(CANARY,), clock=None, request=None, **settings):
    async def lookup(contract_id):
        assert contract_id == "c1"
        return RequestOptions(tuple(secrets), **(request or {}))

    one = WebhookDeliverer(guard, lookup, clock or SystemClock(), user_agent="Holdfast/test", **settings)
    try:
        yield one
    finally:
        await one.close()


async def deliver(url, guard=LOOPBACK, **options):
    async with deliverer(guard, **options) as one:
        return await one.deliver(claim(url))


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


# What an answer means


async def test_every_status_from_200_to_599_has_its_outcome():
    statuses = list(range(200, 600))
    async with Sink(statuses) as sink, deliverer() as one:
        for status in statuses:
            outcome = await one.deliver(claim(sink.url))
            assert outcome.detail["status"] == status
            if status < 300:
                assert isinstance(outcome, Delivered)
            elif status < 400 or status >= 500 or status in (408, 425, 429):
                assert isinstance(outcome, Retry), status
            else:
                assert (type(outcome), outcome.reason) == (Dead, Reason.REJECTED), status
            if not isinstance(outcome, Delivered):
                assert str(status) in outcome.error
            assert ("gone" in outcome.detail) is (status == 410)
        assert len(sink.received) == len(statuses)


@pytest.mark.parametrize("status", [100, 101, 199, 600, 700, 999])
def test_a_status_that_means_nothing_is_tried_again(status):
    assert isinstance(judge(status, None, {}), Retry)


@pytest.mark.parametrize("status", ["600", "999", "101"])
async def test_an_odd_status_on_the_wire_is_tried_again(status):
    async with raw_server(saying(f"HTTP/1.1 {status} Odd\r\nContent-Length: 0\r\n\r\n".encode())) as url:
        assert isinstance(await deliver(url), Retry)


async def test_hints_before_the_answer_are_passed_over():
    async with raw_server(saying(b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")) as url:
        assert isinstance(await deliver(url), Delivered)


async def test_gone_ends_the_delivery_with_its_reason():
    async with Sink([410]) as sink:
        outcome = await deliver(sink.url)
    assert outcome == Dead(Reason.REJECTED, outcome.error, outcome.detail)
    assert "410 Gone" in outcome.error
    assert outcome.detail["gone"] is True


async def test_a_body_that_would_be_too_large_is_not_sent_and_not_tried_again():
    request = {"format": "template", "template": "{payload}" * 30}
    async with Sink() as sink, deliverer(request=request) as one:
        outcome = await one.deliver(claim(sink.url, json.dumps("x" * 100_000)))
        assert isinstance(outcome, Dead)
        assert "the template makes a body of more than" in outcome.error
        assert sink.received == []


async def test_an_answer_that_disables_a_contract_stands_in_the_history_like_any_other():
    disabled = []

    async def gone(contract_id):
        disabled.append(contract_id)

    async with Sink([(410, {"X-Why": "moved"}, b"no more")]) as sink:
        outcome = await deliver(sink.url, gone=gone)
    assert isinstance(outcome, Retry)
    assert len(disabled) == 1
    assert (outcome.detail["status"], outcome.detail["gone"], outcome.detail["response"]) == (410, True, "no more")
    assert outcome.detail["response_headers"]["X-Why"] == "moved"
    assert outcome.detail["request_headers"]["User-Agent"] == "Holdfast/test"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_the_metadata_service_is_not_followed(status):
    async with Sink([(status, {"Location": "http://169.254.169.254/latest/meta-data/"}, b"")]) as sink:
        outcome = await deliver(sink.url)
        assert isinstance(outcome, Retry)
        assert "redirect not followed" in outcome.error
        assert "169.254" not in outcome.error
        assert len(sink.received) == 1


async def test_a_redirect_to_an_allowed_target_is_not_followed_either():
    async with Sink() as other, Sink([(302, {"Location": other.url}, b"")]) as sink:
        assert isinstance(await deliver(sink.url), Retry)
        assert other.received == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1000000000000", RETRY_AFTER_MAX_S),
        ("9" * 99, RETRY_AFTER_MAX_S),
        ("9" * 101, None),
        ("-5", None),
        ("1.5", 1.5),
        ("1.", None),
        (".5", None),
        ("1e3", None),
        ("1,5", None),
        ("+3", None),
        ("٣", None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue Nov 14 22:14:20 2023", 60.0),
        ("Tue, 14 Nov 2023 22:14:20", 60.0),
        ("Tue, 14 Nov 2023 23:14:20 +0100", 60.0),
        ("Tue, 14 Nov 2000 22:14:20 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_MAX_S),
        ("Fri, 31 Dec 9999 23:59:59 -2359", RETRY_AFTER_MAX_S),
        ("Tue, 99 Nov 2023 99:99:99 GMT", None),
        (None, None),
    ],
)
def test_retry_after_in_every_spelling(text, seconds):
    assert retry_after_s(text, NOW_MS) == seconds


@pytest.mark.parametrize("status", [302, 408, 425, 429, 500, 502, 503, 504])
async def test_retry_after_is_passed_to_the_outcome(status):
    async with Sink([(status, {"Retry-After": "17"}, b""), (status, {"Retry-After": "-1"}, b"")]) as sink:
        assert (await deliver(sink.url)).after_s == 17.0
        assert (await deliver(sink.url)).after_s is None


async def test_the_detail_shows_a_harmless_beginning_of_the_answer():
    body = b"\x1b[31mno\x00\r\n\xff\xc2\x9b\xe2\x80\xae" + b"y" * 2000
    async with Sink([(400, {}, body)]) as sink:
        outcome = await deliver(sink.url + "?token=hidden")
    heads = {"request_headers", "response_headers"}
    assert set(outcome.detail) == {"status", "duration_ms", "url", "response"} | heads
    assert outcome.detail["url"] == sink.url + "?…"
    shown = outcome.detail["response"]
    assert shown.isprintable()
    assert len(shown) == SHOWN_MAX
    assert "[31mno" in shown
    assert isinstance(outcome.detail["duration_ms"], int)
    json.dumps(outcome.detail)
    assert "hidden" not in repr(outcome)


# Broken and hostile receivers


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


async def test_a_refused_connection_is_tried_again():
    outcome = await deliver(f"http://127.0.0.1:{free_port()}/?token=hidden")
    assert isinstance(outcome, Retry)
    assert "could not connect: Connection refused" in outcome.error
    assert outcome.detail["status"] is None
    assert "hidden" not in repr(outcome)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(saying(), id="hangs up"),
        pytest.param(saying(then=reset), id="resets"),
        pytest.param(saying(b"\r\n\r\n"), id="empty lines"),
        pytest.param(saying(b"hello\r\n\r\n"), id="no status line"),
        pytest.param(saying(b"SSH-2.0-OpenSSH_9.6\r\n"), id="another protocol"),
        pytest.param(saying(b"HTTP/1.1 abc OK\r\n\r\n"), id="no number"),
        pytest.param(saying(b"HTTP/1.1 200 OK\r\nContent-"), id="half a head"),
        pytest.param(saying(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"), id="endless header"),
        pytest.param(saying(HEAD + b"half"), id="hangs up in the body"),
        pytest.param(saying(HEAD + b"half", then=reset), id="resets in the body"),
        pytest.param(saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), id="bad chunk"),
    ],
)
async def test_an_answer_that_breaks_off_is_tried_again(talk):
    async with raw_server(talk) as url:
        outcome = await deliver(url)
    assert isinstance(outcome, Retry)
    assert "unexpected" not in outcome.error


async def test_a_status_that_came_through_counts_even_if_its_body_broke_off():
    async with raw_server(saying(b"HTTP/1.1 400 Bad\r\nContent-Length: 100\r\n\r\nhalf")) as url:
        outcome = await deliver(url)
    assert isinstance(outcome, Dead)
    assert outcome.detail["response"] == "half"


@pytest.mark.parametrize(
    ("talk", "words"),
    [
        (saying(then=stay_silent), "no answer within 1 s"),
        (saying(b"HTTP/1.1 200 OK\r\n", then=stay_silent), "no answer within 1 s"),
        (saying(HEAD + b"half", then=stay_silent), "answered 200, then nothing more arrived for 1 s"),
    ],
    ids=["no head", "half a head", "half a body"],
)
async def test_an_attempt_ends_when_the_receiver_stays_silent(talk, words):
    async with raw_server(talk) as url:
        outcome = await deliver(url, first_byte_s=1.0)
    assert isinstance(outcome, Retry)
    assert words in outcome.error


async def test_an_attempt_ends_at_its_total_limit_when_the_receiver_sends_slowly():
    async def drip(reader, writer):
        while True:
            writer.write(b"X")
            await asyncio.sleep(0.01)

    for head in (b"HTTP/1.1 200 OK\r\nX-Slow: ", HEAD.replace(b"100", b"9999")):
        async with raw_server(saying(head, then=drip)) as url:
            outcome = await deliver(url, first_byte_s=5.0, total_s=0.1)
        assert isinstance(outcome, Retry)
        assert "no complete answer within 0.1 s" in outcome.error


async def test_an_attempt_ends_when_the_tls_handshake_hangs():
    async def silent(reader, writer):
        await reader.read(1)
        await asyncio.Event().wait()

    tasks = []
    server = await asyncio.start_server(
        lambda reader, writer: tasks.append((asyncio.ensure_future(silent(reader, writer)), writer)), "127.0.0.1", 0
    )
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    outcome = await deliver(url, connect_s=0.05)
    assert isinstance(outcome, Retry)
    assert "no connection within 0.05 s" in outcome.error
    server.close()
    for task, writer in tasks:
        task.cancel()
        writer.close()
    await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)


async def test_an_endless_body_is_read_up_to_a_limit():
    sent = 0
    hung_up = asyncio.Event()

    async def pour(reader, writer):
        nonlocal sent
        try:
            while True:
                writer.write(b"400\r\n" + b"z" * 1024 + b"\r\n")
                sent += 1024
                await writer.drain()
        except OSError:
            hung_up.set()

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with raw_server(saying(head, then=pour)) as url, deliverer() as one:
        outcome = await one.deliver(claim(url))
        assert isinstance(outcome, Delivered)
        assert outcome.detail["response"] == "z" * SHOWN_MAX
        await asyncio.wait_for(hung_up.wait(), 60)


async def test_a_gzip_bomb_is_not_decoded():
    bomb = gzip.compress(b"\x00" * 50_000_000)
    assert len(bomb) > READ_MAX
    async with Sink([(200, {"Content-Encoding": "gzip"}, bomb)]) as sink:
        outcome = await deliver(sink.url)
    assert isinstance(outcome, Delivered)
    assert len(outcome.detail["response"]) <= SHOWN_MAX


async def test_a_wrong_content_encoding_does_not_matter():
    async with Sink([(200, {"Content-Encoding": "gzip, br, zstd"}, b"plain")]) as sink:
        outcome = await deliver(sink.url)
    assert isinstance(outcome, Delivered)
    assert outcome.detail["response"] == "plain"


async def test_a_cancelled_delivery_is_cancelled():
    started = asyncio.Event()

    async def hold(reader, writer):
        started.set()
        await asyncio.Event().wait()

    async with raw_server(hold) as url, deliverer() as one:
        task = asyncio.create_task(one.deliver(claim(url)))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_request_that_a_kept_connection_did_not_answer_uses_a_new_one():
    connections = 0

    async def once(reader, writer):
        nonlocal connections
        connections += 1
        old = connections <= 2
        await reader.readuntil(b"}}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        if old:
            await reader.readuntil(b"}}")

    payload = '{"a":{}}'
    async with raw_server(once, head=False) as url, deliverer() as one:
        await asyncio.gather(one.deliver(claim(url, payload)), one.deliver(claim(url, payload)))
        assert isinstance(await one.deliver(claim(url, payload)), Delivered)
    assert connections == 3


# The guard at send


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254", "localhost"],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_forbidden_target_is_dead_and_never_dialled(scheme, host):
    async with Sink() as sink:
        outcome = await deliver(f"{scheme}://{host}:{sink.port}/hook", Guard())
        assert (type(outcome), outcome.reason) == (Dead, Reason.REJECTED)
        assert "egress: {allow: [" in outcome.error
        assert sink.received == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]"])
async def test_an_allowed_address_is_reached_in_every_spelling(host):
    async with Sink() as sink:
        assert isinstance(await deliver(f"http://{host}:{sink.port}/hook"), Delivered)


async def test_the_vetted_address_is_the_one_connected_to(monkeypatch):
    guard = Guard(["127.0.0.1"])
    async with Sink() as sink, deliverer(guard) as one:
        asked = answering_dns(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        url = f"http://hook.test:{sink.port}/hook"
        assert isinstance(await one.deliver(claim(url)), Delivered)
        assert asked == ["hook.test"]
        assert sink.received[0].headers["Host"] == f"hook.test:{sink.port}"
    async with deliverer(guard) as one:
        outcome = await one.deliver(claim(url))
        assert isinstance(outcome, Dead)
        assert '"127.0.0.0/8"' in outcome.error
        assert asked == ["hook.test"] * 2


async def test_a_public_name_with_one_private_answer_is_refused(monkeypatch):
    answering_dns(monkeypatch, ["8.8.8.8", "10.0.0.1"])
    outcome = await deliver("https://mixed.example/")
    assert isinstance(outcome, Dead)
    assert "10.0.0.1 is a private address" in outcome.error


async def test_plain_http_to_a_public_name_is_refused_at_send(monkeypatch):
    answering_dns(monkeypatch, ["8.8.8.8"])
    outcome = await deliver("http://public.example/")
    assert isinstance(outcome, Dead)
    assert "unencrypted" in outcome.error


async def test_a_name_that_does_not_resolve_is_tried_again(monkeypatch):
    answering_dns(monkeypatch, socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    outcome = await deliver("https://nowhere.example/?token=hidden")
    assert isinstance(outcome, Retry)
    assert "Name or service not known" in outcome.error
    assert "hidden" not in repr(outcome)


async def test_a_trusted_contract_reaches_what_an_untrusted_one_may_not():
    trusted = {"c1"}
    async with Sink() as sink, deliverer(Guard(), trusted=trusted.__contains__) as one:
        assert isinstance(await one.deliver(claim(sink.url)), Delivered)
        # The connection of the trusted contract is still open, and must not carry anybody else's event.
        assert isinstance(await one.deliver(claim(sink.url, contract=None)), Dead)
        trusted.clear()
        assert isinstance(await one.deliver(claim(sink.url)), Dead)
        assert len(sink.received) == 1


async def test_trust_does_not_reach_the_metadata_service():
    outcome = await deliver("http://169.254.169.254/", Guard(), trusted=lambda _: True)
    assert isinstance(outcome, Dead)
    assert '"169.254.169.254/32"' in outcome.error


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def client_tls(certificate):
    return ssl.create_default_context(cafile=certificate[0])


async def test_a_self_signed_certificate_is_refused_with_the_reason(server_tls):
    async with Sink(tls=server_tls) as sink:
        outcome = await deliver(sink.url)
        assert isinstance(outcome, Retry)
        assert "certificate is not valid: self-signed certificate" in outcome.error.replace(
            "self signed", "self-signed"
        )
        assert sink.received == []


async def test_a_certificate_for_another_host_is_refused(server_tls, client_tls, monkeypatch):
    answering_dns(monkeypatch, ["127.0.0.1"])
    async with Sink(tls=server_tls) as sink:
        outcome = await deliver(f"https://other.test:{sink.port}/", tls=client_tls)
        assert isinstance(outcome, Retry)
        assert "Hostname mismatch" in outcome.error
        assert sink.received == []


async def test_a_server_without_tls_is_not_sent_plain_text():
    async with Sink() as sink:
        outcome = await deliver(sink.url.replace("http:", "https:"))
        assert isinstance(outcome, Retry)
        assert "TLS failed" in outcome.error
        assert sink.received == []


async def test_an_old_tls_version_is_refused(server_tls, client_tls, monkeypatch):
    answering_dns(monkeypatch, ["127.0.0.1"])
    client_tls.minimum_version = ssl.TLSVersion.TLSv1_3
    server_tls.maximum_version = ssl.TLSVersion.TLSv1_2
    async with Sink(tls=server_tls) as sink:
        outcome = await deliver(f"https://hook.test:{sink.port}/", tls=client_tls)
        assert isinstance(outcome, Retry)
        assert sink.received == []


async def test_tls_uses_the_name_of_the_host_not_its_address(server_tls, client_tls, monkeypatch):
    asked = answering_dns(monkeypatch, ["127.0.0.1"])
    names = []
    server_tls.sni_callback = lambda sock, name, context: names.append(name)
    async with Sink(tls=server_tls) as sink:
        outcome = await deliver(f"https://hook.test:{sink.port}/hook", tls=client_tls)
        assert isinstance(outcome, Delivered)
        assert sink.received[0].headers["Host"] == f"hook.test:{sink.port}"
    assert (names, asked) == (["hook.test"], ["hook.test"])


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
