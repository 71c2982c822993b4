"""The client on the wire: what it sends, which connections it keeps, and which address it tries next."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.domain.errors import TargetRefused
from holdfast.net import client as client_module
from holdfast.net.answer import BODY_MAX, Answer, Disconnected, RequestError
from holdfast.net.client import Client
from holdfast.net.connection import Connection
from holdfast.net.guard import Guard
from receivers import Talk, answering_dns, raw_server, self_signed

WAIT_S = 60.0
"""For what hangs."""

LOOPBACK = Guard(["127.0.0.0/8", "::1"])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def client(connect_s: float = 2.0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    one = Client(LOOPBACK, tls, connect_s)
    yield one
    await one.close()


async def post(one: Client, url: str, body: bytes = b"{}", *, trusted: bool = False, **headers: str) -> Answer:
    answer = Answer()
    with one.timeout(answer, total_s=60.0, silence_s=60.0):
        await one.post(one.route(url, trusted), headers, body, answer)
    return answer


class Counting:
    """A receiver that answers each POST of each connection with the next of its answers, and counts connections."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.connections, self.heads = list(answers), 0, list[bytes]()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.answers:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            length = self.heads[-1].lower().partition(b"content-length:")[2].split()[0]
            await reader.readexactly(int(length))
            writer.write(self.answers.pop(0))
            await writer.drain()


def answering_once() -> tuple[Talk, asyncio.Event]:
    """A receiver that answers one POST, and says when its connection has ended."""
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(OK)
        await reader.read()
        ended.set()

    return talk, ended


@asynccontextmanager
async def receiver(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async with raw_server(talk, "http" if tls is None else "https", head=False, tls=tls) as url:
        yield url.replace("127.0.0.1", "localhost") if tls else url


class Proof(NamedTuple):
    """The certificate of `localhost`, as the receiver shows it and as the client trusts it."""

    shown: ssl.SSLContext
    trusted: ssl.SSLContext


@pytest.fixture
def proof(tmp_path: Path) -> Proof:
    certificate, key = self_signed(tmp_path, "localhost")
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(certificate, key)
    return Proof(shown, ssl.create_default_context(cafile=certificate))


async def test_a_request_is_one_head_and_the_body_as_it_is():
    bodies = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        bodies.append(head + await reader.readexactly(5))
        writer.write(OK)

    async with receiver(talk) as url, client() as one:
        answer = await post(one, url + "?a=%20b&c", b"12345", Title="x")
    port = url.split(":")[2].split("/")[0]
    assert bodies == [
        f"POST /hook?a=%20b&c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTitle: x\r\nContent-Length: 5\r\n\r\n12345".encode()
    ]
    assert (answer.status, answer.body) == (200, b"ok")


@pytest.mark.parametrize(
    ("url", "start"),
    [
        ("https://hook.test/x", "POST /x HTTP/1.1\r\nHost: hook.test\r\n"),
        ("https://hook.test", "POST / HTTP/1.1\r\nHost: hook.test\r\n"),
        ("https://HOOK.test:443/?q", "POST /?q HTTP/1.1\r\nHost: hook.test\r\n"),
        ("https://hook.test:8443/a//b;c", "POST /a//b;c HTTP/1.1\r\nHost: hook.test:8443\r\n"),
        ("https://[2606:4700::1]/", "POST / HTTP/1.1\r\nHost: [2606:4700::1]\r\n"),
        ("http://127.0.0.1:80/", "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
        ("http://0x7f.1:8080/", "POST / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"),
    ],
)
async def test_the_host_is_named_as_the_guard_reads_it(url: str, start: str):
    async with client() as one:
        assert one.route(url, False).start == start


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb: c", "a\rb", "a\0b", "\r\n\r\nPOST / HTTP/1.1"])
async def test_a_header_cannot_hold_another(value: str):
    counting = Counting(OK)
    async with receiver(counting.talk) as url, client() as one:
        with pytest.raises(RequestError, match="line break"):
            await post(one, url, X=value)
    assert counting.connections == 0


@pytest.mark.parametrize(
    "name",
    [
        "Content-Length",
        "transfer-encoding",
        "HOST",
        "Connection",
        "Expect",
        "A: b\r\nC",
        "A:",
        "A b",
        "",
        "É",
        "\r\n",
        "A\0",
    ],
)
async def test_a_header_cannot_set_the_length_of_the_request(name: str):
    counting = Counting(OK)
    async with receiver(counting.talk) as url, client() as one:
        with pytest.raises(RequestError, match="a header of the request"):
            await post(one, url, **{name: "x"})
        with pytest.raises(RequestError, match="a header of the request"):
            await post(one, url, X="\ud800")
    assert counting.connections == 0


@pytest.mark.parametrize("path", ["/a b", "/a HTTP/1.1 x", "/\x0b", "/\x7f", "/é", "/?\xa0"])
async def test_a_path_cannot_end_the_request_line(path: str):
    async with client() as one:
        with pytest.raises(TargetRefused, match="percent-encode"):
            one.route(f"https://hook.test{path}", False)


async def test_one_connection_serves_one_request_after_another():
    counting = Counting(
        OK,
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 204 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 404 No\nContent-Length: 0\n\n",
        b"HTTP/1.0 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nConnection: close\r\n\r\n" + OK,
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        OK,
    )
    async with receiver(counting.talk) as url, client() as one:
        statuses = [(await post(one, url)).status for _ in range(8)]
    assert statuses == [200, 200, 204, 200, 404, 200, 200, 200]
    assert counting.connections == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_one_connection_serves_over_tls_too(
    version: ssl.TLSVersion, proof: Proof, monkeypatch: pytest.MonkeyPatch
):
    answering_dns(monkeypatch, ["127.0.0.1"])
    proof.shown.maximum_version = version
    counting = Counting(OK, OK, OK)
    async with receiver(counting.talk, proof.shown) as url, client(tls=proof.trusted) as one:
        bodies = [(await post(one, url.replace("localhost", "localhost."), b"x" * 100_000)).body for _ in range(3)]
    assert bodies == [b"ok"] * 3
    assert counting.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"and more",
        OK + b"\x00",
        OK + b"H",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99_999,
        b"HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    ],
    ids=[
        "asked to close", "an old version", "two answers", "more than announced", "a stray byte", "a part of an answer",
        "too long to read", "another protocol from here on",
    ],
)  # fmt: skip
async def test_a_connection_with_unexpected_data_is_not_used_again(answer: bytes):
    counting = Counting(answer, OK)
    async with receiver(counting.talk) as url, client() as one:
        first = await post(one, url)
        second = await post(one, url)
    assert (first.status, second.status, second.body) == (int(answer[9:12]), 200, b"ok")
    assert len(first.body) <= BODY_MAX
    assert counting.connections == 2


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
async def test_an_answer_before_the_whole_request_was_sent_counts_and_ends_the_connection(secured: bool, proof: Proof):
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(0.3)

    async with receiver(talk, proof.shown if secured else None) as url, client(tls=proof.trusted) as one:
        assert (await post(one, url, b"x" * 20_000_000)).status == 413
        assert (await post(one, url)).status == 413
    assert connections == 2


async def test_a_request_cancelled_as_its_answer_arrives_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch,
):
    talk, ended = answering_once()

    def complete(connection: Connection) -> None:
        on_message_complete(connection)
        posting.cancel()

    on_message_complete = Connection.on_message_complete
    monkeypatch.setattr(Connection, "on_message_complete", complete)
    async with receiver(talk) as url, client() as one:
        posting = asyncio.create_task(post(one, url))
        with pytest.raises(asyncio.CancelledError):
            await posting
        await asyncio.wait_for(ended.wait(), WAIT_S)


