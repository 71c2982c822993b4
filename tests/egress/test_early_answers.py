"""Answers that come too early, on plain and TLS connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
import threading
from array import array
from collections.abc import Callable, Coroutine
from itertools import chain, repeat
from typing import Any

import pytest

from holdfast.domain.delivery import Delivered, Outcome, Retry
from holdfast.net import transport as transport_module
from holdfast.net.answer import Answer
from holdfast.net.client import Client
from holdfast.net.connection import Connection
from holdfast.net.tls import Tls
from holdfast.net.transport import Transport
from receivers import answering_dns, raw_server, self_signed
from stray_answers import STRAY_OK, Proof, answer, claim, client, deliverer
from threaded_receiver import Plan, ThreadedReceiver


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    certificate, key = self_signed(tmp_path_factory.mktemp("tls"), "localhost")
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(certificate, key)
    return Proof(shown, ssl.create_default_context(cafile=certificate))


# Bytes that were not read yet


class HalfRecord:
    """A TLS receiver that answers one request and then sends the first half of a record with another answer in it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.connections = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_side=True)
        await self._until(tls.do_handshake, incoming, outgoing, reader, writer)
        seen = b""
        while not seen.endswith(b"\r\n\r\n{}"):
            seen += await self._until(lambda: tls.read(65536), incoming, outgoing, reader, writer)
        tls.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
        writer.write(outgoing.read())
        tls.write(STRAY_OK)
        record = outgoing.read()
        writer.write(record[:20])
        await reader.read(65536)  # the next request, or the end of the connection
        writer.write(record[20:])

    async def _until(
        self,
        step: Callable[[], Any],
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
            finally:
                writer.write(outgoing.read())


async def post(one: Client, url: str, body: bytes = b"{}") -> Answer:
    answer = Answer()
    with one.timeout(answer, total_s=60.0, silence_s=60.0):
        await one.post(one.route(url, False), {}, body, answer)
    return answer


async def test_a_part_of_a_tls_record_keeps_its_connection_from_being_used_again(
    proof: Proof, monkeypatch: pytest.MonkeyPatch
):
    answering_dns(monkeypatch, ["127.0.0.1"])
    receiver = HalfRecord(proof.shown)
    parts = asyncio.Event()
    decrypt = Tls.decrypt

    def noting(tls: Tls, data: bytes) -> bytes:
        plain = decrypt(tls, data)
        if not tls.is_between_records:
            parts.set()
        return plain

    monkeypatch.setattr(Tls, "decrypt", noting)
    async with raw_server(receiver.talk, "https", head=False) as url, client(proof.trusted) as one:
        url = url.replace("127.0.0.1", "localhost")
        assert (await post(one, url)).status == 404
        await asyncio.wait_for(parts.wait(), 60)
        assert (await post(one, url)).status == 404
    assert receiver.connections == 2


def test_bytes_sent_before_the_receiver_had_any_of_the_request_are_not_its_answer(monkeypatch: pytest.MonkeyPatch):
    async def run(port: int) -> list[Outcome]:
        url = f"http://127.0.0.1:{port}/"
        async with deliverer() as one:
            first = await one.deliver(claim(url, 1))
            # As if the next bytes came within a round trip, while nothing of the second request was acknowledged.
            ((kept,),) = one._client._idle.values()
            monkeypatch.setattr(kept._transport, "round_trip_s", 60.0)
            monkeypatch.setattr(transport_module, "unacknowledged", lambda fd, count: next(counts))
            return [first, await one.deliver(claim(url, 2))]

    counts = chain([10**9], repeat(0))
    with ThreadedReceiver(lambda n: Plan((answer(n, 200, "length"),))).running() as receiver:
        first, second = asyncio.run(run(receiver.port))
    assert (type(first), type(second)) == (Delivered, Delivered)
    assert receiver.received == {1: 1, 2: 2}, "the second was sent again, over a new connection"
    assert receiver.connections == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked in Linux's way")
def test_the_kernel_reports_how_much_is_not_acknowledged():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
            near.setblocking(False)
            sent, count = 0, array("i", [0])
            with contextlib.suppress(BlockingIOError):
                while True:
                    sent += near.send(b"x" * 65536)
            assert 0 < transport_module.unacknowledged(near.fileno(), count) <= sent
            near.settimeout(60)
            while sent:
                sent -= len(far.recv(1 << 20))
            far.sendall(b"an answer acknowledges what came before it")
            assert near.recv(100)
            assert transport_module.unacknowledged(near.fileno(), count) == 0


@pytest.mark.parametrize("first", [b"220 mail.example ESMTP\r\n", STRAY_OK], ids=["a greeting", "an answer"])
@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
def test_a_receiver_that_sends_data_first_is_sent_nothing(
    proof: Proof, monkeypatch: pytest.MonkeyPatch, first: bytes, secured: bool
):
    spoke = threading.Event()
    heard = []

    def speak() -> None:
        sock = server.accept()[0]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # nothing is held back until it is answered
        with proof.shown.wrap_socket(sock, server_side=True) if secured else sock as stream:
            stream.sendall(first)
            spoke.set()
            with contextlib.suppress(OSError):
                heard.append(stream.recv(1000))

    def blocked(connection: Connection, request: bytes, answer: Answer) -> Coroutine[Any, Any, None]:
        assert spoke.wait(60)
        return post(connection, request, answer)

    async def run() -> Outcome:
        async with deliverer(proof.trusted) as one:
            return await one.deliver(claim(f"{'https' if secured else 'http'}://localhost:{port}/", 1))

    post = Connection.post
    monkeypatch.setattr(Connection, "post", blocked)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        thread = threading.Thread(target=speak)
        thread.start()
        outcome = asyncio.run(run())
        thread.join(60)
    assert isinstance(outcome, Retry)
    assert "sent data before it was sent a request" in outcome.error
    assert heard in ([], [b""])


def test_a_kept_tls_connection_that_was_closed_properly_costs_no_attempt(proof: Proof):
    async def run(port: int) -> None:
        async with deliverer(proof.trusted) as one:
            for n in range(5):
                assert isinstance(await one.deliver(claim(f"https://localhost:{port}/", n)), Delivered)
                receiver.wait(n)

    with ThreadedReceiver(lambda n: Plan((answer(n, 200, "length"),), close=True), proof.shown).running() as receiver:
        asyncio.run(run(receiver.port))
    assert receiver.received == dict.fromkeys(range(5), 1)


# Answers that come before all of a request was sent
LARGE = b"x" * 20_000_000


async def test_a_success_counts_if_the_receiver_takes_the_rest_of_the_request():
    taken = asyncio.Queue[bytes]()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 202 Will look at it later\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            await reader.readexactly(len(LARGE))
            taken.put_nowait(head)

    async with raw_server(talk, head=False) as url, client() as one:
        for _ in range(2):
            answer = await post(one, url, LARGE)
            assert (answer.status, answer.error) == (202, None)
            await asyncio.wait_for(taken.get(), 60)


@pytest.mark.parametrize("head", [b"Content-Length: 0\r\n\r\n", b"\r\n"], ids=["with a length", "without"])
async def test_a_success_does_not_count_if_the_receiver_closes_before_it_has_the_request(
    monkeypatch: pytest.MonkeyPatch, head: bytes
):
    seen = asyncio.Event()

    def noting(connection: Connection) -> None:
        on_headers_complete(connection)
        seen.set()

    on_headers_complete = Connection.on_headers_complete
    monkeypatch.setattr(Connection, "on_headers_complete", noting)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        await seen.wait()
        writer.transport.abort()

    async with raw_server(talk, head=False) as url, client() as one:
        answer = await post(one, url, LARGE)
    assert (answer.status, answer.error) == (
        200,
        "answered 200, but closed the connection before it had the whole request",
    )


@pytest.mark.parametrize("head", [b"Content-Length: 0\r\n\r\n", b"\r\n"], ids=["with a length", "without"])
async def test_a_success_does_not_count_if_the_receiver_never_takes_the_rest(head: bytes):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        await asyncio.Event().wait()

    async with raw_server(talk) as url, deliverer(total_s=0.5) as one:
        outcome = await one.deliver(claim(url, 1, 20_000_000))
    assert isinstance(outcome, Retry), outcome


# How a request goes out


def test_a_request_is_written_at_once_and_without_nagle(monkeypatch: pytest.MonkeyPatch):
    options = []

    def noting(self: Transport, transport: asyncio.BaseTransport) -> None:
        sock = transport.get_extra_info("socket")
        options.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        connection_made(self, transport)

    async def run(port: int) -> None:
        async with deliverer() as one:
            for n in range(3):
                await one.deliver(claim(f"http://127.0.0.1:{port}/", n, 1000))

    connection_made = Transport.connection_made
    monkeypatch.setattr(Transport, "connection_made", noting)
    with ThreadedReceiver(lambda n: Plan((answer(n, 200, "length"),))).running() as receiver:
        asyncio.run(run(receiver.port))
    assert [bool(option) for option in options] == [True]
    reads = [read.partition(b"\r\n\r\n") for read in receiver.first_reads if read]
    assert [int(head.rpartition(b"Content-Length: ")[2]) == len(body) > 1000 for head, _, body in reads] == [True] * 3
