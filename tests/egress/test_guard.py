"""The outbound guard: no spelling of a forbidden address passes, and what was vetted is what is dialed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples
from holdfast.domain.errors import BadConfig, TargetRefused
from holdfast.net.guard import DNS_S, Guard, read_target


def words(text):
    return text.split()


FORBIDDEN = words("""
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 169.254.0.1
    169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.9 192.0.0.10 192.0.0.192 192.0.2.1 192.88.99.1
    192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
    168.63.129.16 100.100.100.200
    :: ::1 ::7f00:1 ::8.8.8.8 ::2 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::ffff:168.63.129.16
    ::ffff:0:7f00:1 ::ffff:0:808:808 ::5efe:7f00:1 2001:4860:4860::5efe:8.8.8.8 2001:4860:4860::200:5efe:10.0.0.1
    64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1::808:808 100::1
    2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1ff::1 2001:db8::1 2002:7f00:1::1 2002:a9fe:a9fe::1
    2002:808:808::1
    3fff::1 3fff:fff::1 5f00::1 4000::1 fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fe80::1 fe80::1%eth0 febf::1
    fec0::1 ff02::1 ff0e::1 200::1 400::1
""")
PUBLIC = words("""
    8.8.8.8 1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
    172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255
    168.63.129.17
    2001:4860:4860::8888 2606:4700:4700::1111 2001:200::1 2a00:1450:4001::200e ::ffff:8.8.8.8 64:ff9b::8.8.8.8
""")
LOOPBACK_SPELLINGS = words("""
    127.0.0.1 127.1 127.0.1 0x7f.1 0x7f.0.0.0x1 0X7F000001 0177.0.0.1 0177.1 2130706433 017700000001 0x7f000001
    １２７.０.０.１ ①②⑦.⓪.⓪.① 127。0。0。1 %31%32%37.0.0.1 127.0.0.1. 127.1. [::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1]
    [::ffff:7f00:1] [64:ff9b::127.0.0.1] localhost LOCALHOST localhost. foo.localhost a.b.localhost. ip6-localhost
""")
OTHER_SPELLINGS = words("""
    0 0.0.0.0 0x0 10.1 0xa.1 012.1 192.168.257 [::ffff:10.0.0.1] 169.254.169.254 0xa9fea9fe 2852039166
    [fe80::1%25eth0] [fd00:ec2::254] 168.63.129.16 [::] [::7f00:1] [2002:7f00:1::1]
