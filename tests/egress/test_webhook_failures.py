"""Failing receivers: broken, slow, endless and compressed answers."""

from __future__ import annotations

import asyncio
import gzip
import socket

import pytest

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.egress.webhook.exchange import SHOWN_MAX
from holdfast.net.answer import BODY_MAX
from receivers import raw_server, reset, saying, stay_silent
from sink import Sink
from webhook_deliveries import claim, deliver, deliverer

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
    assert len(bomb) > BODY_MAX
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
