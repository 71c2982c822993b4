"""No answer is heavier than its bound and one item, however many are asked for; and page by page everything comes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from daemon import shop
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.errors import Reject
from holdfast.domain.event import new_event
from holdfast.domain.session import SessionChange, SessionState
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.store.roles.page import PAGE_BYTES_MAX
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens

HEAVY = "x" * 900_000
COUNT = 21
ROOM = 1024 * 1024


class Api:
    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, url: str) -> None:
        self.runtime, self._session, self._url = runtime, session, url

    async def get(self, path: str) -> tuple[Any, int, str | None]:
        """The answer, its bytes, and where its header says that it goes on."""
        async with self._session.get(self._url + path, headers={"Authorization": "Bearer admin"}) as response:
            raw = await response.read()
            assert response.status == 200, raw[:500]
            link = re.fullmatch(r'<(.+)>; rel="next"', response.headers.get("Link", ""))
            return json.loads(raw), len(raw), link and link[1]

    async def pages(self, path: str) -> list[list[Any]]:
        """The items, page by page."""
        found, after = [], None
        while True:
            page, size, _ = await self.get(path if after is None else f"{path}&after={after}")
            assert size < PAGE_BYTES_MAX + ROOM
            found.append(page["items"])
            after = page["next"]
            if after is None:
                return found


async def refuse(event: object) -> None:
    raise Reject("no")


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[Api]:
    store = open_store(f"sqlite:///{folder}/pages.db", keep=True)
    runtime = Runtime(store, load_config(None), None, handlers={"refuse": refuse})
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("admin", runtime.operations.tokens.scope_of)
    server = Server(build_app(runtime.operations, tokens, {"127.0.0.1"}, 2_000_000), listener)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Api(runtime, session, f"http://127.0.0.1:{listener.getsockname()[1]}")
    await server.stop()
    await runtime.stop()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serve(tmp_path) as api:
        yield api


async def fill(api: Api) -> None:
    for number in range(COUNT):
        await api.runtime.store.events.append([new_event("heavy", {"n": number, "text": HEAVY}, stream="s")])


async def test_events_and_a_stream(api: Api) -> None:
    await fill(api)
    newest = await api.pages("/api/events?limit=1000")
    assert [event["payload"]["n"] for page in newest for event in page] == list(range(COUNT))[::-1]
    assert len(newest) == 3
    in_order = await api.pages("/api/streams/s/events?limit=1000")
    assert [event["payload"]["n"] for page in in_order for event in page] == list(range(COUNT))
    assert len(in_order) == 3


async def test_a_stream_ends_with_its_head_and_not_with_an_empty_page(api: Api) -> None:
    for number in range(4):
        await api.runtime.store.events.append([new_event("t", number, stream="s")])
    pages = await api.pages("/api/streams/s/events?limit=2")
    assert [[event["payload"] for event in page] for page in pages] == [[0, 1], [2, 3]]


async def test_a_contract_is_tried_on_as_many_events_as_asked_for(api: Api) -> None:
    await fill(api)
    wish = {"id": "c", "target": {"handler": "refuse"}, "type_criterion": "heavy"}
    tried = encode(await api.runtime.operations.contracts.test(wish, 15))
    assert (tried["tested"], tried["matched"]) == (15, 15)


async def test_dead_letters(api: Api) -> None:
    await api.runtime.store.contracts.put(Contract("c", parse_address("handler:refuse")), None)
    await fill(api)
    while (await api.get("/api/dlq/count"))[0]["count"] < COUNT:
        await asyncio.sleep(0.02)
    pages = await api.pages("/api/dlq?limit=10")
    letters = [letter for page in pages for letter in page]
    assert len(pages) == 3
    assert all(letter["payload_cut"] and len(letter["payload"]) == 16_000 for letter in letters)
    assert sorted(int(letter["payload"][6:8].strip(", ")) for letter in letters) == list(range(COUNT))
    assert [letter["id"] for letter in letters] == sorted((letter["id"] for letter in letters), reverse=True)


async def test_sessions(api: Api) -> None:
    answer = "é" * 8000
    for number in range(700):
        change = SessionChange(f"s{number:03}", "claude", f"n{number}", SessionState.IDLE, last_answer=answer)
        await api.runtime.store.sessions.change(change)
    pages = await api.pages("/api/sessions?limit=1000")
    assert len(pages) == 2
    assert sorted(item["id"] for page in pages for item in page) == [f"s{number:03}" for number in range(700)]


async def put_contracts(api: Api, count: int, **wish: Any) -> None:
    for number in range(count):
        body = {"id": f"c{number:04}", "target": {"handler": "refuse"}, "type_criterion": "t", **wish}
        parsed = api.runtime.operations.contracts.parse(body)
        await api.runtime.store.contracts.put(parsed.contract, None)


async def linked(api: Api, path: str | None) -> list[Any]:
    """Every answer of a list that says in its header where it goes on."""
    found = []
    while path is not None:
        answer, size, path = await api.get(path)
        assert size < PAGE_BYTES_MAX + ROOM
        found.append(answer)
    return found


async def test_contracts_are_a_plain_list_and_the_header_says_where_there_are_more(api: Api) -> None:
    await put_contracts(api, 5)
    whole, _, more = await api.get("/hooks/contracts")
    assert ([one["id"] for one in whole], more) == ([f"c{number:04}" for number in range(5)], None)
    pages = await linked(api, "/hooks/contracts?limit=2&source=api&property=type")
    assert [[one["id"] for one in page] for page in pages] == [["c0000", "c0001"], ["c0002", "c0003"], ["c0004"]]


async def test_heavy_contracts(api: Api) -> None:
    values = [f"{number:04}" + "v" * 1000 for number in range(100)]
    await put_contracts(api, 100, properties={"p": {"match": values}})
    pages = await linked(api, "/hooks/contracts")
    assert [one["id"] for page in pages for one in page] == [f"c{number:04}" for number in range(100)]
    assert len(pages) == 2


async def test_properties_by_name(api: Api) -> None:
    for number in range(5):
        wish = {"id": f"c{number}", "target": {"handler": "refuse"}, "properties": {f"p {number}&": "v"}}
        await api.runtime.store.contracts.put(api.runtime.operations.contracts.parse(wish).contract, None)
    pages = await linked(api, "/hooks/properties?limit=2")
    assert pages == [{"p 0&": ["v"], "p 1&": ["v"]}, {"p 2&": ["v"], "p 3&": ["v"]}, {"p 4&": ["v"]}]


def test_the_command_says_that_there_are_more(tmp_path: Path) -> None:
    with shop(tmp_path) as daemon:
        first = daemon.cli("contracts", "list", "--limit", "1", "--json")
        (one,) = json.loads(first.out)
        assert first.err.strip().endswith(f"there are more; continue with: --after {one['id']}")
        rest = daemon.cli("contracts", "list", "--after", one["id"])
        assert one["id"] not in rest.out
        assert rest.err == ""
