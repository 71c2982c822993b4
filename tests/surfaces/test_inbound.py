"""Platforms' webhooks over real HTTP: every answer the page promises, and what is in the store afterwards."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.errors import BadConfig, StoreBusy, StoreFull
from holdfast.home import Home
from holdfast.ingress.webhook.content import restored
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.surfaces.rest.http_limits import LimitedConnection
from inbound_api import CONFIG, Place, hub, inbound_handler, serve
from postgres import fresh_schema, newest, start

Answer = tuple[int, Any, Mapping[str, str]]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with serve(tmp_path) as place:
        yield place


PUSH = {"ref": "refs/heads/main", "repository": {"full_name": "octo/hello"}, "sender": {"login": "mona"}}


async def test_a_signed_push_is_kept_and_becomes_an_event(place: Place) -> None:
    status, answer, _ = await place.github(PUSH, id="d-1")
    assert (status, answer) == (200, {"status": "accepted"})
    (event,) = await place.settled("github.push")
    assert (event["source"], event["stream"], event["payload"]) == ("github", "github:octo/hello", PUSH)
    assert event["properties"]["branch"] == "main"
    (raw,) = await place.events(source="inbound")
    assert (raw["type"], raw["stream"]) == ("inbound.github", "inbound:github")
    assert json.loads(raw["payload"]["body"]) == PUSH
    shown = encode(await place.runtime.operations.events.show(raw["id"]))
    assert [(one["address"], one["state"]) for one in shown["deliveries"]] == [("handler:inbound.github", "delivered")]
    assert "canary" not in json.dumps(shown)
    assert hub("new-canary", json.dumps(PUSH).encode()) not in json.dumps(shown)


async def test_each_of_two_secrets_opens(place: Place) -> None:
    for secret in ("old-canary", "new-canary"):
        assert (await place.github(PUSH, secret=secret))[0] == 200
    assert (await place.github(PUSH, secret="lost-canary"))[0] == 401


async def test_requests_become_events_in_the_order_they_were_accepted(place: Place) -> None:
    for number in range(10):
        assert (await place.send("/hooks/inbound/slow", b'{"number": %d}' % number))[0] == 200
    found = await place.settled("slow.made", 10)
    assert [(event["seq"], event["payload"]["number"]) for event in found[::-1]] == [(n + 1, n) for n in range(10)]


@pytest.mark.slow
async def test_the_same_holds_on_postgres(tmp_path: Path) -> None:
    async with serve(tmp_path, store=start(newest()).url(fresh_schema())) as place:
        for number in (0, 1, 1, 2):
            assert (await place.github({**PUSH, "number": number}, id=f"d-{number}"))[0] == 200
        assert (await place.github({**PUSH, "number": 9}, id="d-1"))[0] == 200
        found = await place.settled("github.push", 3)
        assert [(event["seq"], event["payload"]["number"]) for event in found[::-1]] == [(1, 0), (2, 1), (3, 2)]
        assert len(await place.events(type="inbound.github.conflict")) == 1
        twice = [{"from": "49", "id": "wamid.1", "type": "text"}] * 2
        body = json.dumps({"entry": [{"changes": [{"value": {"messages": twice}}]}]}).encode()
        assert (await place.send("/hooks/whatsapp", body, **{"X-Hub-Signature-256": hub("wa-canary", body)}))[0] == 200
        await place.settled("whatsapp.message.text", 1)
        assert encode(await place.runtime.operations.dead_letters.count())["count"] == 0


async def test_an_application_that_takes_no_requests_may_lack_a_normalizer(tmp_path: Path) -> None:
    (tmp_path / "holdfast.yml").write_text(CONFIG, encoding="utf-8")
    config = load_config(tmp_path / "holdfast.yml")
    store = open_store(f"sqlite:///{tmp_path}/app.db", keep=True)
    served = Runtime(store, config, None).deliverers.served()
    assert "handler:inbound.github" in served
    assert "handler:inbound.odd" not in served
    with pytest.raises(BadConfig, match="no normalizer 'broken'"):
        Runtime(store, config, Home(tmp_path))
    await store.close()


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({}, "the header x-hub-signature-256 is missing"),
        ({"X-Hub-Signature-256": "sha256=" + "0" * 64}, "does not match"),
        ({"X-Hub-Signature-256": "sha256=é"}, "does not contain a signature in hex"),
        ({"X-Hub-Signature-256": "md5=x"}, "does not begin with sha256="),
    ],
)
async def test_what_is_not_signed_is_401_and_leaves_nothing(place: Place, headers, says) -> None:
    status, answer, _ = await place.send("/hooks/github", b"{}", **headers)
    assert (status, answer["error"]) == (401, "Unverified")
    assert says in answer["detail"]
    assert await place.events() == []


async def test_refusals_do_not_fill_the_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(30):
        assert (await place.send("/hooks/github", b"{}"))[0] == 401
    logged = [record for record in caplog.records if "/hooks/github was refused" in record.getMessage()]
    assert 1 <= len(logged) < 30


async def test_signed_but_malformed_is_400(place: Place) -> None:
    for body in (b"{", b"\xff\xfe", b"<xml/>", b"[" * 100_000):
        status, answer, _ = await place.github(body)
        assert (status, answer["title"]) == (400, "Malformed"), body[:20]
    status, answer, _ = await place.github(PUSH, **{"Content-Encoding": "gzip"})
    assert (status, "compressed" in answer["detail"]) == (400, True)
    assert await place.events() == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"text": "cut \\ud83d"}', "cut \ufffd"),
        (b'{"text": "nul \\u0000"}', "nul \ufffd"),
        (b'\xef\xbb\xbf{"text": "after a byte order mark"}', "after a byte order mark"),
        ('{"text": "in UTF-16 ü"}'.encode("utf-16"), "in UTF-16 ü"),
        (b'{"text": "cut \xf0\x9f"}', "cut \ufffd"),
        (b'{"text": "once", "text": "twice", "odd": NaN}', "twice"),
    ],
)
async def test_what_can_be_read_at_all_becomes_an_event(place: Place, body, text) -> None:
    assert (await place.send("/hooks/inbound/open", body))[:2] == (200, {"status": "accepted"})
    (event,) = await place.settled("open.received")
    assert event["payload"]["text"] == event["properties"]["text"] == text
    (raw,) = await place.events(source="inbound")
    assert restored(raw["payload"])[1] == body
    assert encode(await place.runtime.operations.dead_letters.count())["count"] == 0


async def test_half_a_character_in_a_signed_message_does_not_kill_it(place: Place) -> None:
    message = {"from": "4915", "id": "wamid.1", "type": "text", "text": {"body": "cut \ud83d"}}
    body = json.dumps({"entry": [{"changes": [{"field": "messages", "value": {"messages": [message]}}]}]}).encode()
    assert b"\\ud83d" in body
    assert (await place.send("/hooks/whatsapp", body, **{"X-Hub-Signature-256": hub("wa-canary", body)}))[0] == 200
    (event,) = await place.settled("whatsapp.message.text")
    assert event["properties"]["text"] == "cut \ufffd"
    (raw,) = await place.events(source="inbound")
    assert restored(raw["payload"])[1] == body


def odd_bodies(count: int) -> Iterator[bytes]:
    """Bytes of every kind: noise, JSON cut or changed in one place, values that no store could carry."""
    chance = random.Random(4)
    whole = json.dumps({**PUSH, "text": "ü \ud83d \x00" + "text " * 80, "n": [float("nan"), 1e300]}).encode()
    yield from (b"", b"null", b"[]", b"3", b'"x"', whole.decode().encode("utf-16"), b"[" * 90 + b"]" * 90)
    for _ in range(count):
        at = chance.randrange(len(whole))
        yield chance.randbytes(chance.randrange(1, 60))
        yield whole[:at] + chance.randbytes(1) + whole[at + 1 :]
        yield whole[:at]


async def test_any_signed_bytes_are_stored_or_refused_by_the_rule_and_none_is_beyond_repair(place: Place) -> None:
    kept: list[bytes] = []
    for number, body in enumerate(odd_bodies(30)):
        status, answer, _ = await place.github(body, id=f"d-{number}")
        assert (status, answer.get("title")) in ((200, None), (400, "Malformed")), body
        kept += [body] if status == 200 else []
    assert len(kept) > 15
    async with asyncio.timeout(60):
        while encode(await place.runtime.operations.deliveries.find(state="pending"))["items"]:
            await asyncio.sleep(0.01)
    page = encode(await place.runtime.operations.events.find(type="inbound.github", limit=len(kept) + 1))
    assert sorted(restored(event["payload"])[1] for event in page["items"]) == sorted(kept)
    dead = encode(await place.runtime.operations.dead_letters.inspect())["items"]
    assert all("a GitHub payload must be a JSON object" in letter["last_error"] for letter in dead)
    place.runtime.deliverers.handlers.add("inbound.github", inbound_handler("github"))
    await place.runtime.operations.dead_letters.reprocess(ids=[letter["id"] for letter in dead], actor="test")
    await place.settled("github.received", len(dead))
    assert encode(await place.runtime.operations.dead_letters.count())["count"] == 0


async def test_a_signature_in_upper_case_hex_passes(place: Place) -> None:
    raw = json.dumps(PUSH).encode()
    signature = "sha256=" + hub("new-canary", raw).removeprefix("sha256=").upper()
    assert (await place.send("/hooks/github", raw, **{"X-Hub-Signature-256": signature}))[0] == 200


async def test_a_signed_request_without_a_body_is_an_event(place: Place) -> None:
    assert (await place.github(b"", event="ping", id="d-1"))[0] == 200
    (event,) = await place.settled("github.ping")
    assert event["payload"] == {}


async def test_too_large_is_413(place: Place) -> None:
    status, answer, _ = await place.send("/hooks/inbound/open", b"x" * 2001)
    assert (status, "2,000" in answer["detail"]) == (413, True)
    assert (await place.send("/hooks/inbound/open", json.dumps("x" * 1900).encode()))[0] == 200


async def test_too_large_is_said_while_it_streams(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port)
    writer.write(b"POST /hooks/inbound/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(3):  # the end never comes, and is not waited for
        writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 60)
    writer.close()
    assert b"413" in head
    assert await place.events() == []


async def test_a_body_that_does_not_come_is_408(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConnection, "body_s", 0.2)
    async with serve(tmp_path) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port)
        writer.write(b"POST /hooks/inbound/open HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 60)
        writer.close()
        assert b"408" in head
        assert await place.events() == []


async def test_a_sender_that_hangs_up_leaves_nothing(place: Place) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port)
    writer.write(b"POST /hooks/inbound/open HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
    await writer.drain()
    writer.close()
    assert (await place.send("/hooks/inbound/open", b"{}"))[0] == 200
    assert len(await place.events(source="inbound")) == 1


@pytest.mark.parametrize(
    "error", [StoreFull("no room"), StoreBusy("locked"), OSError("the network went"), RuntimeError()]
)
async def test_what_cannot_be_stored_is_503_and_may_come_again(place: Place, monkeypatch, error) -> None:
    async def fail(event: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place.runtime.operations.events, "append", fail)
        status, answer, headers = await place.github(PUSH, id="d-1")
    assert (status, headers["Retry-After"]) == (503, "5")
    assert "no room" not in answer["detail"]
    assert (await place.github(PUSH, id="d-1"))[0] == 200
    assert len(await place.settled("github.push")) == 1


async def test_the_same_delivery_twice_is_one_event(place: Place) -> None:
    for _ in range(3):
        assert (await place.github(PUSH, id="d-1"))[:2] == (200, {"status": "accepted"})
    await place.settled("github.push")
    assert len(await place.events(source="inbound")) == 1
    assert len(await place.events(type="github.push")) == 1


async def test_another_body_under_a_known_id_is_accepted_kept_apart_and_not_acted_upon(place: Place) -> None:
    assert (await place.github(PUSH, id="d-1"))[0] == 200
    for _ in range(2):
        assert (await place.github({**PUSH, "forced": True}, id="d-1"))[:2] == (200, {"status": "accepted"})
    (apart,) = await place.events(type="inbound.github.conflict")
    assert json.loads(apart["payload"]["body"])["forced"] is True
    assert apart["properties"]["delivery_id"] == "d-1"
    assert len(await place.settled("github.push")) == 1
    assert encode(await place.runtime.operations.events.show(apart["id"]))["deliveries"] == []
