"""The spool: accepted when renamed and synced; imported once, in order."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_harness import EngineHarness
from holdfast.domain.event import new_event
from holdfast.ingress.importer import SpoolImport, spool_depth
from holdfast.ingress.spool import position_of, read_record, write_event
from holdfast.store.roles.events import EventFilter

ID = "evt_" + "0" * 12


def make_id(number: int) -> str:
    return f"evt_{number:032x}"


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    return await EngineHarness(tmp_path).start()


def importer(harness: EngineHarness, folder: Path) -> SpoolImport:
    return SpoolImport(folder, harness.store.events, harness.clock)


async def types(harness: EngineHarness) -> list[str]:
    page = await harness.store.events.find(EventFilter(), None, 100)
    return [event.type for event in reversed(page.items)]


async def test_records_are_imported_in_the_order_written(harness: EngineHarness, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    for number in range(20):
        write_event(folder, new_event(f"t.{number}", {"n": number}, stream="s"), make_id(number))
    await importer(harness, folder).tick()
    assert await types(harness) == [f"t.{number}" for number in range(20)]
    assert spool_depth(folder) == 0


async def test_a_record_that_could_not_be_removed_is_not_imported_twice(harness: EngineHarness, tmp_path: Path) -> None:
    """The daemon died between its commit and the removal of the file."""
    folder = tmp_path / "spool"
    path = write_event(folder, new_event("once", stream="s"), make_id(1))
    kept = path.read_bytes()
    await importer(harness, folder).tick()
    path.write_bytes(kept)
    await importer(harness, folder).tick()
    assert await types(harness) == ["once"]
    await harness.store.events.append([new_event("next", stream="s")])
    events = await harness.store.events.read("s", 0, 10)
    assert [event.seq for event in events] == [1, 2]


async def test_a_late_record_is_appended_and_marked(harness: EngineHarness, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    early = write_event(folder, new_event("early"), make_id(1))
    hidden = early.with_name("." + early.name)
    early.rename(hidden)
    write_event(folder, new_event("later"), make_id(2))
    spool = importer(harness, folder)
    await spool.tick()
    hidden.rename(early)
    await spool.tick()
    assert await types(harness) == ["later", "early"]
    page = await harness.store.events.find(EventFilter(type="early"), None, 1)
    assert page.items[0].properties == {"spool_late": True}


async def test_an_older_record_that_only_the_second_look_shows_comes_first(
    harness: EngineHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a folder while it changes may show a later name and miss an earlier one."""
    folder = tmp_path / "spool"
    first = write_event(folder, new_event("first"), make_id(1)).name
    second = write_event(folder, new_event("second"), make_id(2)).name
    looks = iter([[second], [first, second]])
    monkeypatch.setattr(os, "listdir", lambda folder: next(looks))
    await importer(harness, folder).tick()
    assert await types(harness) == ["first", "second"]


async def test_records_of_an_earlier_boot_come_first(harness: EngineHarness, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    write_event(folder, new_event("this.boot"), make_id(1))
    harness.clock.boot_id = position_of(os.listdir(folder)[0]).boot + "x" * 20
    old = folder / f"{'0' * 16}-{10**19:020d}-1-{'a' * 8}.evt"
    old.write_bytes(_record("last.boot", make_id(2)))
    await importer(harness, folder).tick()
    assert await types(harness) == ["last.boot", "this.boot"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no header",
        b"{}\n",
        b'{"v":2,"kind":"event"}\n',
        b'{"v":1,"kind":"event","id":"evt_1","type":""}\n',
        b'{"v":1,"kind":"event","type":"x"}\n{}',
        b'{"v":1,"kind":"event","id":"evt_1","type":"x"}\n{"a":NaN}',
        b'{"v":1,"kind":"event","id":"evt_1","type":"x"}\n\xff\xfe',
        b"[" * 100_000,
    ],
)
async def test_a_bad_record_is_kept_and_becomes_a_visible_error(
    harness: EngineHarness, tmp_path: Path, raw: bytes
) -> None:
    folder = tmp_path / "spool"
    good = write_event(folder, new_event("good"), make_id(1))
    bad = good.with_name(good.name.replace(good.name[-12:], "ffffffff.evt"))
    bad.write_bytes(raw)
    spool = importer(harness, folder)
    await spool.tick()
    await spool.tick()
    assert sorted(await types(harness)) == ["error.error", "good"]
    assert (folder / "rejected" / bad.name).read_bytes() == raw
    page = await harness.store.events.find(EventFilter(type="error.error"), None, 1)
    assert page.items[0].properties["error_code"] == "SPOOL_INVALID"


async def test_a_key_used_with_another_body_does_not_hold_up_the_others(harness: EngineHarness, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    write_event(folder, new_event("a", {"x": 1}, dedup_key="k"), make_id(1))
    write_event(folder, new_event("a", {"x": 2}, dedup_key="k"), make_id(2))
    write_event(folder, new_event("b"), make_id(3))
    await importer(harness, folder).tick()
    assert await types(harness) == ["a", "error.error", "b"]


async def test_a_late_copy_with_a_known_key_is_a_repetition(harness: EngineHarness, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    event = new_event("paid", {"x": 1}, dedup_key="k")
    await harness.store.events.append([event])
    copy = write_event(folder, event, make_id(1))
    hidden = copy.with_name("." + copy.name)
    copy.rename(hidden)
    write_event(folder, new_event("later"), make_id(2))
    spool = importer(harness, folder)
    await spool.tick()
    hidden.rename(copy)
    await spool.tick()
    assert await types(harness) == ["paid", "later"]


def test_other_files_in_the_folder_are_left_alone() -> None:
    assert position_of("README") is None
    assert position_of(".0123-00000000000000000001-1-abcdef01.evt") is None


@settings(max_examples=50)
@given(payload=st.recursive(st.none() | st.booleans() | st.integers() | st.text("ab\n\té\u2028"), st.lists))
def test_any_payload_comes_back_as_it_went(tmp_path_factory: pytest.TempPathFactory, payload: object) -> None:
    folder = tmp_path_factory.mktemp("spool")
    event = new_event("t", payload)
    header, body = read_record(write_event(folder, event, make_id(1)))
    assert body == event.payload
    assert header["type"] == "t"


def _record(type: str, id: str) -> bytes:
    return json.dumps({"v": 1, "kind": "event", "id": id, "type": type}).encode() + b"\nnull"
