"""Tokens, other sites, health, error shape, dead letters and pauses over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from rest_api import Api, accept, serve


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serve(tmp_path) as api:
        yield api


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


async def test_a_token_may_hold_several_scopes(api: Api) -> None:
    made = await api.runtime.operations.tokens.create("agent", "message, append")
    assert made.scope == "append,message"
    assert (await api.call("POST", "/api/events", {"type": "a"}, token=made.token))[0] == 201
    status, problem = await api.call("GET", "/api/events", token=made.token)
    assert (status, problem["detail"]) == (403, "this needs a token of scope read; yours is append,message")


async def test_receipts_name_the_token_of_an_operator(api: Api) -> None:
    made = await api.runtime.operations.tokens.create("operator", "operate")
    event = (await api.call("POST", "/api/events", {"type": "a", "to": "handler:nobody"}))[1]["id"]
    found: list[dict] = []
    while not found:
        found = (await api.call("GET", f"/api/deliveries?event={event}"))[1]["items"]
    await api.call("POST", f"/api/deliveries/{found[0]['id']}/cancel", {}, token=made.token)
    explained = (await api.call("GET", f"/api/events/{event}/explain"))[1]
    assert f"api:{made.id}" in str(explained)


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
    assert (await api.call("GET", "/api/dlq/count"))[1] == {"count": 0, "by_queue": {}, "groups": []}
    from holdfast.domain.errors import Reject

    async def refuse(event) -> None:
        raise Reject("no such product")

    api.runtime.deliverers.handlers.add("picky", refuse)
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
    api.runtime.deliverers.handlers.add("picky", accept)
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

    api.runtime.deliverers.handlers.add("picky", refuse)
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

    async with asyncio.timeout(60):
        while not true(got := await look()):
            await asyncio.sleep(0.01)
    return got
