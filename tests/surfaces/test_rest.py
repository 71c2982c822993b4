"""The REST surface over real HTTP: shapes, errors, who may do what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from declared_answers import check_answer
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.gate import Tokens


class Api:
    """A client of one served runtime."""

    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, url: str) -> None:
        self.runtime, self.session, self.url = runtime, session, url

    async def call(self, method: str, path: str, body: Any = None, token: str = "admin-token", **headers: str):
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        async with self.session.request(method, self.url + path, data=data, headers=sent) as response:
            raw = await response.read()
            kind = response.headers.get("content-type", "")
            value = json.loads(raw) if "json" in kind else raw.decode()
            if response.status >= 400:
                assert kind == "application/problem+json", (response.status, raw)
                assert {"type", "title", "status", "detail"} <= set(value)
                assert value["status"] == response.status
            check_answer(method, path, response.status, kind, value)
            return response.status, value


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[Api]:
    store = open_store(f"sqlite:///{folder}/rest.db", keep=True)
    runtime = Runtime(store, load_config(None), None, handlers={"seen": _handler})
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = Tokens("admin-token", runtime.operations.tokens.scope_of)
    server = Server(build_app(runtime.operations, tokens, {"127.0.0.1", "localhost"}, 100_000), listener)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Api(runtime, session, f"http://127.0.0.1:{listener.getsockname()[1]}")
    await server.stop()
    await runtime.stop()


async def _handler(event) -> None: ...


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
    ("body", "status", "told"),
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
async def test_bad_events_are_refused_by_name(api: Api, body: bytes, status: int, told: str) -> None:
    got, problem = await api.call("POST", "/api/events", body)
    assert got == status, problem
    assert told in problem["detail"]
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
    ("change", "told"),
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
async def test_bad_contracts_are_refused_by_name(api: Api, change: dict[str, Any], told: str) -> None:
    status, problem = await api.call("POST", "/hooks/contracts", {"id": "c", "target": {"handler": "seen"}, **change})
    assert status == 422
    assert told in problem["detail"]


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


async def test_scopes_decide_who_may_do_what(api: Api) -> None:
    made = {scope: (await api.runtime.operations.tokens.create(scope, scope)).token for scope in ("read", "operate")}
    contract = {"id": "c", "target": {"handler": "seen"}}
    assert (await api.call("GET", "/api/events", token=made["read"]))[0] == 200
    assert (await api.call("POST", "/api/events", {"type": "a"}, token=made["read"]))[0] == 403
    assert (await api.call("POST", "/api/events", {"type": "a"}, token=made["operate"]))[0] == 201
    assert (await api.call("POST", "/hooks/contracts", contract, token=made["operate"]))[0] == 403
    assert (await api.call("POST", "/hooks/contracts", contract))[0] == 201
    assert (await api.call("GET", "/api/events", token="wrong"))[0] == 401
    assert (await api.call("GET", "/api/events", Authorization="Basic x"))[0] == 401


async def test_a_revoked_token_stops_working(api: Api) -> None:
    made = await api.runtime.operations.tokens.create("t", "read")
    await api.runtime.operations.tokens.revoke(made.id)
    assert (await api.call("GET", "/api/events", token=made.token))[0] == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
    ],
)
async def test_a_page_of_another_site_gets_nowhere(api: Api, headers: dict[str, str], status: int) -> None:
    assert (await api.call("POST", "/api/events", {"type": "a"}, **headers))[0] == status


async def test_health_needs_no_token(api: Api) -> None:
    assert await api.call("GET", "/healthz", token="") == (200, "ok\n")
    assert await api.call("GET", "/readyz", token="") == (200, "ready\n")
    status, schema = await api.call("GET", "/openapi.json", token="")
    assert status == 200
    assert {"/api/events", "/hooks/contracts", "/api/dlq/reprocess"} <= set(schema["paths"])


async def test_unknown_paths_and_methods_have_the_one_error_shape(api: Api) -> None:
    assert (await api.call("GET", "/nowhere"))[0] == 404
    assert (await api.call("PUT", "/api/events", {}))[0] == 405
    assert (await api.call("GET", "/api/deliveries/x"))[0] == 422
    assert (await api.call("GET", "/api/deliveries/99"))[0] == 404
    assert (await api.call("GET", "/api/events/evt_none"))[0] == 404
    assert (await api.call("GET", "/api/events?limit=0"))[0] == 422
    assert (await api.call("GET", "/api/events?after=x"))[0] == 422
    assert (await api.call("GET", "/api/deliveries?state=lost"))[0] == 422


async def test_dead_letters_are_counted_inspected_and_repaired(api: Api) -> None:
    await api.call("POST", "/hooks/contracts", {"id": "c", "target": {"url": "https://192.0.2.1/"}})
    assert (await api.call("GET", "/api/dlq/count"))[1] == {"count": 0, "by_queue": {}}
    from holdfast.domain.errors import Reject

    async def refuse(event) -> None:
        raise Reject("no such product")

    api.runtime.handlers.add("picky", refuse)
    await api.call("POST", "/hooks/contracts", {"id": "picky", "target": {"handler": "picky"}})
    for number in range(3):
        await api.call("POST", "/api/events", {"type": "x", "payload": {"n": number}})
    await _until(lambda: api.call("GET", "/api/dlq/count"), lambda got: got[1]["count"] == 3)
    letters = (await api.call("GET", "/api/dlq?limit=2"))[1]
    assert letters["items"][0]["last_error"] == "no such product"
    assert letters["items"][0]["payload"] == {"n": 2}
    assert letters["next"] is not None
    ids = [item["id"] for item in letters["items"]]
    dry = (await api.call("POST", "/api/dlq/reprocess", {"filter": {"contract": "picky"}, "dry_run": True}))[1]
    assert dry["reprocessed"] == 3
    assert (await api.call("POST", "/api/dlq/discard", {"ids": ids}))[1]["discarded"] == 2
    api.runtime.handlers.add("picky", _handler)
    again = (await api.call("POST", "/api/dlq/reprocess", {"filter": {"contract": "picky"}}))[1]
    assert again["reprocessed"] == 1
    path = f"/api/deliveries/{again['ids'][0]}"
    _, row = await _until(lambda: api.call("GET", path), lambda got: got[1]["state"] == "delivered")
    assert row["generation"] == 2
    assert (await api.call("GET", "/api/receipts/verify"))[1]["ok"] is True


async def test_a_contract_says_whether_it_has_a_secret_and_never_which(api: Api) -> None:
    for id, secret in (("signed", "canary"), ("plain", None)):
        body = {"id": id, "target": {"handler": "h", "secret": secret}}
        _, made = await api.call("POST", "/hooks/contracts", body)
        assert (made["target"]["secret"], made["target"]["has_secret"]) == (None, secret is not None)
        assert (await api.call("GET", f"/hooks/contracts/{id}"))[1]["target"] == made["target"]
    listed = (await api.call("GET", "/hooks/contracts"))[1]
    assert {one["id"]: one["target"]["has_secret"] for one in listed} == {"signed": True, "plain": False}
    await api.call("POST", "/hooks/contracts/plain/rotate", {"secret": "canary"})
    assert (await api.call("GET", "/hooks/contracts/plain"))[1]["target"]["has_secret"] is True


async def test_an_address_is_shown_masked_and_found_by_its_whole_text(api: Api) -> None:
    url = "https://192.0.2.1/services/T0/B0/canary?key=canary"
    await api.call("POST", "/api/events", {"type": "x", "to": url})
    path = f"/api/deliveries?address={quote(url, safe='')}"
    _, page = await _until(lambda: api.call("GET", path), lambda got: got[1]["items"])
    assert page["items"][0]["address"] == "https://192.0.2.1/services/T0/B0/…?…"
    masked = quote(page["items"][0]["address"], safe="")
    status, answer = await api.call("GET", f"/api/deliveries?address={masked}")
    assert (status, "masked" in answer["detail"]) == (422, True)
    paused = (await api.call("POST", "/api/pause", {"scope": "address", "name": url}))[1]
    assert (paused["name"], paused["changed"]) == ("https://192.0.2.1/services/T0/B0/…?…", True)
    assert "canary" not in str((await api.call("GET", "/api/status"))[1])


async def test_a_position_beyond_the_head_of_a_stream_is_refused(api: Api) -> None:
    await api.call("POST", "/api/events", {"type": "x", "stream": "s"})
    assert (await api.call("GET", "/api/streams/s/events?after=1"))[1]["items"] == []
    status, answer = await api.call("GET", "/api/streams/s/events?after=2")
    assert (status, "began again" in answer["detail"]) == (409, True)


async def test_an_empty_filter_changes_nothing_unless_all_is_said(api: Api) -> None:
    await _dead_letters(api, 3)
    for verb in ("reprocess", "discard"):
        status, answer = await api.call("POST", f"/api/dlq/{verb}", {"filter": {}})
        assert (status, "all: true" in answer["detail"]) == (422, True)
    assert (await api.call("GET", "/api/dlq/count"))[1]["count"] == 3
    for body in ({"all": True}, {"filter": {}, "all": True}):
        dry = (await api.call("POST", "/api/dlq/discard", {**body, "dry_run": True}))[1]
        assert (dry["discarded"], dry["remaining"]) == (3, 0)
    assert (await api.call("POST", "/api/dlq/discard", {"all": True}))[1]["discarded"] == 3
    assert (await api.call("GET", "/api/dlq/count"))[1]["count"] == 0


async def test_a_bulk_call_takes_the_oldest_and_says_how_many_remain(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await _dead_letters(api, 5)
    monkeypatch.setattr("holdfast.operations.dead_letters.PAGE_MAX", 2)
    dead = sorted(item["id"] for item in (await api.call("GET", "/api/dlq?limit=50"))[1]["items"])
    taken = []
    for remaining in (3, 1, 0):
        answer = (await api.call("POST", "/api/dlq/discard", {"filter": {"contract": "picky"}}))[1]
        assert answer["remaining"] == remaining
        taken += answer["ids"]
    assert taken == dead


async def _dead_letters(api: Api, count: int) -> None:
    from holdfast.domain.errors import Reject

    async def refuse(event) -> None:
        raise Reject("no such product")

    api.runtime.handlers.add("picky", refuse)
    await api.call("POST", "/hooks/contracts", {"id": "picky", "target": {"handler": "picky"}})
    for _ in range(count):
        await api.call("POST", "/api/events", {"type": "x"})
    await _until(lambda: api.call("GET", "/api/dlq/count"), lambda got: got[1]["count"] == count)


async def test_what_is_paused_waits_and_goes_on_when_resumed(api: Api) -> None:
    await api.call("POST", "/hooks/contracts", {"id": "c", "target": {"handler": "seen"}})
    assert (await api.call("POST", "/api/pause", {"scope": "contract", "name": "c"}))[1]["paused"] is True
    _, event = await api.call("POST", "/api/events", {"type": "x"})
    _, shown = await _until(lambda: api.call("GET", f"/api/events/{event['id']}"), lambda got: got[1]["deliveries"])
    assert shown["deliveries"][0]["waits_for"] == "paused"
    await api.call("POST", "/api/resume", {"scope": "contract", "name": "c"})
    await _until(
        lambda: api.call("GET", f"/api/events/{event['id']}"),
        lambda got: got[1]["deliveries"][0]["state"] == "delivered",
    )


async def _until(look, true):
    import asyncio

    async with asyncio.timeout(60):
        while not true(got := await look()):
            await asyncio.sleep(0.01)
    return got
