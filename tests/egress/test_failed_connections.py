"""Failures before an answer: TLS, name resolution, forbidden addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.address import parse_address
from holdfast.domain.errors import BadInput, TargetRefused
from holdfast.domain.event import new_event
from holdfast.net.guard import Guard
from receivers import Talk, answering_dns, raw_server, reset, saying, self_signed, stay_silent
from sink import Sink
from stored_deliveries import Wired, stands, words


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Wired]:
    harness = Wired(tmp_path)
    harness.wire()
    yield harness
    await harness.script.close()
    await harness.store.close()


# TLS
Serve = Callable[[Path], AbstractAsyncContextManager[str]]


def tls_sink(host: str = "hook.test", days: tuple[int, int] = (-1, 1), **options: Any) -> Serve:
    @asynccontextmanager
    async def serve(folder: Path) -> AsyncIterator[str]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self_signed(folder, host, *days))
        for name, value in options.items():
            setattr(context, name, value)
        async with Sink(tls=context) as sink:
            yield f"https://hook.test:{sink.port}/"
            assert sink.received == [], "nothing was sent to a receiver that did not prove itself"

    return serve


def tls_raw(talk: Talk) -> Serve:
    @asynccontextmanager
    async def serve(folder: Path) -> AsyncIterator[str]:
        async with raw_server(talk, "https", head=False) as url:
            yield url.replace("127.0.0.1", "hook.test")

    return serve


def trust(roots: ssl.SSLContext, folder: Path) -> None:
    for certificate in folder.glob("*.pem"):
        roots.load_verify_locations(certificate)


TLS: dict[str, tuple[Serve, bool, str]] = {
    "self-signed": (tls_sink(), False, "certificate is not valid"),
    "for another host": (tls_sink("other.test"), True, "Hostname mismatch"),
    "expired": (tls_sink(days=(-9, -2)), True, "certificate has expired"),
    "not valid yet": (tls_sink(days=(2, 9)), True, "not yet valid"),
    "an old version": (tls_sink(maximum_version=ssl.TLSVersion.TLSv1_2), True, ""),
    "plain HTTP": (tls_raw(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")), True, "TLS failed"),
    "hangs up in the handshake": (tls_raw(saying()), True, ""),
    "resets in the handshake": (tls_raw(reset), True, ""),
    "an alert": (tls_raw(saying(b"\x15\x03\x03\x00\x02\x02\x28")), True, "TLS failed"),
    "garbage": (tls_raw(saying(b"\x16\x03\x03\xff\xff" + b"\x00" * 70_000)), True, ""),
    "silence in the handshake": (tls_raw(stay_silent), True, "no connection within"),
}


@pytest.mark.parametrize("name", TLS)
async def test_a_tls_failure(harness: Wired, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    serve, known, words = TLS[name]
    answering_dns(monkeypatch, ["127.0.0.1"])
    async with serve(tmp_path) as url:
        roots = ssl.create_default_context()
        if known:
            trust(roots, tmp_path)
        if name == "an old version":
            roots.minimum_version = ssl.TLSVersion.TLSv1_3
        harness.wire(tls=roots, connect_s=0.3 if "silence" in name else 60.0)
        row, tried = await harness.attempt(url)
    assert (stands(row), row.attempts) == ("pending", 1), tried
    assert words in (row.last_error or "")
    assert "unexpected" not in (row.last_error or "")


async def test_a_receiver_that_requires_a_client_certificate(
    harness: Wired, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    answering_dns(monkeypatch, ["127.0.0.1"])
    cert, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.verify_mode, context.check_hostname = ssl.CERT_REQUIRED, False
    async with Sink(tls=context) as sink:
        harness.wire(tls=ssl.create_default_context(cafile=cert))
        row, _ = await harness.attempt(f"https://hook.test:{sink.port}/")
        assert (stands(row), sink.received) == ("pending", [])


# DNS
NOT_FOUND = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

DNS: dict[str, tuple[list[str] | BaseException, str, str]] = {
    "no such name": (NOT_FOUND, "pending", "not found"),
    "no address": (socket.gaierror(socket.EAI_NODATA, "No address associated with hostname"), "pending", "No address"),
    "try again": (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "pending", "Temporary"),
    "a failing server": (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure"), "pending", "Non-recoverable"),
    "a name that cannot be": (UnicodeError("label too long"), "pending", ""),
    "an empty answer": ([], "dead(rejected)", "no address"),
    "a private address": (["10.0.0.1"], "dead(rejected)", "a private address"),
    "a private address among public ones": (["8.8.8.8", "192.168.0.1"], "dead(rejected)", "a private address"),
    "the metadata service": (["169.254.169.254"], "dead(rejected)", "metadata"),
    "a mapped loopback": (["::ffff:127.0.0.1"], "dead(rejected)", "loopback"),
    "no IP address at all": (["hook.test"], "dead(rejected)", "not an IP address"),
}  # fmt: skip


@pytest.mark.parametrize("name", DNS)
async def test_a_dns_failure(harness: Wired, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    answer, wanted, words = DNS[name]
    harness.wire(allow=())
    answering_dns(monkeypatch, answer)
    row, tried = await harness.attempt("https://hook.test/hook?token=canary")
    assert (stands(row), row.attempts) == (wanted, 1), tried
    assert words in (row.last_error or "")
    assert "unexpected" not in (row.last_error or "")
    assert "canary" not in f"{row.last_error} {tried}"


async def test_a_dns_server_that_does_not_answer(harness: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("holdfast.net.guard.DNS_S", 0.05)
    harness.wire(allow=())
    monkeypatch.setattr("holdfast.net.guard.getaddrinfo", silent)
    row, _ = await harness.attempt("https://hook.test/")
    assert (stands(row), row.last_error) == (
        "pending",
        "the host's name was not found: DNS gave no answer within 0.05 s",
    )


# Forbidden addresses, in every spelling
SPELLINGS = words("""
    127.0.0.1 127.1 127.0.1 0x7f.1 0x7f.0.0.1 0177.0.0.1 0177.1 2130706433 017700000001 0x7f000001 0X7F000001 127.0.0.1.
    %31%32%37.0.0.1 %E2%91%A0%E2%91%A1%E2%91%A6.%E2%93%AA.%E2%93%AA.%E2%91%A0 localhost LOCALHOST localhost. a.localhost
    0 0x0 0.0.0.0 10.1 012.1 0xa.1 10.0.0.1 172.16.0.1 172.31.255.255 192.168.257 192.168.1.1 100.64.0.1 100.127.255.255
    169.254.169.254 0xa9fea9fe 2852039166 0251.0376.0251.0376 169.254.1.1 168.63.129.16 100.100.100.200
    192.0.0.1 192.0.0.9 192.0.0.10 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
    224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
    [::] [::1] [0:0:0:0:0:0:0:1] [::2] [::7f00:1] [::127.0.0.1] [::8.8.8.8] [::ffff:127.0.0.1] [::ffff:7f00:1]
    [::ffff:10.0.0.1] [::ffff:a9fe:a9fe] [::ffff:168.63.129.16] [::ffff:0:7f00:1] [::ffff:0:808:808] [::5efe:7f00:1]
    [2001:4860:4860::5efe:8.8.8.8] [2001:4860:4860::200:5efe:10.0.0.1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe]
    [64:ff9b::10.0.0.1] [64:ff9b:1::1] [64:ff9b:1::808:808] [100::1] [2001::1] [2001:0:4136:e378:8000:63bf:3fff:fdd2]
    [2001:1ff::1] [2001:db8::1] [2002:7f00:1::1] [2002:a9fe:a9fe::1] [2002:808:808::1] [3fff::1] [5f00::1] [4000::1]
    [200::1] [fc00::1] [fd00::1] [fd00:ec2::254] [fd20:ce::254] [fe80::1] [fe80::1%25eth0] [febf::1] [fec0::1] [ff02::1]
    [ff0e::1]