async def test_a_kept_connection_that_ends_without_an_answer_is_named_as_such():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")

    async with receiver(talk) as url, client() as one:
        await post(one, url)
        with pytest.raises(Disconnected) as caught:
            await post(one, url)
    assert caught.value.reused


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch):
    talk, ended = answering_once()

    monkeypatch.setattr(client_module, "KEEPALIVE_S", 0.05)
    async with receiver(talk) as url, client() as one:
        await post(one, url)
        await asyncio.wait_for(ended.wait(), WAIT_S)


@pytest.mark.parametrize("more", [b"", b"junk"], ids=["an idle one", "one that speaks unasked"])
async def test_a_receiver_that_does_not_end_tls_holds_no_connection(more: bytes, proof: Proof):
    answered, ended = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(OK)
        await answered.wait()
        writer.write(more)
        writer.transport.pause_reading()
        # A socket of its own sees the end of TCP, past the TLS that is left without an answer.
        with writer.get_extra_info("socket").dup() as sock:
            while await asyncio.get_running_loop().sock_recv(sock, 1000):
                pass
        writer.transport.abort()
        ended.set()

    async with receiver(talk, proof.shown) as url, client(tls=proof.trusted) as one:
        await post(one, url)
        answered.set()
        if not more:
            await one.close()
        await asyncio.wait_for(ended.wait(), WAIT_S)


async def test_the_number_of_kept_connections_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client_module, "IDLE_MAX", 1)
    counting = Counting(OK, OK, OK, OK)
    async with receiver(counting.talk) as url, client() as one:
        await asyncio.gather(post(one, url), post(one, url))
        await asyncio.gather(post(one, url), post(one, url))
    assert counting.connections == 3


async def test_trust_is_not_shared_over_a_connection():
    counting = Counting(OK, OK)
    async with receiver(counting.talk) as url, client() as one:
        for trusted in (True, False):
            await post(one, url, trusted=trusted)
    assert counting.connections == 2


async def test_the_next_address_is_tried_when_one_refuses(monkeypatch: pytest.MonkeyPatch):
    counting = Counting(OK)
    async with receiver(counting.talk) as url, client() as one:
        answering_dns(monkeypatch, ["127.0.0.2", "127.0.0.1"])
        monkeypatch.setattr(LOOPBACK, "vet", lambda *_, **__: None)
        assert (await post(one, url.replace("127.0.0.1", "hook.test"))).status == 200


async def test_an_address_that_does_not_answer_delays_the_next_one_only_briefly(monkeypatch: pytest.MonkeyPatch):
    counting = Counting(OK)
    connect = asyncio.get_running_loop().sock_connect
    tried = []

    async def dead_or_alive(sock: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address[0])
        if address[0] == "127.0.0.2":
            await asyncio.Event().wait()
        await connect(sock, address)

    async with receiver(counting.talk) as url, client() as one:
        answering_dns(monkeypatch, ["127.0.0.2", "127.0.0.1"])
        monkeypatch.setattr(LOOPBACK, "vet", lambda *_, **__: None)
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", dead_or_alive)
        assert (await post(one, url.replace("127.0.0.1", "hook.test"))).status == 200
    assert tried == ["127.0.0.2", "127.0.0.1"]


async def test_every_address_that_fails_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch):
    errors = {"127.0.0.1": ConnectionRefusedError(111, "Refused"), "127.0.0.2": OSError(101, "Unreachable")}

    async def failing(sock: socket.socket, address: tuple[str, int]) -> None:
        raise errors[address[0]]

    answering_dns(monkeypatch, list(errors))
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", failing)
    async with client() as one:
        with pytest.raises(RequestError, match=r"could not connect: .*Refused.*Unreachable"):
            await post(one, "http://hook.test:8080/")
