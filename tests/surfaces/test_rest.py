"""The REST surface over real HTTP: shapes, errors, who may do what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rest_api import Api, serve


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serve(tmp_path) as api:
        yield api


async def test_an_event_is_appended_once_per_key(api: Api) -> None:
    body = {"type": "a.b", "payload": {"x": 1}, "stream": "s", "dedup_key": "k"}
    status, first = await api.call("POST", "/api/events", body)
    assert (status, first["stream"], first["seq"], first["duplicate"]) == (201, "s", 1, False)
    status, again = await api.call("POST", "/api/events", body)
    assert (status, again) == (200, {**first, "duplicate": True})
    status, problem = await api.call("POST", "/api/events", {**body, "payload": {"x": 2}})
    assert status == 409
    assert "another body" in problem["detail"]


async def test_an_idempotency_key_is_a_dedup_key(api: Api) -> None:
    first = await api.call("POST", "/api/events", {"type": "a"}, **{"Idempotency-Key": "i1"})
    again = await api.call("POST", "/api/events", {"type": "a"}, **{"Idempotency-Key": "i1"})
    assert (first[0], again[0]) == (201, 200)
    assert first[1]["id"] == again[1]["id"]


@pytest.mark.parametrize("key", ["a\tb", "x" * 256, "caf\xe9\xad"])
@pytest.mark.parametrize("body", [{"type": "a"}, {"type": "a", "dedup_key": "k"}])
async def test_an_invalid_idempotency_key_is_refused_whatever_the_body_says(
    api: Api, key: str, body: dict[str, str]
) -> None:
    status, problem = await api.call("POST", "/api/events", body, **{"Idempotency-Key": key})
    assert status == 422
    assert "the header Idempotency-Key" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "not JSON"),
        (b"\xff\xfe{}", 400, "UTF-8"),
        (b'{"type":"a","payload":NaN}', 400, "NaN"),
        (b'{"type":"a","payload":"\\u0000"}', 400, "NUL"),
        (b'{"type":"a","payload":"\\ud800"}', 400, "surrogate"),
        (b'{"type":"a","type":"b"}', 400, "twice"),
        (b"[" * 70_000, 400, "nested"),
        (b'{"type":"a","payload":' + b"[" * 100 + b"]" * 100 + b"}", 400, "nested"),
        (b'"' + b"x" * 200_000 + b'"', 413, "limit"),
        (b"[]", 422, "JSON object"),
        (b"{}", 422, "type is missing"),
        (b'{"type":"\\u001b[31m"}', 422, "not a valid event type"),
        (b'{"type":"a","stream":"\\u001b[2J"}', 422, "control characters"),
        (b'{"type":"a","stream":5}', 422, "stream"),
        (b'{"type":"a","timestamp":"yesterday"}', 422, "RFC 3339"),
        (b'{"type":"a","properties":{"x":{}}}', 422, "property 'x'"),
        (b'{"type":"a","to":"ftp://x"}', 422, "not an address"),
        (b'{"type":"a","sream":"x"}', 422, "did you mean stream"),
    ],
)
async def test_bad_events_are_refused_by_name(api: Api, body: bytes, status: int, message: str) -> None:
    got, problem = await api.call("POST", "/api/events", body)
    assert got == status, problem
    assert message in problem["detail"]
    assert (await api.call("GET", "/api/events"))[1]["items"] == []


async def test_names_with_markup_are_only_text(api: Api) -> None:
    stream = "'; DROP TABLE holdfast_events; -- <script>alert(1)</script>"
    status, _ = await api.call("POST", "/api/events", {"type": "a", "stream": stream})
    assert status == 201
    assert (await api.call("GET", "/api/streams"))[1]["items"][0]["id"] == stream


async def test_a_streams_name_may_hold_slashes(api: Api) -> None:
    await api.call("POST", "/api/events", {"type": "a", "stream": "repo/main"})
    assert (await api.call("GET", "/api/streams/repo/main"))[1]["head"] == 1
    assert len((await api.call("GET", "/api/streams/repo/main/events"))[1]["items"]) == 1


async def test_lists_are_paged_to_the_end(api: Api) -> None:
    for number in range(7):
        await api.call("POST", "/api/events", {"type": f"t.{number}", "stream": "s"})
    found, after = [], ""
    for _ in range(10):
        page = (await api.call("GET", f"/api/events?limit=3{after}"))[1]
        found += [item["type"] for item in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == [f"t.{number}" for number in range(6, -1, -1)]
    page = (await api.call("GET", "/api/streams/s/events?after=5"))[1]
    assert [item["seq"] for item in page["items"]] == [6, 7]


async def test_a_contract_has_the_seeds_shape_and_never_shows_its_secret(api: Api) -> None:
    body = {
        "id": "notify",
        "target": {"handler": "seen", "secret": "canary-secret"},
        "source_criterion": {"match": "system"},
        "type_criterion": {"pattern": "error.*"},
        "properties": {"severity": {"match": ["error", "fatal"]}, "code": {"required": True}},
        "ttl_seconds": 60,
    }
    status, made = await api.call("POST", "/hooks/contracts", body)
    assert status == 201
    shown = {"handler": "seen", "url": None, "session": None, "secret": None, "has_secret": True}
    assert made["target"] == shown
    assert made["properties"]["severity"] == {"match": ["error", "fatal"], "pattern": None, "required": True}
    assert (made["active"], made["source"]) == (True, "api")
    listed = (await api.call("GET", "/hooks/contracts"))[1]
    assert listed == [made]
    assert "canary" not in json.dumps(listed)
    assert (await api.call("GET", "/hooks/properties"))[1] == {"code": [], "severity": ["error", "fatal"]}
    assert [c["id"] for c in (await api.call("GET", "/hooks/contracts?property=severity&value=fatal"))[1]] == ["notify"]
    assert (await api.call("GET", "/hooks/contracts?property=severity&value=info"))[1] == []
    assert (await api.call("DELETE", "/hooks/contracts/notify"))[1] == {"deactivated": "notify"}
    assert (await api.call("DELETE", "/hooks/contracts/notify"))[0] == 404
    assert (await api.call("GET", "/hooks/contracts"))[1] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": {}}, "Exactly one"),
        ({"target": {"url": "https://example.com", "handler": "h"}}, "Exactly one"),
        ({"target": {"url": "ftp://example.com"}}, "not an address"),
        ({"target": {"url": "http://127.0.0.1/x"}}, 'allow: ["127.0.0.0/8"]'),
        ({"target": {"url": "https://169.254.169.254/"}}, "egress"),
        ({"target": {"url": "https://u:p@example.com/"}}, "user name or password"),
        ({"id": "has space"}, "contract id"),
        ({"ttl_seconds": -1}, "ttl_seconds must be positive"),
        ({"ttl_seconds": 1e12}, "at most 315,360,000"),
        ({"attempts": 0}, "attempts"),
        ({"policy": "sometimes"}, "policy"),
        ({"type_criterion": {"matches": "x"}}, "unknown key"),
        ({"type_criterion": {"match": []}}, "never match"),
        ({"ordered": "yes"}, "true or false"),
        ({"extra": 1}, "unknown key"),
    ],
)
async def test_bad_contracts_are_refused_by_name(api: Api, change: dict[str, Any], message: str) -> None:
    status, problem = await api.call("POST", "/hooks/contracts", {"id": "c", "target": {"handler": "seen"}, **change})
    assert status == 422
    assert message in problem["detail"]


async def test_a_contract_may_be_tried_without_a_name_and_only_at_a_target_that_may_be_one(api: Api) -> None:
    await api.call("POST", "/api/events", {"type": "a.b"})
    status, tried = await api.call("POST", "/hooks/contracts/test", {"type_criterion": {"pattern": "a.*"}})
    assert (status, tried["matched"]) == (200, 1)
    for url in ("https://169.254.169.254/", "https://0x7f.1/", "http://8.8.8.8/"):
        body = {"id": "c", "target": {"url": url}}
        answers = [await api.call("POST", path, body) for path in ("/hooks/contracts", "/hooks/contracts/test")]
        assert [status for status, _ in answers] == [422, 422]
        assert answers[0][1]["detail"] == answers[1][1]["detail"]
    assert (await api.call("POST", "/hooks/contracts/test", {"target": {"session": "s"}}))[0] == 422


async def test_what_has_expired_is_not_active_even_before_it_is_swept(api: Api) -> None:
    body = {"id": "brief", "target": {"handler": "seen"}, "properties": {"kind": "x"}, "ttl_seconds": 0.2}
    assert (await api.call("POST", "/hooks/contracts", body))[1]["active"] is True
    await asyncio.sleep(0.25)
    assert (await api.call("GET", "/hooks/contracts"))[1] == []
    assert (await api.call("GET", "/hooks/properties"))[1] == {}
    listed = (await api.call("GET", "/hooks/contracts?inactive=true"))[1]
    assert [(one["id"], one["active"]) for one in listed] == [("brief", False)]
    assert (await api.call("GET", "/hooks/contracts/brief"))[1]["active"] is False
    status, problem = await api.call("POST", "/hooks/contracts/brief/enable", {})
    assert status == 409
    assert "expired at" in problem["detail"]
    assert (await api.call("POST", "/hooks/contracts/brief/disable", {}))[0] == 200
