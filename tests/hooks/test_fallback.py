"""Fallback folders: their records are imported first, the receivers' log is reported, leftovers are removed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from engine_harness import EngineHarness
from holdfast.agents.hooks.decoder import HookDecoder
from holdfast.agents.receiver import intake
from holdfast.agents.receiver.fallback_folders import count_waiting, fallback_folders, recent_failures
from holdfast.agents.receiver.spool_duty import UNFINISHED_S, SpoolDuty, remove_unfinished
from holdfast.domain.event import new_event
from holdfast.ingress.importer import SpoolImport
from holdfast.ingress.lateness import LateRecords
from holdfast.ingress.spool import write_event
from holdfast.store.roles.events import EventFilter
from hooks import claude, write_hook


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fallback folder of the home `tmp_path / home`, on a machine that has no other."""
    monkeypatch.setattr(intake, "FALLBACKS", (os.fsencode(tmp_path) + b"/holdfast-%d",))
    ((parent, key),) = intake.fallbacks(os.fsencode(tmp_path / "home"))
    folder = Path(os.fsdecode(parent)) / os.fsdecode(key)
    folder.mkdir(mode=0o700, parents=True)
    folder.parent.chmod(0o700)
    return folder


def make_duty(harness: EngineHarness, home: Path) -> SpoolDuty:
    lateness = LateRecords()

    def make(folder: Path) -> SpoolImport:
        return SpoolImport(folder, harness.store.events, harness.clock, [HookDecoder()], lateness)

    return SpoolDuty(home, make(home / "spool"), make)


async def types(harness: EngineHarness) -> list[str]:
    page = await harness.store.events.find(EventFilter(), None, 100)
    return [event.type for event in reversed(page.items)]


async def test_records_in_a_fallback_folder_are_imported_before_later_ones(tmp_path: Path, elsewhere: Path) -> None:
    harness, home = await EngineHarness(tmp_path).start(), tmp_path / "home"
    write_event(elsewhere, new_event("earlier"), "evt_" + "1" * 32)
    write_event(home / "spool", new_event("later"), "evt_" + "2" * 32)
    assert count_waiting(home) == 2
    duty = make_duty(harness, home)
    assert await duty.tick() == 0.0
    assert await types(harness) == ["earlier", "later"]
    assert count_waiting(home) == 0
    assert await duty.tick() == 1.0


async def test_records_from_before_the_disk_was_full_are_marked_late(tmp_path: Path, elsewhere: Path) -> None:
    """The fallback folders come first: then the turn that began in the spool has ended already."""
    harness, home = await EngineHarness(tmp_path).start(), tmp_path / "home"
    write_hook(home / "spool", 1, "claude", claude("UserPromptSubmit", prompt="Go"))
    write_hook(elsewhere, 2, "claude", claude("Stop"))
    write_hook(home / "spool", 3, "claude", claude("UserPromptSubmit", "s2", prompt="Go"))
    await make_duty(harness, home).tick()
    page = await harness.store.events.find(EventFilter(), None, 100)
    assert [(event.type, event.properties.get("spool_late")) for event in reversed(page.items)] == [
        ("hook.agent_stop", None), ("hook.user_prompt_submit", True), ("hook.user_prompt_submit", None),
    ]  # fmt: skip


async def test_an_unreadable_record_in_a_fallback_folder_does_not_delay_the_spool(
    tmp_path: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    harness, home = await EngineHarness(tmp_path).start(), tmp_path / "home"
    write_event(home / "spool", new_event("t"), "evt_" + "1" * 32)
    (elsewhere / f"{'a' * 16}-{1:020d}-1-{'0' * 8}.evt").mkdir()
    duty = make_duty(harness, home)
    await duty.tick()
    await duty.tick()
    assert sorted(await types(harness)) == ["error.error", "t"]  # it is set aside and reported
    assert caplog.text.count("cannot be imported") == 1


@pytest.mark.parametrize("who", ["parent", "folder"])
def test_nothing_is_imported_from_a_folder_that_others_may_write(tmp_path: Path, elsewhere: Path, who: str) -> None:
    home = tmp_path / "home"
    assert fallback_folders(home) == [elsewhere]
    (elsewhere.parent if who == "parent" else elsewhere).chmod(0o777)
    assert fallback_folders(home) == []


def test_nothing_is_imported_through_a_link(tmp_path: Path, elsewhere: Path) -> None:
    elsewhere.rename(tmp_path / "moved")
    elsewhere.symlink_to(tmp_path / "moved")
    assert fallback_folders(tmp_path / "home") == []


def test_failures_are_reported_for_a_day_and_bad_log_lines_are_skipped(tmp_path: Path, elsewhere: Path) -> None:
    home, now_ms = tmp_path / "home", 1_800_000_000_000
    home.mkdir()
    assert recent_failures(home, now_ms) == []
    lines = [
        {"at": now_ms - 25 * 3600_000, "why": "long ago", "kept": None},
        {"at": now_ms - 2, "why": "No space left on device", "kept": None},
        {"at": now_ms - 1, "why": "later", "kept": "/var/tmp/x"},
        {"at": now_ms - 3, "why": "earlier", "kept": "/var/tmp/x"},
    ]
    text = "\n".join(["x" * 70_000, *map(json.dumps, lines), "[]", "{", '{"at": "x"}', "\x00", ""])
    (elsewhere / "receiver.log").write_text(text)
    assert recent_failures(home, now_ms) == [
        f"1 hook event was lost in the last 24 hours: cannot write the spool of {home} (No space left on device)",
        f"2 hook events were kept in a fallback folder in the last 24 hours: cannot write the spool of {home} (later)",
    ]


def test_a_log_that_is_not_a_file_is_skipped(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "home").mkdir()
    os.mkfifo(tmp_path / "home" / "receiver.log")
    assert recent_failures(tmp_path / "home", 0) == []


async def test_leftovers_of_killed_writers_are_removed_after_a_day(tmp_path: Path, elsewhere: Path) -> None:
    harness, home = await EngineHarness(tmp_path).start(), tmp_path / "home"
    spool = home / "spool"
    spool.mkdir(parents=True)
    name = f".{'a' * 16}-{1:020d}-1-{'0' * 8}.evt"
    for folder in (spool, elsewhere):
        (folder / name).write_text("half")
        (folder / name.replace("-1-", "-2-")).write_text("half, under way")
        (folder / ".keep").write_text("not ours")
        for old in (name, ".keep"):
            os.utime(folder / old, (0, time.time() - UNFINISHED_S - 60))
    await make_duty(harness, home).tick()
    for folder in (spool, elsewhere):
        assert sorted(os.listdir(folder)) == sorted([".keep", name.replace("-1-", "-2-")])
    assert remove_unfinished(tmp_path / "nowhere", time.time()) == 0
