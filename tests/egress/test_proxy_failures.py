"""Forbidden targets and failures through a proxy."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from base64 import b64encode

import pytest

from connect_proxy import OK, ConnectProxy
from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.net.guard import Guard
from holdfast.net.proxy import read_proxies
from holdfast.ports import SystemClock
from proxied_deliveries import LOGIN, Proof, claim, deliver, deliverer, dns, through, unsigned
from receivers import raw_server, saying, self_signed
from sink import Sink


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    folder = tmp_path_factory.mktemp("tls")
    pairs = [self_signed(folder, host) for host in ("hook.test", "localhost")]
    contexts = []
    for certificate, key in pairs:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        contexts.append(context)
    roots = folder / "roots.crt"
    roots.write_bytes(b"".join(certificate.read_bytes() for certificate, _ in pairs))
    return Proof(*contexts, ssl.create_default_context(cafile=roots), roots)


# The guard holds


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.1/", "https://0xa9fea9fe/", "https://[::ffff:10.0.0.1]/", "https://private.test/",
        "https://mixed.test/", "http://public.test/", "http://unknown.test/", "https://unknown.test:22/",
        "https://[fd00::1]/", "https://169.254.169.254/", "https://127.0.0.1/", "https://localhost/",
    ],
)  # fmt: skip
async def test_a_forbidden_target_stays_forbidden_through_a_proxy(monkeypatch: pytest.MonkeyPatch, url: str):
    names = {"private.test": ["10.0.0.1"], "mixed.test": ["8.8.8.8", "10.0.0.1"], "public.test": ["8.8.8.8"]}
    dns(monkeypatch, {"localhost": ["127.0.0.1"], **names})
    async with ConnectProxy() as proxy:
        outcome = await deliver(url, through(proxy))
    assert isinstance(outcome, Dead)
    assert "may not be a target" in outcome.error
    assert proxy.asked == []


async def test_trust_does_not_lead_to_the_metadata_service_through_a_proxy(monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"localhost": ["127.0.0.1"], "meta.test": ["169.254.169.254"]})
    async with ConnectProxy() as proxy, deliverer(through(proxy), trusted=lambda _: True) as one:
        assert isinstance(await one.deliver(claim("https://meta.test/", "c")), Dead)
    assert proxy.asked == []


# A proxy that fails
FAILURES: dict[str, tuple[bytes, str]] = {
    "demands a login": (b"HTTP/1.1 407 Login\r\n\r\n", "a user and a password, or refuses those it was sent (407)"),
    "refuses": (b"HTTP/1.1 403 No\r\nX: canary\r\n\r\nno", "refused to connect to hook.test:443: it answered 403"),
    "does not reach it": (b"HTTP/1.1 502 canary\r\n\r\n", "refused to connect to hook.test:443: it answered 502"),
    "redirects": (b"HTTP/1.1 302 No\r\nLocation: https://x/\r\n\r\n", "it answered 302"),
    "says 101": (b"HTTP/1.1 101 No\r\n\r\n", "it answered 101"),
    "closes": (b"", "closed the connection"),
    "closes in its head": (b"HTTP/1.1 200 OK\r\nX: ", "closed the connection"),
    "speaks no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "did not answer in HTTP"),
    "an endless head": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "did not answer in HTTP"),
    "endless interim answers": (b"HTTP/1.1 100 Go on\r\n\r\n" * 10_000, "did not answer in HTTP"),
    "data before the request": (OK + b"HTTP/1.1 200 OK\r\n\r\n", "sent data before it was sent a request"),
    "hangs": (b"", "no connection through the proxy"),
    "hangs in its head": (b"HTTP/1.1 200 OK\r\nX: ", "no connection through the proxy"),
    "hangs after 100": (b"HTTP/1.1 100 Go on\r\n\r\n", "no connection through the proxy"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failure_of_the_proxy_is_tried_again_and_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
):
    answer, words = FAILURES[name]
    hangs = name.startswith("hangs")
    caplog.set_level(logging.DEBUG)
    dns(monkeypatch, {"localhost": ["127.0.0.1"]})
    async with Sink() as sink, ConnectProxy({"hook.test": sink.port}, answer=answer, hangs=hangs) as proxy:
        one = WebhookDeliverer(
            Guard(), unsigned, SystemClock(), user_agent="x", proxies=through(proxy),
            connect_s=0.5 if hangs else 30.0,
        )  # fmt: skip
        outcome = await one.deliver(claim("https://hook.test/"))
        await one.close()
    assert isinstance(outcome, Retry)
    assert f"localhost:{proxy.port}" in outcome.error
    assert words in outcome.error
    assert sink.received == []
    no_secret_in(f"{outcome!r} {caplog.text}")


def no_secret_in(text: str) -> None:
    assert "canary" not in text
    assert b64encode(LOGIN.encode()).decode() not in text
    assert "unexpected" not in text


async def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"localhost": ["127.0.0.1"]})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        outcome = await deliver("https://hook.test/", read_proxies(f"http://{LOGIN}@localhost:{port}", {}))
        assert outcome == Retry(
            f"could not connect to the proxy localhost:{port}: Connection refused", None, outcome.detail
        )
        outcome = await deliver("https://hook.test/", read_proxies(f"http://{LOGIN}@nowhere.test:{port}", {}))
    assert isinstance(outcome, Retry)
    assert outcome.error == f"the name of the proxy nowhere.test:{port} was not found: Name or service not known"


async def test_a_proxy_without_a_valid_certificate_gets_no_password(proof: Proof, monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"localhost": ["127.0.0.1"]})
    async with ConnectProxy(tls=proof.receiver) as proxy:
        outcome = await deliver("https://hook.test/", through(proxy, "https"), proof.trusted)
        assert isinstance(outcome, Retry)
        assert f"TLS to the proxy localhost:{proxy.port}: the certificate is not valid" in outcome.error
        async with raw_server(saying(b"HTTP/1.1 200 OK\r\n\r\n"), head=False) as url:
            plain = f"https://{LOGIN}@localhost:{url.split(':')[2].split('/')[0]}"
            outcome = await deliver("https://hook.test/", read_proxies(plain, {}), proof.trusted)
        assert isinstance(outcome, Retry)
        assert "TLS to the proxy localhost:" in outcome.error
    assert proxy.asked == []


async def test_an_interim_answer_of_the_proxy_is_passed_over(proof: Proof, monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"localhost": ["127.0.0.1"]})

    class Patient(ConnectProxy):
        async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
            await super()._talk(reader, writer)

    async with Sink(tls=proof.receiver) as sink, Patient({"hook.test": sink.port}) as proxy:
        assert isinstance(await deliver("https://hook.test/", through(proxy), proof.trusted), Delivered)
