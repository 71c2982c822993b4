"""Bad files in the spool: nothing is lost, good records are not delayed, and every bad record is visible."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine_harness import EngineHarness
from holdfast.domain.errors import BadInput, HoldfastError
from holdfast.domain.event import new_event
from holdfast.ingress import importer as importer_module
from holdfast.ingress.importer import SpoolImport, spool_depth
from holdfast.ingress.spool import read_record, write_event
from holdfast.ingress.spool_decoder import EventDecoder
from holdfast.store.roles.events import EventFilter

examples = settings(
    max_examples=150, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


def make_id(number: int) -> str:
    return f"evt_{number:032x}"


def beside(path: Path, number: int) -> Path:
    """The name of a record that sorts after this one."""
    return path.with_name(path.name[:-12] + f"{number:08x}.evt")


def record(header: object, body: bytes = b"null") -> bytes:
    return json.dumps(header).encode() + b"\n" + body


HEADER = {"v": 1, "kind": "event", "id": "evt_1", "type": "x"}
RECORDS: dict[str, bytes] = {
    "nothing": b"",
    "a line without an end": b'{"v":1',
    "a list": record([1]),
    "a depth bomb": b"[" * 200_000,
    "a header that is a depth bomb": b'{"v":1,"kind":"event","id":"evt_1","type":' + b"[" * 200_000 + b"\n",
    "5,000 digits": b'{"v":' + b"1" * 5000 + b',"kind":"event"}\nnull',
    "another version": record({**HEADER, "v": 2}),
    "another kind": record({**HEADER, "kind": "\x1b[2J"}),
    "a kind of a wrong kind": record({**HEADER, "kind": ["event"]}),
    "no id": record({"v": 1, "kind": "event", "type": "x"}),
    "an id with a break": record({**HEADER, "id": "evt_a\nb"}),
    "an id of a wrong kind": record({**HEADER, "id": 5}),
    "a long id": record({**HEADER, "id": "evt_" + "a" * 100}),
    "no type": record({"v": 1, "kind": "event", "id": "evt_1"}),
    "a type of a wrong kind": record({**HEADER, "type": {"a": 1}}),
    "a stream of a wrong kind": record({**HEADER, "stream": [1]}),
    "a lone surrogate": record({**HEADER, "stream": "\ud800"}),
    "a lone surrogate in a property": record({**HEADER, "properties": {"a": "\ud800"}}),
    "properties of a wrong kind": record({**HEADER, "properties": [1]}),
    "an address of a wrong kind": record({**HEADER, "to": {"a": 1}}),
    "a time of a wrong kind": record({**HEADER, "timestamp": 5}),
    "NaN": record(HEADER, b"NaN"),
    "a number beyond all": record(HEADER, b"1e999"),
    "a doubled key": record(HEADER, b'{"a":1,"a":2}'),
    "NUL": record(HEADER, b'"a\\u0000"'),
    "invalid UTF-8": record(HEADER, b"\xff"),
    "a byte order mark": record(HEADER, b"\xef\xbb\xbfnull"),
    "a payload that is a depth bomb": record(HEADER, b"[" * 100_000),
    "more than a payload": record(HEADER, b"null null"),
    "larger than any record": record(HEADER, b'"' + b"x" * (2 * 1024 * 1024) + b'"'),
    "larger than any payload": record(HEADER, b'"' + b"x" * (1024 * 1024 + 10) + b'"'),
}


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    return await EngineHarness(tmp_path).start()


async def types(harness: EngineHarness) -> list[str]:
    found, after = list[str](), None
    while True:
        page = await harness.store.events.find(EventFilter(), after, 1000)
        found += [event.type for event in page.items]
        if (after := page.next) is None:
            return found[::-1]


@pytest.mark.parametrize("what", RECORDS)
async def test_a_bad_record_is_set_aside_intact_and_reported(harness: EngineHarness, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "spool"
    first = write_event(folder, new_event("first"), make_id(1))
    bad = beside(first, 0xFFFFFFFE)
    bad.write_bytes(RECORDS[what])
    beside(first, 0xFFFFFFFF).write_bytes(record({**HEADER, "id": make_id(3), "type": "last"}))
    spool = SpoolImport(folder, harness.store.events, harness.clock)
    await spool.tick()
    assert await types(harness) == ["first", "error.error", "last"]
    assert (folder / "rejected" / bad.name).read_bytes() == RECORDS[what]
    assert spool_depth(folder) == 0
    assert await spool.tick() == importer_module.POLL_S
    page = await harness.store.events.find(EventFilter(type="error.error"), None, 5)
    assert [event.payload["file"] for event in page.items] == [bad.name]


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("kept")


THINGS: dict[str, Callable[[Path], None]] = {
    "a folder": _folder,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a pipe": lambda path: os.mkfifo(path),
}


@pytest.mark.parametrize("what", THINGS)
async def test_an_entry_that_is_not_a_file_is_set_aside_and_not_followed(
    harness: EngineHarness, tmp_path: Path, what: str
) -> None:
    folder = tmp_path / "spool"
    first = write_event(folder, new_event("first"), make_id(1))
    odd = beside(first, 0xFFFFFFFE)
    THINGS[what](odd)
    await SpoolImport(folder, harness.store.events, harness.clock).tick()
    assert await types(harness) == ["first", "error.error"]
    assert odd.name in os.listdir(folder / "rejected")
    assert spool_depth(folder) == 0
    page = await harness.store.events.find(EventFilter(type="error.error"), None, 1)
    assert "root:" not in page.items[0].payload_json


async def test_a_bad_record_that_cannot_be_set_aside_does_not_block_others(
    harness: EngineHarness, tmp_path: Path
) -> None:
    folder = tmp_path / "spool"
    first = write_event(folder, new_event("first"), make_id(1))
    bad = beside(first, 0xFFFFFFFE)
    bad.write_bytes(b"bad")
    (folder / "rejected").write_text("a file in place of the folder")
    spool = SpoolImport(folder, harness.store.events, harness.clock)
    for number in (2, 3):
        with pytest.raises(OSError, match="rejected"):
            await spool.tick()
        assert bad.read_bytes() == b"bad"
        write_event(folder, new_event(f"later.{number}"), make_id(number))
    (folder / "rejected").unlink()
    await spool.tick()
    assert await types(harness) == ["first", "error.error", "later.2", "later.3"]
    assert (folder / "rejected" / bad.name).read_bytes() == b"bad"


async def test_a_record_the_store_refuses_does_not_block_others(harness: EngineHarness, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    for number in range(3):
        write_event(folder, new_event(f"t.{number}"), make_id(number))

    class Picky:
        async def append(self, events):
            if any(event.type == "t.1" for event in events):
                raise BadInput("the store does not like it")
            return await harness.store.events.append(events)

    await SpoolImport(folder, Picky(), harness.clock).tick()
    assert await types(harness) == ["t.0", "error.error", "t.2"]
    assert len(list((folder / "rejected").iterdir())) == 1


async def test_large_records_are_not_all_in_memory_at_once(harness: EngineHarness, tmp_path: Path) -> None:
    folder, sizes = tmp_path / "spool", []
    for number in range(30):
        write_event(folder, new_event("big", "x" * 1_000_000), make_id(number))

    class Watching:
        async def append(self, events):
            sizes.append(sum(len(event.payload) for event in events))
            return await harness.store.events.append(events)

    await SpoolImport(folder, Watching(), harness.clock).tick()
    assert max(sizes) <= importer_module.BATCH_BYTES_MAX
    assert len(await types(harness)) == 30


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_event(tmp_path, new_event("t"), make_id(1))
    assert list(tmp_path.iterdir()) == []


@examples
@given(data=st.data())
def test_no_mutation_of_a_real_record_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    """Truncated, duplicated, flipped, spliced: the result is an event, or a clear error."""
    folder = tmp_path_factory.mktemp("spool")
    event = new_event("order.placed", {"id": 42, "text": "é"}, stream="s", properties={"n": 1}, dedup_key="k")
    path = write_event(folder, event, make_id(1))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        kind = data.draw(st.sampled_from(["cut", "double", "flip", "splice"]))
        if kind == "cut":
            del raw[at : at + data.draw(st.integers(1, 30))]
        elif kind == "double":
            raw[at:at] = raw[at : at + data.draw(st.integers(1, 30))]
        elif kind == "flip" and at < len(raw):
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
        else:
            raw[at:at] = data.draw(
                st.sampled_from([b"\x00", b"\xff", b"[" * 2000, b"\\ud800", b"NaN", b"9" * 5000, b"{}"])
            )
    path.write_bytes(bytes(raw))
    assert importable(path) != ""


def importable(path: Path) -> str:
    """The event id of a record, or the message of its refusal. Any other exception fails the test."""
    try:
        return EventDecoder().decode(*read_record(path), late=True).id or ""
    except HoldfastError as error:
        return error.message[:1000]


@examples
@given(header=st.dictionaries(st.sampled_from([*HEADER, "stream", "properties", "to", "timestamp", "dedup_key"]),
       st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
                    max_leaves=4)), body=st.binary(max_size=30))  # fmt: skip
def test_no_header_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, header, body: bytes) -> None:
    path = tmp_path_factory.mktemp("spool") / "r.evt"
    path.write_bytes(json.dumps({**HEADER, **header}).encode() + b"\n" + body)
    assert importable(path) != ""
