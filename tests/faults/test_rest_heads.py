"""Bad paths, headers and request heads."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from daemon import Daemon
from rawhttp import exchange, head, post, read_answer
from rest_faults import accepted, check_problem


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(config="egress: {allow: [127.0.0.0/8]}\n") as running:
        yield running
        time.sleep(0.2)
        assert "Traceback" not in running.log, running.log


@pytest.fixture(autouse=True)
def nothing_lost(daemon: Daemon) -> Iterator[None]:
    """After each test, an earlier event is still stored, and a new one is accepted."""
    status, before = daemon.request("POST", "/api/events", {"type": "kept.before"})
    assert status == 201
    yield
    assert daemon.request("GET", f"/api/events/{before['id']}")[1]["type"] == "kept.before"
    assert daemon.request("POST", "/api/events", {"type": "kept.after"})[0] == 201


PATHS = [
    "//api/events", "/api//events", "/api/events/", "/./api/events", "/api/../api/events", "/hooks/../api/status",
    "/%2e%2e/api/status", "/healthz/..%2fapi/status", "/healthz/../api/status", "/api\\events", "/API/events",
    "/api/events%00", "/api/events%20", "/api\u2215events".encode().decode("latin-1"), "/docs", "/openapi.json/",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=ascii)
@pytest.mark.parametrize("who", ["administrator", "nobody"])
def test_a_path_that_is_almost_right_is_not_found(daemon: Daemon, path: str, who: str) -> None:
    token = daemon.token if who == "administrator" else None
    answer = exchange(daemon.url, head("GET", path, token, connection="close"))
    assert answer.status in ((400, 404) if token else (400, 401)), answer
    check_problem(answer, answer.status)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "HEAD", "PROPFIND"])
def test_an_unsupported_method_changes_nothing(daemon: Daemon, method: str) -> None:
    answer = exchange(daemon.url, head(method, "/api/events", daemon.token, connection="close", content_length="0"))
    assert answer.status == 405
    assert answer.headers["content-type"] == "application/problem+json"


FORGED: dict[str, tuple[dict[str, Any], int]] = {
    "another host": ({"host": "evil.example"}, 421),
    "another host with our port": ({"host": "evil.example:4653"}, 421),
    "a host that begins like ours": ({"host": "127.0.0.1.evil.example"}, 421),
    "a host with a user": ({"host": "127.0.0.1@evil.example"}, 421),
    "a host with a path": ({"host": "127.0.0.1/evil"}, 421),
    "the unspecified address": ({"host": "0.0.0.0"}, 421),
    "no host": ({"host": None}, 421),
    "another origin": ({"origin": "https://evil.example"}, 403),
    "no origin in particular": ({"origin": "null"}, 403),
    "a file's origin": ({"origin": "file://"}, 403),
    "an origin with a user": ({"origin": "http://127.0.0.1@evil.example"}, 403),
    "another site's page": ({"sec_fetch_site": "cross-site"}, 403),
    "a sibling site's page": ({"sec_fetch_site": "same-site"}, 403),
    "a form": ({"content_type": "application/x-www-form-urlencoded"}, 415),
    "plain text": ({"content_type": "text/plain"}, 415),
    "no kind": ({"content_type": None}, 415),
    "almost JSON": ({"content_type": "application/json-patch+json"}, 415),
    "two kinds": ({"content_type": "text/plain, application/json"}, 415),
    "compressed": ({"content_encoding": "gzip"}, 415),
    "compressed twice": ({"content_encoding": "gzip, gzip"}, 415),
    "no token": ({"authorization": None}, 401),
    "an empty token": ({"authorization": "Bearer "}, 401),
    "another way to say who": ({"authorization": "Basic YTpi"}, 401),
    "a token beyond all": ({"authorization": "Bearer " + "a" * 50_000}, 401),
    "a token of other letters": ({"authorization": "Bearer t\u00f6ken"}, 401),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_header_is_refused(daemon: Daemon, what: str) -> None:
    headers, status = FORGED[what]
    body = b'{"type":"forged.x"}'
    check_problem(exchange(daemon.url, post("/api/events", daemon.token, body, **headers)), status)
    assert accepted(daemon, "forged.x") == 0


@pytest.mark.parametrize("name", ["Host", "Authorization", "Content-Type", "Origin", "Idempotency-Key"])
def test_a_repeated_security_header_is_refused(daemon: Daemon, name: str) -> None:
    values = {
        "Host": "127.0.0.1",
        "Authorization": "Bearer x",
        "Content-Type": "text/plain",
        "Origin": "http://localhost",
    }
    twice = f"{name}: {values.get(name, 'a')}\r\n".encode() * 2
    sent = post("/api/events", daemon.token, b'{"type":"twice.x"}').replace(b"\r\n\r\n", b"\r\n" + twice + b"\r\n", 1)
    check_problem(exchange(daemon.url, sent), 400, "more than once")
    assert accepted(daemon, "twice.x") == 0


def test_a_compressed_body_is_not_decompressed(daemon: Daemon) -> None:
    bomb = gzip.compress(b'{"type":"bomb.x","payload":"' + b"x" * 50_000_000 + b'"}')
    check_problem(exchange(daemon.url, post("/api/events", daemon.token, bomb, content_encoding="gzip")), 415)
    check_problem(exchange(daemon.url, post("/api/events", daemon.token, bomb)), 400)


POSTED, GOT = (line + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" for line in (b"POST /api/events", b"GET /healthz"))

HEADS: dict[str, tuple[bytes, int]] = {
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400),
    "no version": (b"GET /healthz\r\n\r\n", 400),
    "a version to come": (b"GET /healthz HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", 400),
    "a space before the colon": (b"GET /healthz HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n", 400),
    "a folded header": (GOT + b"X-A: 1\r\n 2\r\n\r\n", 400),
    "NUL in a header": (GOT + b"X-A: a\x00b\r\n\r\n", 400),
    "a bare return in a header": (GOT + b"X-A: a\rb\r\n\r\n", 400),
    "a path outside ASCII": (b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
    "two lengths": (POSTED + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{", 400),
    "a length and chunks": (
        POSTED + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "a negative length": (POSTED + b"Content-Length: -1\r\n\r\n", 400),
    "a length beyond all": (POSTED + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n", 400),
    "a chunk beyond all": (
        POSTED + b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 20 + b"\r\n", 400,
    ),
    "a header of 200 kB": (GOT + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n", 431),
    "a header that never ends": (GOT + b"X-A: " + b"a" * 3_000_000, 431),
    "a path that never ends": (b"GET /" + b"a" * 3_000_000, 431),
    "10,000 headers": (
        GOT + b"" + b"".join(b"X-%d: 1\r\n" % i for i in range(10_000)) + b"\r\n", 431,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HEADS)
def test_a_bad_head_is_refused_with_the_standard_error_format(daemon: Daemon, what: str) -> None:
    raw, status = HEADS[what]
    answer = exchange(daemon.url, raw)
    if status == 400 and answer.status in (401, 413, 415, 421):  # it was valid HTTP after all, and was refused
        status = answer.status
    check_problem(answer, status)


def test_chunks_without_an_end_are_cut_at_the_limit(daemon: Daemon) -> None:
    start = head("POST", "/api/events", daemon.token, transfer_encoding="chunked")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    answer = exchange(daemon.url, [start, *[chunk] * 40])
    check_problem(answer, 413, "limit")


def test_a_body_shorter_than_its_length_is_not_accepted(daemon: Daemon) -> None:
    body = b'{"type":"short.x"}'
    host = urlsplit(daemon.url)
    with socket.create_connection((host.hostname, host.port), timeout=60) as line:
        line.sendall(head("POST", "/api/events", daemon.token, content_length=str(len(body) + 5)) + body)
    time.sleep(0.2)
    assert accepted(daemon, "short.x") == 0


def test_a_body_announced_above_the_limit_is_refused_before_it_is_sent(daemon: Daemon) -> None:
    start = head("POST", "/api/events", daemon.token, content_length=str(10**9), expect="100-continue")
    check_problem(exchange(daemon.url, start), 413, "limit")


def test_a_refused_body_is_not_parsed_as_the_next_request(daemon: Daemon) -> None:
    """A body that looks like a request, of a request that is refused before its body is read."""
    inner = post("/api/events", daemon.token, b'{"type":"smuggled.x"}')
    outer = head("POST", "/api/events", None, content_length=str(len(inner))) + inner
    check_problem(exchange(daemon.url, outer), 401)
    assert accepted(daemon, "smuggled.x") == 0


def test_a_response_before_the_body_closes_the_connection(daemon: Daemon) -> None:
    host = urlsplit(daemon.url)
    with socket.create_connection((host.hostname, host.port), timeout=60) as line:
        line.sendall(head("POST", "/api/events", None, transfer_encoding="chunked"))
        assert read_answer(line).status == 401
        assert line.recv(1) == b"", "an endless body would hold the connection for ever"


def test_a_socket_is_not_upgraded(daemon: Daemon) -> None:
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    asked = head("GET", "/api/events", None, upgrade="websocket", connection="Upgrade", sec_websocket_key=key,
                 sec_websocket_version="13")  # fmt: skip
    assert exchange(daemon.url, asked).status == 403


def test_an_unusual_event_stored_by_plain_sql_does_not_break_the_pages(daemon: Daemon) -> None:
    """Plain SQL checks less than the API: its events are still listed together with all others."""
    import sqlite3

    connection = sqlite3.connect(daemon.home / "holdfast.db")
    payloads = ['"\\ud800"', "1e400", "[" * 900 + "]" * 900, '"\\u0000"', '{"a":1,"a":2}', "1" * 5000]
    for number, payload in enumerate(payloads):
        connection.execute(
            "INSERT INTO holdfast_publish (type, payload, stream) VALUES ('door.x', ?, ?)",
            (payload, f"door\x1b{number}"),
        )
    connection.commit()
    connection.close()
    page = exchange(daemon.url, head("GET", "/api/events?type=door.x", daemon.token, connection="close"))
    assert page.status == 200, page
    assert len(page.json["items"]) == len(payloads)
    for item in page.json["items"]:
        assert daemon.request("GET", f"/api/events/{item['id']}")[0] == 200
