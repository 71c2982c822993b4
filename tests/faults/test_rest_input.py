"""Bad requests to the REST API: each gets one clear error, and the daemon keeps running."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from daemon import Daemon
from rawhttp import exchange, head, post
from rest_faults import accepted, check_problem

DEEP = b"[" * 70 + b"]" * 70


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


EVENTS: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 400, "not JSON"),
    "one byte": (b"{", 400, "not JSON"),
    "a bare word": (b"true", 422, "JSON object"),
    "a depth bomb": (b'{"type":"bad.x","payload":' + b"[" * 100_000, 400, "nested"),
    "a closed depth bomb": (b'{"type":"bad.x","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "nested"),
    "a depth bomb of objects": (b'{"type":"bad.x","payload":' + b'{"a":' * 100_000, 400, "nested"),
    "just too deep": (b'{"type":"bad.x","payload":' + DEEP + b"}", 400, "nested"),
    "5,000 digits": (b'{"type":"bad.x","payload":' + b"9" * 5000 + b"}", 400, "digits"),
    "a number beyond all": (b'{"type":"bad.x","payload":1e400}', 400, "1e400"),
    "a number beyond all, below": (b'{"type":"bad.x","payload":-1e999999}', 400, "too large for a number"),
    "NaN": (b'{"type":"bad.x","payload":NaN}', 400, "NaN"),
    "Infinity": (b'{"type":"bad.x","payload":-Infinity}', 400, "Infinity"),
    "the same key twice": (b'{"type":"bad.x","payload":{"a":1,"a":2}}', 400, "twice"),
    "the same key twice, written otherwise": (b'{"type":"bad.x","payload":{"a":1,"\\u0061":2}}', 400, "twice"),
    "the same key twice among 100,000": (
        b'{"type":"bad.x","payload":{' + b",".join(b'"%d":0' % i for i in range(100_000)) + b',"z":1,"z":2}}',
        400, "'z' twice",
    ),
    "NUL escaped": (b'{"type":"bad.x","payload":"a\\u0000b"}', 400, "NUL"),
    "NUL escaped in a key": (b'{"type":"bad.x","payload":{"\\u0000":1}}', 400, "NUL"),
    "NUL raw": (b'{"type":"bad.x","payload":"a\x00b"}', 400, "NUL"),
    "a lone surrogate": (b'{"type":"bad.x","payload":"\\ud800"}', 400, "surrogate"),
    "a lone surrogate in a key": (b'{"type":"bad.x","payload":{"\\udfff":1}}', 400, "surrogate"),
    "surrogates in the wrong order": (b'{"type":"bad.x","payload":"\\udc00\\ud800"}', 400, "surrogate"),
    "invalid UTF-8": (b'{"type":"bad.x","payload":"\xff"}', 400, "UTF-8"),
    "a surrogate as UTF-8": (b'{"type":"bad.x","payload":"\xed\xa0\x80"}', 400, "UTF-8"),
    "overlong UTF-8": (b'{"type":"bad.x","payload":"\xc0\xaf"}', 400, "UTF-8"),
    "a byte order mark": (b'\xef\xbb\xbf{"type":"bad.x"}', 400, "byte order mark"),
    "UTF-16": ('{"type":"bad.x"}'.encode("utf-16"), 400, "UTF-8"),
    "UTF-16 without a mark": ('{"type":"bad.x"}'.encode("utf-16-le"), 400, "NUL"),
    "UTF-32": ('{"type":"bad.x"}'.encode("utf-32-le"), 400, "NUL"),
    "a raw control character": (b'{"type":"bad.x","payload":"\x1b[2J"}', 400, "not JSON"),
    "something behind the end": (b'{"type":"bad.x"}{"type":"bad.x"}', 400, "not JSON"),
    "single quotes": (b"{'type':'bad.x'}", 400, "not JSON"),
    "a trailing comma": (b'{"type":"bad.x",}', 400, "not JSON"),
    "a huge body": (b'{"type":"bad.x","payload":"' + b"x" * 1_100_000 + b'"}', 413, "limit"),
    "no type": (b'{"payload":1}', 422, "type is missing"),
    "a type of a wrong kind": (b'{"type":["bad.x"]}', 422, "not a valid event type"),
    "a type with a line break": (b'{"type":"bad.x\\r\\nX-Evil: 1"}', 422, "not a valid event type"),
    "a long type": (b'{"type":"' + b"x" * 256 + b'"}', 422, "1 to 255"),
    "a long stream": (b'{"type":"bad.x","stream":"' + b"x" * 10_000 + b'"}', 422, "limit is 255"),
    "a long key": (b'{"type":"bad.x","dedup_key":"' + b"x" * 10_000 + b'"}', 422, "limit is 255"),
    "a stream that moves the cursor": (b'{"type":"bad.x","stream":"\\u001b[2J"}', 422, "control characters"),
    "a stream with C1": (b'{"type":"bad.x","stream":"a\\u009bb"}', 422, "control characters"),
    "a stream that turns the line around": (b'{"type":"bad.x","stream":"a\\u202eb"}', 422, "control characters"),
    "an empty stream": (b'{"type":"bad.x","stream":""}', 422, "non-empty"),
    "a stream of a wrong kind": (b'{"type":"bad.x","stream":{"a":1}}', 422, "non-empty string"),
    "65 properties": (
        json.dumps({"type": "bad.x", "properties": {str(i): i for i in range(65)}}).encode(), 422, "limit is 64",
    ),
    "large properties": (b'{"type":"bad.x","properties":{"a":"' + b"x" * 20_000 + b'"}}', 413, "limit"),
    "properties of a wrong kind": (b'{"type":"bad.x","properties":[1]}', 422, "properties"),
    "a property of a wrong kind": (b'{"type":"bad.x","properties":{"a":[1]}}', 422, "'a'"),
    "a timestamp of a wrong kind": (b'{"type":"bad.x","timestamp":17}', 422, "RFC 3339"),
    "a timestamp that never was": (b'{"type":"bad.x","timestamp":"2026-02-30T00:00:00Z"}', 422, "RFC 3339"),
    "a timestamp in other digits": (
        '{"type":"bad.x","timestamp":"٢٠٢٦-01-01T00:00:00Z"}'.encode(), 422, "RFC 3339",
    ),
    "an address of a wrong kind": (b'{"type":"bad.x","to":["handler:x"]}', 422, "address"),
    "an address to a file": (b'{"type":"bad.x","to":"file:///etc/passwd"}', 422, "not an address"),
    "an address with a line break": (b'{"type":"bad.x","to":"https://x/\\r\\nHost: y"}', 422, "URL"),
    "an unknown field": (b'{"type":"bad.x","seq":1}', 422, "unknown key"),
    "an unknown field with an odd name": (b'{"type":"bad.x","\\u001b[31m":1}', 422, "unknown key"),
}  # fmt: skip


@pytest.mark.parametrize("what", EVENTS)
def test_a_bad_event_is_refused_and_not_stored(daemon: Daemon, what: str) -> None:
    body, status, message = EVENTS[what]
    check_problem(exchange(daemon.url, post("/api/events", daemon.token, body)), status, message)
    assert accepted(daemon, "bad.x") == 0


@pytest.mark.parametrize("number", ["9007199254740993", "1" * 4000, "-0", "1.10", "1e-400", "123456789.123456789e-5"])
def test_an_odd_number_that_json_allows_is_kept_as_python_reads_it(daemon: Daemon, number: str) -> None:
    raw = b'{"type":"odd.number","payload":' + number.encode() + b"}"
    answer = exchange(daemon.url, post("/api/events", daemon.token, raw))
    assert answer.status == 201, answer
    shown = exchange(daemon.url, head("GET", f"/api/events/{answer.json['id']}", daemon.token, connection="close"))
    assert shown.json["payload"] == json.loads(number)


CONTRACTS: dict[str, tuple[Any, str]] = {
    "no object": ([], "JSON object"),
    "no target": ({"id": "c"}, "no target"),
    "an id of a wrong kind": ({"id": 5, "target": {"handler": "h"}}, "contract id"),
    "an id with a slash": ({"id": "a/b", "target": {"handler": "h"}}, "contract id"),
    "an id of 10 kB": ({"id": "a" * 10_000, "target": {"handler": "h"}}, "contract id"),
    "a policy of a wrong kind": ({"id": "c", "target": {"handler": "h"}, "policy": []}, "policy"),
    "a policy that is an object": ({"id": "c", "target": {"handler": "h"}, "policy": {"a": 1}}, "policy"),
    "a huge time to live": ({"id": "c", "target": {"handler": "h"}, "ttl_seconds": 10**400}, "ttl_seconds"),
    "a negative time to live": ({"id": "c", "target": {"handler": "h"}, "ttl_seconds": -(10**400)}, "ttl_seconds"),
    "a huge timeout": ({"id": "c", "target": {"handler": "h"}, "timeout": 1e300}, "timeout"),
    "a huge number of attempts": ({"id": "c", "target": {"handler": "h"}, "attempts": 2**63}, "attempts"),
    "half an attempt": ({"id": "c", "target": {"handler": "h"}, "attempts": 1.5}, "attempts"),
    "a criterion of a wrong kind": ({"id": "c", "target": {"handler": "h"}, "type_criterion": [[]]}, "type_criterion"),
    "a long pattern": ({"id": "c", "target": {"handler": "h"}, "type_criterion": {"pattern": "*" * 201}}, "pattern"),
    "too many values": ({"id": "c", "target": {"handler": "h"}, "type_criterion": {"match": ["a"] * 101}}, "match"),
    "too many properties": (
        {"id": "c", "target": {"handler": "h"}, "properties": {str(i): "a" for i in range(200)}}, "properties",
    ),
    "a long value": ({"id": "c", "target": {"handler": "h"}, "type_criterion": {"match": "a" * 10_000}}, "match"),
    "a long secret": ({"id": "c", "target": {"handler": "h", "secret": "a" * 10_000}}, "secret"),
    "a secret of a wrong kind": ({"id": "c", "target": {"handler": "h", "secret": 5}}, "secret"),
    "a target of a wrong kind": ({"id": "c", "target": "https://example.com"}, "target"),
    "a handler of a wrong kind": ({"id": "c", "target": {"handler": {}}}, "target.handler"),
    "a URL with a name and password": ({"id": "c", "target": {"url": "https://a:b@example.com"}}, "password"),
    "a URL in other letters": ({"id": "c", "target": {"url": "https://ex\u0430mple.com"}}, "ASCII"),
    "a URL with a backslash": ({"id": "c", "target": {"url": "https://a\\@b/"}}, "backslashes"),
    "a URL of another kind": ({"id": "c", "target": {"url": "unix:///run/x.sock"}}, "address"),
    "a URL to the metadata service": ({"id": "c", "target": {"url": "https://169.254.169.254/"}}, "169.254"),
    "a URL to a number": ({"id": "c", "target": {"url": "https://2852039166/"}}, "not"),
    "an unknown field": ({"id": "c", "target": {"handler": "h"}, "created_at": 1}, "unknown key"),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRACTS)
def test_a_bad_contract_is_refused_and_not_stored(daemon: Daemon, what: str) -> None:
    body, message = CONTRACTS[what]
    for path in ("/hooks/contracts", "/hooks/contracts/test"):
        if path.endswith("test") and what == "no target":
            continue  # a dry run needs no name and no target
        check_problem(exchange(daemon.url, post(path, daemon.token, json.dumps(body).encode())), 422, message)
    assert daemon.request("GET", "/hooks/contracts")[1] == []


def test_a_malicious_pattern_does_not_hang(daemon: Daemon) -> None:
    for number, pattern in enumerate(("*a" * 50 + "b", "*" * 200, "[" * 100, "[!a-", "?" * 200)):
        body = {"id": f"p{number}", "target": {"handler": "h"}, "type_criterion": {"pattern": pattern}}
        status, answer = daemon.request("POST", "/hooks/contracts", body)
        assert status == 201, answer
    _, event = daemon.request("POST", "/api/events", {"type": "a" * 250})
    daemon.wait_for(f"/api/events/{event['id']}", lambda answer: answer["deliveries"] != [])
    for number in range(5):
        assert daemon.request("DELETE", f"/hooks/contracts/p{number}")[0] == 200


BODIES: dict[str, tuple[str, Any]] = {
    "ids that are texts": ("/api/dlq/reprocess", {"ids": ["x"]}),
    "ids beyond all": ("/api/dlq/reprocess", {"ids": [2**70]}),
    "ids below zero": ("/api/dlq/discard", {"ids": [-1]}),
    "ids that are true": ("/api/dlq/discard", {"ids": [True]}),
    "too many ids": ("/api/dlq/discard", {"ids": list(range(1001))}),
    "no ids": ("/api/dlq/discard", {"ids": []}),
    "neither": ("/api/dlq/discard", {}),
    "both": ("/api/dlq/discard", {"ids": [1], "filter": {}}),
    "an empty filter": ("/api/dlq/reprocess", {"filter": {}}),
    "a filter of nulls": ("/api/dlq/discard", {"filter": {"reason": None}}),
    "a filter that only says dead": ("/api/dlq/discard", {"filter": {"state": "dead"}}),
    "all and a filter": ("/api/dlq/discard", {"filter": {"reason": "rejected"}, "all": True}),
    "all and ids": ("/api/dlq/discard", {"ids": [1], "all": True}),
    "all of a wrong kind": ("/api/dlq/discard", {"all": "yes"}),
    "not all": ("/api/dlq/discard", {"all": False}),
    "a filter of a wrong kind": ("/api/dlq/discard", {"filter": []}),
    "a filter with a wrong value": ("/api/dlq/discard", {"filter": {"reason": {"a": 1}}}),
    "an unknown filter": ("/api/dlq/discard", {"filter": {"everything": True}}),
    "a dry run of a wrong kind": ("/api/dlq/discard", {"ids": [1], "dry_run": "no"}),
    "event ids of a wrong kind": ("/api/events/route", {"ids": [1]}),
    "too many event ids": ("/api/events/route", {"ids": ["evt_1"] * 1001}),
    "a pause of nothing": ("/api/pause", {}),
    "a pause of a wrong kind": ("/api/pause", {"scope": ["contract"], "name": "c"}),
    "a pause of an odd name": ("/api/pause", {"scope": "lane", "name": "a\u0007b"}),
    "a pause of a long name": ("/api/resume", {"scope": "lane", "name": "a" * 10_000}),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_bad_body_of_another_verb_is_refused(daemon: Daemon, what: str) -> None:
    path, body = BODIES[what]
    check_problem(exchange(daemon.url, post(path, daemon.token, json.dumps(body).encode())), 422)


QUERIES = [
    "/api/events?limit=0", "/api/events?limit=-1", "/api/events?limit=1001", "/api/events?limit=" + "9" * 400,
    "/api/events?limit=1e3", "/api/events?limit=%C2%B2", "/api/events?after=-1", "/api/events?after=" + "9" * 19,
    "/api/events?after=%C2%B2", "/api/events?after=%00", "/api/events?after=1%27--", "/api/events?unmatched=maybe",
    "/api/events?type=" + "x" * 3000, "/api/deliveries?after=9999999999999999999", "/api/deliveries?state=lost",
    "/api/deliveries?reason=none", "/api/deliveries/-1", "/api/deliveries/99999999999999999999",
    "/api/deliveries/1.5", "/api/streams?limit=x", "/api/receipts?after=a:%C2%B2", "/api/receipts?after=a:" + "9" * 40,
    "/api/sessions?after=", "/api/sessions?after=" + "9" * 19 + ".x",
    "/api/receipts?after=nonsense", "/api/receipts?limit=0", "/api/streams/x/events?after=-1",
    "/api/streams/x/events?after=9223372036854775808", "/hooks/contracts?value=x", "/api/dlq?after=x",
]  # fmt: skip


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path[:40])
def test_a_bad_parameter_is_refused(daemon: Daemon, path: str) -> None:
    check_problem(exchange(daemon.url, head("GET", path, daemon.token, connection="close")), 422)


ODD = [
    "\x1b[2J",
    "' OR 1=1 --",
    "<script>alert(1)</script>",
    "\ud7ff",
    "\uffff",
    "a" * 1500,
    "%s%n",
    "..",
    "évé",
]


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_text_in_a_path_or_a_filter_finds_nothing_and_breaks_nothing(daemon: Daemon, text: str) -> None:
    name = quote(text, safe="")
    for path in (f"/api/events/{name}", f"/api/streams/{name}", f"/hooks/contracts/{name}"):
        check_problem(exchange(daemon.url, head("GET", path, daemon.token, connection="close")), 404)
    check_problem(
        exchange(daemon.url, head("DELETE", f"/hooks/contracts/{name}", daemon.token, connection="close")), 404
    )
    for path in ("/api/events?type={}", "/api/events?stream={}", "/api/deliveries?address={}", "/api/dlq?contract={}"):
        answer = exchange(daemon.url, head("GET", path.format(name), daemon.token, connection="close"))
        assert (answer.status, answer.json["items"]) == (200, [])


def test_nul_in_a_path_or_a_filter_is_refused(daemon: Daemon) -> None:
    for path in ("/api/events/%00", "/api/streams/a%00b", "/hooks/contracts/%00", "/api/events?type=%00"):
        check_problem(exchange(daemon.url, head("GET", path, daemon.token, connection="close")), 422, "NUL")