""")

NOT_ASCII = words("①②⑦.⓪.⓪.① １２７.０.０.１ 127。0。0。1 loc\u0430lhost")


@pytest.mark.parametrize("host", NOT_ASCII)
def test_a_host_in_non_ascii_digits_is_not_an_address(host: str) -> None:
    with pytest.raises(BadInput, match="non-ASCII characters"):
        parse_address(f"https://{host}/hook")
    with pytest.raises(TargetRefused):
        Guard().check_url(f"https://{host}/hook")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_forbidden_address_is_refused_on_create_and_on_send_in_every_spelling(
    harness: Wired, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    async def dialed(*_: Any, **__: Any) -> None:
        raise AssertionError("it was dialed")

    harness.wire(allow=())
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", dialed)
    urls = [f"{scheme}://{host}:8443/hook" for host in SPELLINGS]
    for url in urls:
        with pytest.raises(TargetRefused):
            await Guard().check_target(url)
    await harness.start()
    # As rows of the store, since no verb would make such a contract.
    for number, url in enumerate(urls):
        await harness.contract(f"c{number}", url)
    await harness.publish(new_event("t.x", {}))
    await harness.settled(len(urls))
    rows = await harness.rows()
    assert len(rows) == len(urls)
    assert [row.address for row in rows if stands(row) != "dead(rejected)"] == []
    assert all("may not be a target" in (row.last_error or "") for row in rows), [row.last_error for row in rows]
