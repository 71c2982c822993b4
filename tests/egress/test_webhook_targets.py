"""Targets of webhooks: forbidden addresses, name resolution, TLS."""

from __future__ import annotations

import socket
import ssl

import pytest

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.states import Reason
from holdfast.net.guard import Guard
from receivers import answering_dns, self_signed
from sink import Sink
from webhook_deliveries import claim, deliver, deliverer

# The guard at send


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254", "localhost"],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_forbidden_target_is_dead_and_never_dialed(scheme, host):
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
        # The connection of the trusted contract is still open, and must not carry an event of another contract.
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