""")


@pytest.mark.parametrize("address", FORBIDDEN)
def test_every_special_address_is_forbidden_with_its_reason(address):
    reason = Guard().forbids(address)
    assert reason is not None
    assert " is " in reason
    with pytest.raises(TargetRefused):
        Guard().vet([address])


@pytest.mark.parametrize("address", PUBLIC)
def test_the_public_internet_is_allowed_up_to_the_edge_of_each_range(address):
    assert Guard().forbids(address) is None
    Guard().vet([address])


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address) | st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
@examples
def test_what_the_standard_library_calls_private_is_never_allowed(address):
    if not address.is_global and not (address.version == 6 and address.ipv4_mapped):
        assert Guard().forbids(str(address)) is not None


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
@examples
def test_a_mapped_or_nat64_address_is_checked_by_the_address_inside(address):
    bare = Guard().forbids(str(address)) is None
    assert (Guard().forbids(f"::ffff:{address}") is None) is bare
    assert (Guard().forbids(f"64:ff9b::{address}") is None) is bare


@pytest.mark.parametrize("text", ["", "example.com", "127.1", "1.2.3.4.5", "::g", "2130706433"])
def test_a_text_that_is_not_an_address_is_forbidden(text):
    assert "not an IP address" in Guard().forbids(text)
    with pytest.raises(TargetRefused):
        Guard(["0.0.0.0/0", "::/0"]).vet([text])


def test_one_forbidden_answer_among_public_ones_refuses_them_all():
    Guard().vet(["8.8.8.8", "1.1.1.1"])
    for mixed in (["8.8.8.8", "10.0.0.1"], ["10.0.0.1", "8.8.8.8"], ["2606:4700::1", "fd00::1"]):
        with pytest.raises(TargetRefused, match="a private address"):
            Guard().vet(mixed, host="example.com")


def test_no_answer_at_all_is_refused():
    with pytest.raises(TargetRefused, match="no address"):
        Guard().vet([])


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
def test_every_spelling_of_loopback_is_refused_and_names_the_line_that_allows_it(host, scheme):
    url = f"{scheme}://{host}:8080/hook"
    with pytest.raises(TargetRefused) as refused:
        Guard().check_url(url)
    line = '"::1/128"' if ":1]" in host and "::ffff" not in host else '"127.0.0.0/8"'
    assert f"add to holdfast.yml:  egress: {{allow: [{line}]}}" in refused.value.message
    Guard([line.strip('"')]).check_url(url)
    Guard(["127.0.0.0/8"]).check_url(url)
    Guard().check_url(url, trusted=True)


@pytest.mark.parametrize("host", OTHER_SPELLINGS)
def test_following_the_advice_of_a_refusal_allows_the_target(host):
    url = f"https://{host}/hook"
    with pytest.raises(TargetRefused) as refused:
        Guard().check_url(url)
    line = refused.value.message.partition('allow: ["')[2].partition('"')[0]
    assert line.endswith(("/32", "/128"))
    Guard([line]).check_url(url)


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
def test_the_guard_reads_an_address_as_the_resolver_of_the_machine_does(host):
    target = read_target(f"http://{host}/")
    if target.address is None:
        assert target.is_localhost
        return
    address = ipaddress.ip_address(target.address)
    inside = getattr(address, "ipv4_mapped", None) or address
    assert inside.is_loopback or target.address.startswith("64:ff9b::")


@given(st.lists(st.sampled_from(["{}", "0{:o}", "0x{:x}"]), min_size=1, max_size=4), st.data())
@examples
def test_numbers_are_read_like_inet_aton(forms, data):
    widths = [255] * (len(forms) - 1) + [256 ** (5 - len(forms)) - 1]
    host = ".".join(form.format(data.draw(st.integers(0, width))) for form, width in zip(forms, widths, strict=True))
    assert read_target(f"http://{host}/").address == socket.inet_ntoa(socket.inet_aton(host))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook",
        "https://example.com:8443/a?b=c",
        "https://EXAMPLE.com./",
        "https://xn--bcher-kva.example/",
        "https://8.8.8.8/",
        "https://[2001:4860:4860::8888]:8080/",
        "https://my_host.example/",
    ],
)
def test_an_ordinary_https_url_passes(url):
    Guard().check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "unix:///run/x.sock", "https://", "https:///x", "//example.com", "https://256.1.1.1/",
        "https://1.2.3.4.5/", "https://08.1.1.1/", "https://0x100000000/", "https://4294967296/", "https://a.0x/",
        "https://exa mple.com/", "https://ex%00ample.com/", "https://bücher.example/", "https://a..b/", "https://-a.b/",
        "https://[::g]/", "https://example.com:99999/", "https://example.com:x/", "https://" + "a." * 200 + "com/",
        "https://%2e/", "https://a%2fb/", "https://a%40b/", "https://[v1.x]/", "https://[vF.example.com]:443/", "https://[]/",
        "https://[example.com]/", "https://[127.0.0.1]/", "https://[8.8.8.8]:443/", "https://[::1]example.com/",
        "https://example.com[::1]/", "https://[2001:4860:4860::8888/", "https://2001:4860:4860::8888]/",
    ],
)  # fmt: skip
def test_a_host_that_two_parsers_could_read_differently_is_refused(url):
    for guard in (Guard(), Guard(["0.0.0.0/0", "::/0"])):
        with pytest.raises(TargetRefused):
            guard.check_url(url)


def test_brackets_around_anything_but_an_ipv6_address_are_named_as_the_error():
    with pytest.raises(TargetRefused, match="brackets hold an IPv6 address") as refused:
        Guard().check_url("https://user:hidden@[v1.x]/")
    assert "[v1.x]" in refused.value.message
    assert "hidden" not in refused.value.message


def test_plain_http_needs_a_listed_address():
    with pytest.raises(TargetRefused, match=r'unencrypted.*allow: \["8\.8\.8\.8/32"\]'):
        Guard().check_url("http://8.8.8.8/")
    Guard(["8.8.8.0/24"]).check_url("http://8.8.8.8/")
    with pytest.raises(TargetRefused, match="https://"):
        Guard(["127.0.0.0/8"]).check_url("http://example.com/")
    Guard().check_url("http://example.com/", trusted=True)


@pytest.mark.parametrize("port", [22, 25, 53, 2375, 3306, 5432, 6379, 11211, 27017])
def test_a_port_of_another_service_needs_a_listed_address(port):
    for host in ("example.com", "8.8.8.8", "127.0.0.1"):
        with pytest.raises(TargetRefused):
            Guard().check_url(f"https://{host}:{port}/")
    with pytest.raises(TargetRefused, match=f"port {port} is not a web server's"):
        Guard().check_url(f"https://example.com:{port}/")
    Guard(["127.0.0.0/8"]).check_url(f"https://127.0.0.1:{port}/")
    Guard().check_url(f"https://example.com:{port}/", trusted=True)


def test_the_allow_list_permits_what_it_names_and_nothing_else():
    guard = Guard(["10.1.0.0/16", "192.168.7.7", "fd00:1::/32"])
    for address in ("10.1.2.3", "192.168.7.7", "fd00:1::5", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"):
        assert guard.forbids(address) is None
    for address in ("10.2.0.1", "192.168.7.8", "fd00:2::5", "127.0.0.1", "::1", "2002:a01:203::1"):
        assert guard.forbids(address) is not None


@pytest.mark.parametrize("address", ["169.254.169.254", "169.254.1.1", "fe80::1", "fd00:ec2::254", "168.63.129.16"])
def test_metadata_and_link_local_are_permitted_only_by_their_exact_address(address):
    wide = Guard(["0.0.0.0/0", "::/0", "169.254.0.0/16", "fe80::/10", "168.63.129.0/24"])
    assert wide.forbids(address) is not None
    assert wide.forbids(address, trusted=True) is not None
    assert Guard([address]).forbids(address) is None


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "192.168.1.1", "fd00::1", "::1", "100.64.0.1"])
def test_a_trusted_target_may_be_private(address):
    assert Guard().forbids(address, trusted=True) is None
    Guard().vet([address], port=6379, plain=True, trusted=True)


@pytest.mark.parametrize(
    "address",
    words("""169.254.169.254 ::ffff:169.254.169.254 64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 ::a9fe:a9fe
    ::ffff:0:a9fe:a9fe fe80::5efe:a9fe:a9fe 2001:4860::5efe:a9fe:a9fe 64:ff9b:1::a9fe:a9fe fe80::1%lo"""),
)
def test_trust_does_not_permit_metadata_services_however_embedded(address):
    assert Guard().forbids(address, trusted=True) is not None


@pytest.mark.parametrize(
    "entry", ["localhost", "10.0.0.1/8", "10.0.0.0/33", "", "*", "10.0.0.0-10.0.0.9", "::1/129", 7, None]
)
def test_an_entry_that_is_not_a_network_is_named(entry):
    with pytest.raises(BadConfig, match=r"egress\.allow") as refused:
        Guard([entry])
    assert str(entry) in refused.value.message


def test_a_single_text_is_not_taken_for_a_list_of_networks():
    with pytest.raises(BadConfig, match="list"):
        Guard("127.0.0.0/8")


def answering(monkeypatch, *rounds):
    """Let DNS give these answers, one list per question, and count the questions."""
    asked = []

    async def getaddrinfo(host, port, **_):
        asked.append(host)
        answer = rounds[min(len(asked), len(rounds)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return [(None, None, 6, "", (address, port)) for address in answer]

    monkeypatch.setattr("holdfast.net.guard.getaddrinfo", getaddrinfo)
    return asked


async def test_a_name_is_resolved_once_and_its_answers_vetted(monkeypatch):
    asked = answering(monkeypatch, ["8.8.8.8", "8.8.8.8", "2001:4860:4860::8888"], ["127.0.0.1"])
    assert await Guard().resolve("example.com", 443) == ["8.8.8.8", "2001:4860:4860::8888"]
    assert asked == ["example.com"]
    with pytest.raises(TargetRefused, match=r"example\.com may not be a target: 127\.0\.0\.1 is a loopback"):
        await Guard().resolve("example.com", 443)


async def test_all_answers_are_vetted_even_those_too_many_to_dial(monkeypatch):
    public = [f"8.8.{n // 250}.{n % 250}" for n in range(1000)]
    answering(monkeypatch, public, [*public, "10.0.0.1"])
    assert len(await Guard().resolve("many.example", 443)) == 16
    with pytest.raises(TargetRefused):
        await Guard().resolve("many.example", 443)


async def test_over_http_or_on_an_odd_port_every_answer_must_be_listed(monkeypatch):
    answering(monkeypatch, ["10.0.0.1", "10.0.0.2"])
    guard = Guard(["10.0.0.0/24"])
    assert await guard.resolve("backend", 80, plain=True) == ["10.0.0.1", "10.0.0.2"]
    assert await guard.resolve("backend", 6379) == ["10.0.0.1", "10.0.0.2"]
    answering(monkeypatch, ["10.0.0.1", "8.8.8.8"])
    assert await guard.resolve("backend", 443)
    for port, plain in ((80, True), (6379, False)):
        with pytest.raises(TargetRefused, match=r'allow: \["10\.0\.0\.0/24", "8\.8\.8\.8/32"\]'):
            await guard.resolve("backend", port, plain=plain)


async def test_a_dns_lookup_times_out(monkeypatch):
    monkeypatch.setattr("holdfast.net.guard.DNS_S", 0.01)

    async def silent(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr("holdfast.net.guard.getaddrinfo", silent)
    with pytest.raises(OSError, match="no answer"):
        await Guard().resolve("example.com", 443)
    assert DNS_S == 5.0


async def test_a_task_cancelled_as_dns_answers_stays_cancelled(monkeypatch):
    answer = asyncio.get_running_loop().create_future()

    async def getaddrinfo(host, port, **_):
        return [(None, None, 6, "", (await answer, port))]

    async def dial():
        await Guard().resolve("example.com", 443)
        await asyncio.Event().wait()

    monkeypatch.setattr("holdfast.net.guard.getaddrinfo", getaddrinfo)
    dialing = asyncio.create_task(dial())
    await asyncio.sleep(0.01)
    answer.set_result("8.8.8.8")
    await asyncio.sleep(0)
    dialing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(dialing, 60)


async def test_a_name_that_dns_cannot_represent_is_not_found():
    with pytest.raises(OSError, match="not one DNS can hold"):
        await Guard().resolve("a" * 64 + ".example", 443)


async def test_checking_a_target_checks_the_addresses_of_its_name(monkeypatch):
    answering(monkeypatch, ["10.0.0.1"])
    with pytest.raises(TargetRefused, match=r'"10\.0\.0\.1/32"'):
        await Guard().check_target("https://backend.example/")
    await Guard(["10.0.0.1"]).check_target("http://backend.example/")
    await Guard().check_target("http://backend.example/", trusted=True)
    with pytest.raises(TargetRefused, match="loopback"):
        await Guard().check_target("https://127.1/")


async def test_a_name_unknown_today_may_still_be_a_target(monkeypatch):
    answering(monkeypatch, socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    await Guard().check_target("https://soon.example/")
    with pytest.raises(TargetRefused):
        await Guard().check_target("http://soon.example/")
