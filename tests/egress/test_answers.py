"""The table: what a receiver may do to a delivery, and how that delivery then stands in the store.

Real sockets, the real deliverer and the real engine over a real store; time is the test's, so that the moment of the
next attempt can be read off exactly. The parts are looked at one by one in test_webhook.py and test_guard.py."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from holdfast.domain.event import new_event
from holdfast.domain.retry import RETRY_AFTER_MAX_S
from receivers import Talk, pouring, raw_server, reset, saying, stay_silent
from sink import Sink
from stored_deliveries import Wired, stands

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

CHUNK = b"400\r\n" + b"z" * 1024 + b"\r\n"

EMPTY = b"Content-Length: 0\r\n\r\n"

BOMB = b"\x00" * 20_000_000


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Wired]:
    harness = Wired(tmp_path)
    harness.wire()
    yield harness
    await harness.script.close()
    await harness.store.close()


# Statuses


def verdict(status: int) -> str:
    if 200 <= status <= 299:
        return "delivered"
    if 400 <= status <= 499 and status not in (408, 425, 429):
        return "dead(rejected)"
    return "pending"


async def test_every_status_leaves_its_delivery_as_the_table_says(harness: Wired) -> None:
    statuses = range(200, 600)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=json.loads(await request.read())["payload"]["status"])

    async with Sink(answer) as sink:
        await harness.start()
        await harness.contract("c", sink.url)
        await harness.publish(*[new_event("t.x", {"status": status}) for status in statuses])
        await harness.settled(len(statuses))
        found = {row.event_id: row for row in await harness.rows()}
        events = {json.loads(got.body)["id"]: json.loads(got.body)["payload"]["status"] for got in sink.received}
    assert sorted(events.values()) == list(statuses), "each was sent once, no redirect was followed"
    wrong = {status: stands(found[id]) for id, status in events.items() if stands(found[id]) != verdict(status)}
    assert wrong == {}
    assert all(str(status) in (found[id].last_error or "") for id, status in events.items() if not 200 <= status <= 299)


# What comes over the wire


class Row(NamedTuple):
    talk: Talk
    stands: str
    words: str = ""


BROKEN: dict[str, Row] = {
    # 1xx
    "100 and then an answer": Row(saying(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n"), "delivered"),
    "102, 103, 103 and then": Row(
        saying(b"HTTP/1.1 102 P\r\n\r\n", b"HTTP/1.1 103 E\r\n\r\n" * 2, b"HTTP/1.1 400 No\r\n\r\n"), "dead(rejected)"
    ),
    "100 of an old version": Row(saying(b"HTTP/1.0 100 C\r\n\r\nHTTP/1.1 200 OK\r\n" + EMPTY), "delivered"),
    "100 of an old version, refused": Row(
        saying(b"HTTP/1.0 100 C\r\n\r\n", b"HTTP/1.0 404 No\r\n" + EMPTY), "dead(rejected)", "404"
    ),
    "100 that would close": Row(
        saying(b"HTTP/1.1 100 C\r\nConnection: close\r\n\r\nHTTP/1.1 500 No\r\n" + EMPTY), "pending", "answered 500"
    ),
    "103 in pieces, after empty lines": Row(
        saying(b"\r\n\nHTT", b"P/1.1 103 E\nLink: a\n", b"\nHTTP/1.1 2", b"04 No\r\n\r\n"), "delivered"
    ),
    "a head of 100 without an end": Row(
        saying(b"HTTP/1.1 100 C\r\nX: ", then=pouring(b"y" * 4096)), "pending", "not HTTP"
    ),
    "100 and the end": Row(saying(b"HTTP/1.0 100 C\r\n\r\n"), "pending", "broke off"),
    "101, which nobody asked for": Row(saying(b"HTTP/1.1 101 Up\r\nUpgrade: x\r\n\r\n"), "pending"),
    "100 and no more": Row(saying(b"HTTP/1.1 100 Go on\r\n\r\n", then=stay_silent), "pending", "no answer within"),
    "100 for ever": Row(pouring(b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), "pending", "no answer within 0.2 s"),
    # statuses that are none
    "status 000": Row(saying(b"HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n"), "pending"),
    "status 600": Row(saying(b"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n"), "pending", "600"),
    "status 999": Row(saying(b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"), "pending", "999"),
    "status 20": Row(saying(b"HTTP/1.1 20 Short\r\nContent-Length: 0\r\n\r\n"), "pending"),
    "status 2000": Row(saying(b"HTTP/1.1 2000 Long\r\nContent-Length: 0\r\n\r\n"), "pending", "not HTTP"),
    "status -200": Row(saying(b"HTTP/1.1 -200 No\r\nContent-Length: 0\r\n\r\n"), "pending", "not HTTP"),
    # redirects
    "302 to a forbidden place": Row(
        saying(b"HTTP/1.1 302 F\r\nLocation: http://169.254.169.254/\r\n" + EMPTY), "pending", "redirect not followed"
    ),
    "302 to nowhere": Row(saying(b"HTTP/1.1 302 F\r\nContent-Length: 0\r\n\r\n"), "pending", "redirect not followed"),
    "300 with a thousand places": Row(
        saying(b"HTTP/1.1 300 M\r\n" + b"Location: /x\r\n" * 60 + EMPTY), "pending", "redirect not followed"
    ),
    "304": Row(
        saying(b"HTTP/1.1 304 Same\r\n\r\n"), "pending", "answered 304, which is neither a success nor a redirect"
    ),
    # without a length
    "200 without a length, left open": Row(saying(b"HTTP/1.1 200 OK\r\n\r\n", then=stay_silent), "delivered"),
    "200 without a length, half a body": Row(saying(b"HTTP/1.0 200 OK\r\n\r\nso", then=stay_silent), "delivered"),
    "200 without a length, reset": Row(saying(b"HTTP/1.1 200 OK\r\n\r\nso", then=reset), "delivered"),
    "200 in an encoding without an end": Row(
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\nxx", then=stay_silent), "delivered"
    ),
    "422 without a length, left open": Row(
        saying(b"HTTP/1.1 422 No\r\n\r\nwhy", then=stay_silent), "dead(rejected)", "422"
    ),
    "500 without a length, left open": Row(
        saying(b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\nwhy", then=stay_silent), "pending", "answered 500"
    ),
    "204 without a length, left open": Row(saying(b"HTTP/1.1 204 No\r\n\r\n", then=stay_silent), "delivered"),
    # breaking off
    "hangs up": Row(saying(), "pending", "closed the connection without an answer"),
    "resets": Row(saying(then=reset), "pending"),
    "resets in the head": Row(saying(b"HTTP/1.1 200 OK\r\nConte", then=reset), "pending"),
    "resets in the body": Row(saying(HEAD + b"half", then=reset), "pending"),
    "hangs up in the head": Row(saying(b"HTTP/1.1 200 OK\r\nConte"), "pending"),
    "hangs up in the body": Row(saying(HEAD + b"half"), "pending", "broke off"),
    "hangs up in a chunk": Row(saying(CHUNKED + b"ff\r\nhalf"), "pending", "broke off"),
    "hangs up before the last chunk": Row(saying(CHUNKED + b"4\r\nhalf\r\n"), "pending", "broke off"),
    "refuses, and then the body breaks off": Row(saying(HEAD.replace(b"200 OK", b"422 No") + b"x"), "dead(rejected)"),
    # not HTTP
    "another protocol": Row(saying(b"SSH-2.0-OpenSSH_9.6\r\n"), "pending", "not HTTP"),
    "HTTP/2 preface": Row(saying(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "pending", "not HTTP"),
    "HTTP/0.9": Row(saying(b"<html>hello</html>\r\n\r\n"), "pending", "not HTTP"),
    "bytes": Row(saying(bytes(range(256)) * 4), "pending", "not HTTP"),
    "a length that is negative": Row(saying(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "pending", "not HTTP"),
    "two lengths": Row(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + EMPTY + b"a"), "pending", "not HTTP"),
    "a length beyond counting": Row(
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n"), "pending", "not HTTP"
    ),
    "a header folded": Row(saying(b"HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\n" + EMPTY), "delivered"),
    "a header with NUL": Row(saying(b"HTTP/1.1 200 OK\r\nA: b\x00c\r\n" + EMPTY), "pending", "not HTTP"),
    "a bad chunk": Row(saying(CHUNKED + b"zz\r\n"), "pending"),
    "a chunk beyond counting": Row(saying(CHUNKED + b"f" * 40 + b"\r\n"), "pending"),
    # slow
    "silence": Row(saying(then=stay_silent), "pending", "no answer within 0.2 s"),
    "silence in the head": Row(saying(b"HTTP/1.1 200 OK\r\n", then=stay_silent), "pending", "no answer within"),
    "silence in the body": Row(saying(HEAD + b"half", then=stay_silent), "pending", "nothing more arrived"),
    "a head that drips": Row(saying(b"HTTP/1.1 200 OK\r\nX: ", then=pouring(b"x", 0.02)), "pending", "within 0.2 s"),
    "a body that drips": Row(
        saying(HEAD.replace(b"100", b"9999"), then=pouring(b"x", 0.02)), "pending", "no complete answer within 0.6 s"
    ),
    "a refusal whose body drips": Row(
        saying(HEAD.replace(b"200 OK", b"400 No"), then=pouring(b"x", 0.02)), "dead(rejected)", "400"
    ),
    # endless
    "an endless body": Row(saying(CHUNKED, then=pouring(CHUNK)), "delivered"),
    "an endless body until it hangs up": Row(saying(b"HTTP/1.1 200 OK\r\n\r\n", then=pouring(CHUNK)), "delivered"),
    "an endless body of a refusal": Row(
        saying(CHUNKED.replace(b"200 OK", b"400 No"), then=pouring(CHUNK)), "dead(rejected)"
    ),
    "an endless body of a failure": Row(
        saying(CHUNKED.replace(b"200 OK", b"500 No"), then=pouring(CHUNK)), "pending", "500"
    ),
    "one endless header": Row(saying(b"HTTP/1.1 200 OK\r\nX: ", then=pouring(b"y" * 4096)), "pending", "not HTTP"),
    "endless headers": Row(saying(b"HTTP/1.1 200 OK\r\n", then=pouring(b"X: y\r\n" * 100)), "pending", "not HTTP"),
    "endless chunk extensions": Row(saying(CHUNKED + b"4;", then=pouring(b"x" * 4096)), "pending"),
    "endless trailers": Row(saying(CHUNKED + b"1\r\nx\r\n0\r\n", then=pouring(b"X: y\r\n" * 100)), "pending"),
    # bombs
    "a gzip bomb": Row(
        saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(BOMB)), "delivered"
    ),
    "a deflate bomb": Row(
        saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(BOMB)), "delivered"
    ),
    "a bomb in a bomb": Row(
        saying(b"HTTP/1.1 500 No\r\nContent-Encoding: gzip, gzip\r\n\r\n", gzip.compress(BOMB)), "pending", "500"
    ),
    "encodings nobody knows": Row(
        saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: br, zstd, x\r\nContent-Length: 2\r\n\r\nab"), "delivered"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
async def test_a_receiver_that_misbehaves(harness: Wired, name: str) -> None:
    talk, wanted, words = BROKEN[name]
    if "within" in words:
        harness.wire(first_byte_s=0.2, total_s=0.6)
    elif "silence" in name or "drips" in name:  # the head must arrive in time, on a slow machine too
        harness.wire(first_byte_s=2.0, total_s=2.0 if "drips" in name else 60.0)
    async with raw_server(talk) as url:
        row, tried = await harness.attempt(url)
    assert (stands(row), row.attempts) == (wanted, 1), tried
    if wanted != "delivered":
        assert words in (row.last_error or "")
        assert "unexpected" not in (row.last_error or ""), "an error without a text of its own"
    assert len(json.dumps(tried.detail)) < 4096, "what is kept of an answer is little"


# Retry-After: how long the next attempt waits, at least; None: as the schedule says
RETRY_AFTER: dict[str, float | None] = {
    "0": None, "1": None, "7": 7.0, "  7  ": 7.0, "007": 7.0, "120": 120.0, "2.5": 2.5, "7.0": 7.0, "0.25": None,
    "3600": 3600.0, "3601": RETRY_AFTER_MAX_S, "86400": RETRY_AFTER_MAX_S, "9" * 60: RETRY_AFTER_MAX_S,
    "-7": None, "+7": None, "7s": None, "7 seconds": None, "1e3": None, "0x7": None, "7,5": None, "7.": None,
    ".5": None, "inf": None, "nan": None, "soon": None, "": None, "7, 9": None, "٧": None, "9" * 200: None,
    "{imf}": 120.0, "{rfc850}": 120.0, "{asctime}": 120.0, "{imf_zone}": 120.0, "{iso}": None, "{past}": None,
    "{far}": RETRY_AFTER_MAX_S, "Thu, 99 Jan 2026 99:99:99 GMT": None, "Thu, 01 Jan 99999 00:00:00 GMT": None,
}  # fmt: skip


def spelled(text: str, now_ms: int) -> str:
    """Two minutes from the harness's own now, in each of the three forms HTTP knows, and in some it does not."""
    at = datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(seconds=120)
    return text.format(
        imf=at.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        rfc850=at.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        asctime=at.strftime("%a %b %e %H:%M:%S %Y"),
        imf_zone=at.astimezone(timezone(timedelta(hours=-5))).strftime("%a, %d %b %Y %H:%M:%S -0500"),
        iso=at.isoformat(),
        past=(at - timedelta(days=9)).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        far=(at + timedelta(days=9)).strftime("%a, %d %b %Y %H:%M:%S GMT"),
    )


@pytest.mark.parametrize("status", [429, 503, 302])
async def test_retry_after_moves_the_next_attempt(harness: Wired, status: int) -> None:
    await harness.start()
    now_ms = harness.clock.now_ms()
    texts = list(RETRY_AFTER)

    async def answer(request: web.Request) -> web.Response:
        text = spelled(texts[json.loads(await request.read())["payload"]["n"]], now_ms)
        return web.Response(status=status, headers={"Retry-After": text})

    async with Sink(answer) as sink:
        await harness.contract("c", sink.url)
        await harness.publish(*[new_event("t.x", {"n": n}) for n in range(len(texts))])
        await harness.settled(len(texts))
        sent = {json.loads(got.body)["id"]: json.loads(got.body)["payload"]["n"] for got in sink.received}
    wrong = {}
    for row in await harness.rows():
        text = texts[sent[row.event_id]]
        least_ms = 1000 * (RETRY_AFTER[text] or 1.0)
        waits_ms = (row.due_at_ms or 0) - now_ms
        if row.state != "pending" or not least_ms <= waits_ms <= least_ms * 1.1 + 1:
            wrong[text] = waits_ms
    assert wrong == {}
    assert len(sent) == len(texts)
