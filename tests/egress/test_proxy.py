"""Webhooks through a proxy: which one is used, what it is sent, and how a delivery ends if it fails."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from pathlib import Path

import pytest

import tinyproxy
from connect_proxy import ConnectProxy
from daemon import Daemon
from holdfast.config.config import load_config
from holdfast.domain.delivery import Delivered, Outcome, Retry
from holdfast.domain.errors import BadConfig
from holdfast.net.guard import TargetHost, read_target
from holdfast.net.proxy import DIRECT, Proxies, Proxy, read_proxies
from proxied_deliveries import LOGIN, PASSWORD, Proof, claim, deliver, deliverer, dns, through
from receivers import self_signed
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


# Which proxy is used


def test_without_the_setting_there_is_no_proxy_whatever_the_environment_has():
    environment = {"HTTPS_PROXY": "http://proxy.example:1", "https_proxy": "http://proxy.example:1"}
    assert read_proxies("", environment) is DIRECT
    assert DIRECT.find(read_target("https://hook.example/")) is None


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://proxy.example:3128", Proxy("proxy.example", 3128, False)),
        ("http://proxy.example", Proxy("proxy.example", 80, False)),
        ("https://proxy.example/", Proxy("proxy.example", 443, True)),
        ("HTTP://10.1.2.3:8080", Proxy("10.1.2.3", 8080, False)),
        ("http://[fd00::1]:3128", Proxy("fd00::1", 3128, False)),
        ("http://user:pass@proxy.example:3128", Proxy("proxy.example", 3128, False, "Basic dXNlcjpwYXNz")),
        ("http://us%40er:p%3Aa%2Fss@proxy.example:1", Proxy("proxy.example", 1, False, "Basic dXNAZXI6cDphL3Nz")),
        ("http://us:p@a/s?s#@proxy.example:1", Proxy("proxy.example", 1, False, "Basic dXM6cEBhL3M/cyM=")),
        ("http://user@proxy.example:1", Proxy("proxy.example", 1, False, "Basic dXNlcjo=")),
    ],
)
def test_a_proxy_is_read_from_its_url(text: str, proxy: Proxy):
    assert read_proxies(text, {}) == Proxies(proxy, proxy)
    assert read_proxies("env", {"HTTPS_PROXY": text}) == Proxies(proxy, None)


@pytest.mark.parametrize(
    "text",
    [
        "socks5://user:canary@proxy.example:1080", "http://", "http://user:canary@", "http://u:canary@proxy.example:0",
        "http://user:canary@proxy.example:99999", "http://user:canary@proxy.example:http", "http://u:canary@pro xy:1",
        "http://user:canary@proxy.example:3128/path", "http://user:canary@proxy.example/?x", "ftp://canary",
        "http://user:canary@[v1.x]:1", "http://user:canary@[::1", "Env canary",
    ],
)  # fmt: skip
def test_an_invalid_proxy_is_refused_without_showing_its_password(text: str):
    for name, read in (("egress.proxy", (text, {})), ("https_proxy", ("env", {"https_proxy": text}))):
        with pytest.raises(BadConfig) as caught:
            read_proxies(*read)
        assert name in caught.value.message
        assert "canary" not in caught.value.message


def test_a_password_is_not_shown_with_its_proxy():
    proxies = read_proxies(f"http://user:{PASSWORD}@proxy.example:3128", {})
    assert proxies.https is not None
    for text in (repr(proxies), str(proxies.https), proxies.https.name):
        assert "proxy.example" in text
        assert "canary" not in text
        assert "Basic" not in text


def test_the_environment_has_one_for_each_scheme_and_the_lower_case_name_goes_first():
    environment = {
        "HTTPS_PROXY": "http://upper.example:1",
        "https_proxy": "http://lower.example:1",
        "HTTP_PROXY": "plain.example:8080",
        "ALL_PROXY": "http://all.example:1",
    }
    proxies = read_proxies("env", environment)
    assert proxies.find(read_target("https://hook.example/")) == Proxy("lower.example", 1, False)
    assert proxies.find(read_target("http://hook.example/")) == Proxy("plain.example", 8080, False)
    assert read_proxies("env", {"ALL_PROXY": "http://all.example:1"}).find(read_target("https://x.example/")) is None
    assert read_proxies("env", {"https_proxy": " ", "HTTPS_PROXY": "http://upper.example:1"}).https is not None


EXEMPT = {
    "hook.example": ("https://hook.example/ https://a.hook.example/ https://HOOK.example./", "https://xhook.example/"),
    ".hook.example": ("https://a.hook.example/ https://hook.example/", "https://hook.example.org/"),
    "*.hook.example": ("https://a.b.hook.example/", "https://other.example/"),
    "hook.example:8443": ("https://hook.example:8443/ https://a.hook.example:8443/", "https://hook.example/"),
    "10.1.0.0/16": ("https://10.1.2.3/ https://0xa.1.2.3/", "https://10.2.0.1/ https://hook.example/"),
    "10.1.2.3/8": ("https://10.200.0.1/", "https://11.0.0.1/"),
    "10.1.2.3": ("https://10.1.2.3/ https://10.1.2.3:8443/", "https://10.1.2.4/"),
    "10.1.2.3:8443": ("https://10.1.2.3:8443/", "https://10.1.2.3/"),
    "fd00::/8": ("https://[fd00::1]/", "https://[fe00::1]/"),
    "[fd00::1]:8443": ("https://[fd00::1]:8443/", "https://[fd00::1]/"),
    "a.example, b.example c.example,": (
        "https://a.example/ https://b.example/ https://c.example/",
        "https://d.example/",
    ),
    "*": ("https://hook.example/ https://10.1.2.3/ https://[fd00::1]:1/", ""),
    "10.0.0.0/99,[,:,/,10.*": ("", "https://hook.example/ https://10.1.2.3/"),
    "": ("", "https://hook.example/"),
}


@pytest.mark.parametrize("entries", EXEMPT)
def test_no_proxy_exempts_names_networks_and_ports(entries: str):
    proxies = read_proxies("env", {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": entries})
    direct, proxied = (text.split() for text in EXEMPT[entries])
    assert [url for url in direct if proxies.find(read_target(url)) is not None] == []
    assert [url for url in proxied if proxies.find(read_target(url)) is None] == []


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_this_machine_is_never_reached_through_a_proxy(host: str):
    assert read_proxies("http://proxy.example:3128", {}).find(read_target(f"https://{host}/")) is None


def test_the_setting_reaches_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "holdfast.yml"
    path.write_text('egress: {proxy: "http://user:${PROXY_PASSWORD}@proxy.example:3128"}')
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)
    config = load_config(path)
    assert config.proxies == read_proxies(f"http://user:{PASSWORD}@proxy.example:3128", {})
    assert "canary" not in repr(config)
    monkeypatch.setenv("HTTPS_PROXY", "http://other.example:1")
    monkeypatch.delenv("https_proxy", raising=False)
    path.write_text("egress: {proxy: env}")
    assert load_config(path).proxies.https == Proxy("other.example", 1, False)
    assert load_config(None).proxies == DIRECT


# What goes through it


@pytest.mark.parametrize("outer", ["http", "https"])
@pytest.mark.parametrize("inner", ["http", "https"])
async def test_a_delivery_goes_through_a_tunnel(proof: Proof, monkeypatch: pytest.MonkeyPatch, outer: str, inner: str):
    dns(monkeypatch, {"localhost": ["127.0.0.1"], "hook.test": ["203.0.113.9"]})
    async with (
        Sink(tls=proof.receiver if inner == "https" else None) as sink,
        ConnectProxy({"hook.test": sink.port}, login=LOGIN, tls=proof.proxy if outer == "https" else None) as proxy,
        deliverer(through(proxy, outer), proof.trusted, ["203.0.113.9"]) as one,
    ):
        for _ in range(3):
            assert isinstance(await one.deliver(claim(f"{inner}://hook.test:9443/a?b=c")), Delivered)
    assert [asked.line for asked in proxy.asked] == ["CONNECT hook.test:9443 HTTP/1.1"], "the tunnel was kept"
    assert proxy.asked[0].headers["host"] == "hook.test:9443"
    assert [got.path for got in sink.received] == ["/a?b=c"] * 3
    for got in sink.received:
        assert got.headers["Host"] == "hook.test:9443"
        assert "proxy-authorization" not in {name.lower() for name in got.headers}


async def test_a_name_that_only_the_proxy_can_resolve_is_the_proxys_to_decide(
    proof: Proof, monkeypatch: pytest.MonkeyPatch
):
    asked = dns(monkeypatch, {"localhost": ["127.0.0.1"]})
    async with Sink(tls=proof.receiver) as sink, ConnectProxy({"hook.test": sink.port}) as proxy:
        outcome = await deliver("https://hook.test/", through(proxy), proof.trusted)
    assert isinstance(outcome, Delivered)
    assert asked == ["hook.test", "localhost"], "the name is looked up here first"


async def test_without_a_login_none_is_sent(proof: Proof, monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"localhost": ["127.0.0.1"]})
    async with Sink(tls=proof.receiver) as sink, ConnectProxy({"hook.test": sink.port}) as proxy:
        proxies = read_proxies(f"http://localhost:{proxy.port}", {})
        assert isinstance(await deliver("https://hook.test/", proxies, proof.trusted), Delivered)
    assert "proxy-authorization" not in proxy.asked[0].headers


async def test_each_target_has_tunnels_of_its_own(monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"localhost": ["127.0.0.1"], "one.test": ["203.0.113.9"], "two.test": ["203.0.113.9"]})
    async with (
        Sink() as first,
        Sink() as second,
        ConnectProxy({"one.test": first.port, "two.test": second.port}) as proxy,
        deliverer(through(proxy), allow=["203.0.113.9"]) as one,
    ):
        for url in ("http://one.test/", "http://two.test/", "http://one.test/", "http://one.test:81/"):
            assert isinstance(await one.deliver(claim(url)), Delivered)
    assert [asked.line.split()[1] for asked in proxy.asked] == ["one.test:80", "two.test:80", "one.test:81"]
    assert (len(first.received), len(second.received)) == (3, 1)


async def test_an_exempt_target_is_reached_directly(monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"hook.test": ["127.0.0.1"]})
    async with Sink() as sink, ConnectProxy() as proxy:
        environment = {"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}", "NO_PROXY": "hook.test"}
        url = f"http://hook.test:{sink.port}/"
        outcome = await deliver(url, read_proxies("env", environment), allow=["127.0.0.0/8"])
    assert isinstance(outcome, Delivered)
    assert proxy.asked == []


async def test_a_receivers_certificate_is_checked_through_the_tunnel(proof: Proof, monkeypatch: pytest.MonkeyPatch):
    dns(monkeypatch, {"localhost": ["127.0.0.1"]})
    async with Sink(tls=proof.proxy) as sink, ConnectProxy({"hook.test": sink.port}) as proxy:
        outcome = await deliver("https://hook.test/", through(proxy), proof.trusted)
    assert isinstance(outcome, Retry)
    assert "TLS: the certificate is not valid: Hostname mismatch" in outcome.error
    assert sink.received == []


# The whole daemon


@pytest.mark.slow
async def test_a_daemon_delivers_through_its_proxy_and_shows_the_password_nowhere(proof: Proof, tmp_path: Path):
    async with Sink(tls=proof.receiver) as sink, ConnectProxy({"hook.test": sink.port}, login=LOGIN) as proxy:
        place = f"127.0.0.1:{proxy.port}"
        config = f'egress: {{proxy: "http://user:${{PROXY_PASSWORD}}@{place}"}}\n'
        env = {"PROXY_PASSWORD": PASSWORD, "SSL_CERT_FILE": str(proof.roots)}
        with await asyncio.to_thread(Daemon(tmp_path / "home", config=config, env=env).start) as daemon:
            said = await asyncio.to_thread(drive, daemon, proxy, sink)
    assert f"the proxy {place} demands a user and a password" in said
    secrets = (PASSWORD, b64encode(LOGIN.encode()).decode())
    assert [secret for secret in secrets for text in (said, *files(tmp_path)) if secret in text] == []


def files(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]


def drive(daemon: Daemon, proxy: ConnectProxy, sink: Sink) -> str:
    """One delivery that arrives and one that the proxy refuses; everything that was shown about them."""
    contract = {"id": "c", "target": {"url": "https://hook.test/"}, "type_criterion": {"pattern": "order.*"}}
    assert daemon.request("POST", "/hooks/contracts", contract)[0] == 201
    daemon.request("POST", "/api/events", {"type": "order.one"})
    daemon.wait_for("/api/deliveries?state=delivered", lambda answer: len(answer["items"]) == 1)
    proxy.login = "another:user"
    daemon.restart()  # and with that, without the tunnel that was kept
    daemon.request("POST", "/api/events", {"type": "order.two"})
    pending = "/api/deliveries?state=pending"
    answer = daemon.wait_for(pending, lambda answer: [item for item in answer["items"] if item["last_error"]])
    number = answer["items"][0]["id"]
    shown = [answer, daemon.request("GET", f"/api/deliveries/{number}"), daemon.request("GET", "/api/status")]
    for words in (("status",), ("deliveries", "list", "--json"), ("doctor",), ("events", "list", "--json")):
        said = daemon.cli(*words)
        shown += [said.out, said.err]
    assert len(sink.received) == 1
    return json.dumps(shown) + daemon.log


# A proxy that others wrote


class ForAll(Proxies):
    """Loopback too, which is the only place where a test may listen."""

    def find(self, target: TargetHost) -> Proxy | None:
        return self.https


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_tinyproxy_is_understood(proof: Proof, scheme: str):
    binary = tinyproxy.program()
    if binary is None:
        pytest.skip("tinyproxy is not installed, and Debian's package cannot be fetched")

    async def run(port: int, password: str) -> tuple[list[Outcome], int]:
        proxies = ForAll(read_proxies(f"http://user:{password}@127.0.0.1:{port}", {}).https)
        async with (
            Sink(tls=proof.proxy if scheme == "https" else None) as sink,
            deliverer(proxies, proof.trusted, ["127.0.0.0/8"]) as one,
        ):
            url = f"{scheme}://localhost:{sink.port}/"
            return [await one.deliver(claim(url)) for _ in range(3)], len(sink.received)

    with tinyproxy.running(binary, "user", "right") as (port, log):
        outcomes, received = asyncio.run(run(port, "right"))
        assert ([type(outcome) for outcome in outcomes], received) == ([Delivered] * 3, 3)
        assert log.read_text().count("CONNECT") > 0
        refused, received = asyncio.run(run(port, "wrong"))
    assert received == 0
    for outcome in refused:
        assert isinstance(outcome, Retry)
        assert f"the proxy 127.0.0.1:{port}" in outcome.error
