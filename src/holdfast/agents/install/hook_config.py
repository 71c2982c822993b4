"""What an agent CLI is to wiring: whether it is there, which files to change, and what those say now."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from holdfast.agents.install import jsonc
from holdfast.agents.install.environment import Environment, find_gone, is_own
from holdfast.agents.install.files import BOM, Refused, decode, read
from holdfast.agents.install.hook_entries import Handler, HookEntry, find_groups, find_lists, set_groups, set_lists

NOT_FOUND = "not found"
NOT_INSTALLED = "not installed"
INSTALLED = "installed"
UNTRUSTED = "installed but not trusted"
DISABLED = "disabled by setting"
STALE = "stale path"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class HookFile:
    """A file to wire: from its bytes (None: it is not there) to those it should have."""

    path: Path
    wire: Callable[[bytes | None, bool | None], bytes | None]
    unwire: Callable[[bytes | None], bytes | None]


class HookStatus(NamedTuple):
    """What a CLI's files say now."""

    state: str
    path: Path
    detail: str | None = None
    events: tuple[str, ...] = ()


class HookConfig(Protocol):
    """One CLI. `tools` says: tool events too, no tool events, or (None) as it is."""

    @property
    def name(self) -> str: ...

    @property
    def programs(self) -> tuple[str, ...]:
        """What its program may be called."""
        ...

    def is_found(self, environment: Environment) -> bool: ...

    def targets(self, environment: Environment, project: bool) -> list[HookFile]: ...

    def look(self, environment: Environment, project: bool) -> HookStatus: ...

    def advice(self, environment: Environment, project: bool) -> list[str]:
        """What a person should know or do once the files are as they are now."""
        ...


@dataclass(frozen=True, slots=True)
class JsonHookConfig:
    """A CLI whose hooks stand in a JSON file; its particulars are values and small functions."""

    name: str
    programs: tuple[str, ...]
    folder: Callable[[Environment], Path]
    user_file: str
    project_file: str
    lifecycle: tuple[str, ...]
    tools: tuple[str, ...]
    handler: Callable[[Environment, str], Handler]
    words: Callable[[Handler], list[str]]
    grouped: bool = True
    start: Mapping[str, Any] = field(default_factory=dict)
    own_file: bool = False
    switched_off: Callable[[Mapping[str, Any]], str | None] = lambda _: None
    hints: tuple[str, ...] = ()
    plain: bool = False  # it ignores a file with comments or trailing commas, hooks and all

    def is_found(self, environment: Environment) -> bool:
        return self.folder(environment).is_dir() or environment.has_program(*self.programs)

    def path(self, environment: Environment, project: bool) -> Path:
        return environment.project / self.project_file if project else self.folder(environment) / self.user_file

    def targets(self, environment: Environment, project: bool) -> list[HookFile]:
        path = self.path(environment, project)
        return [
            HookFile(
                path, lambda raw, tools: self.wire(environment, path, raw, tools), lambda raw: self.unwire(path, raw)
            )
        ]

    def wire(self, environment: Environment, path: Path, raw: bytes | None, tools: bool | None) -> bytes:
        def change(settings: Mapping[str, Any]) -> dict[str, Any]:
            settings = settings or self.start
            return self.set(settings, self.wanted(environment, settings, tools))

        return edit_json(path, raw, change) or b""

    def unwire(self, path: Path, raw: bytes | None) -> bytes | None:
        left = edit_json(path, raw, lambda settings: self.set(settings, {}))
        if self.own_file and left != raw and read_settings(path, left) == self.start:
            return None
        return left

    def wanted(self, environment: Environment, settings: Mapping[str, Any], tools: bool | None) -> dict[str, Handler]:
        """The handlers there should be, by event."""
        if tools is None:
            tools = any(found.event in self.tools for found in self.find(settings))
        return {event: self.handler(environment, event) for event in self.lifecycle + (self.tools if tools else ())}

    def set(self, settings: Mapping[str, Any], wanted: Mapping[str, Handler]) -> dict[str, Any]:
        return (set_groups if self.grouped else set_lists)(settings, wanted, self.is_own)

    def find(self, settings: Any) -> list[HookEntry]:
        return (find_groups if self.grouped else find_lists)(settings, self.is_own)

    def is_own(self, handler: Any) -> bool:
        return isinstance(handler, dict) and is_own(self.words(handler))

    def look(self, environment: Environment, project: bool) -> HookStatus:
        path = self.path(environment, project)
        try:
            settings = read_json(path)
            look = self.judge(path, settings, self.find(settings))
            return look if look.state == NOT_INSTALLED or not self.plain else check_plain(look)
        except Refused as error:
            return HookStatus(UNREADABLE, path, error.message)

    def judge(self, path: Path, settings: Mapping[str, Any], found: list[HookEntry]) -> HookStatus:
        """What these entries of ours amount to."""
        if not found:
            return HookStatus(NOT_INSTALLED, path)
        events = tuple(dict.fromkeys(each.event for each in found))
        gone = next(filter(None, (find_gone(self.words(each.handler)) for each in found)), None)
        if gone is not None:
            return HookStatus(STALE, path, f"{gone} is gone; run: holdfast hooks install", events)
        reason = self.switched_off(settings)
        if reason is not None:
            return HookStatus(DISABLED, path, reason, events)
        missing = [event for event in self.lifecycle if event not in events]
        detail = f"without {', '.join(missing)}; run: holdfast hooks install" if missing else None
        return HookStatus(INSTALLED, path, detail, events)

    def advice(self, environment: Environment, project: bool) -> list[str]:
        look = self.look(environment, project)
        if look.state in (DISABLED, UNREADABLE):
            return [f"{look.detail}: nothing is sent until that is changed"]
        return list(self.hints)


def check_plain(look: HookStatus) -> HookStatus:
    """The same, unless its file holds what only we can read."""
    try:
        json.loads(decode(look.path, read(look.path)).removeprefix(BOM) or "{}")
    except ValueError:
        detail = f"{look.path} has comments or trailing commas, and its CLI ignores such a file as a whole"
        return look._replace(state=UNREADABLE, detail=detail)
    return look


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a file; an empty one where there is none."""
    return read_settings(path, read(path))


def read_settings(path: Path, raw: bytes | None) -> Mapping[str, Any]:
    return _settings(path, decode(path, raw).removeprefix(BOM))


def edit_json(path: Path, raw: bytes | None, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> bytes | None:
    """The bytes of a JSON file after a change of what it says; everything else in it stays."""
    text = decode(path, raw)
    body = text.removeprefix(BOM)
    bom = text[: len(text) - len(body)]
    settings = _settings(path, body)
    try:
        wanted = change(settings)
        if wanted == settings:
            return raw
        if body.strip():
            return (bom + jsonc.rewrite(body, wanted)).encode()
    except (Refused, jsonc.NotJson) as error:
        raise Refused(f"{path}: {error.message}; not touched") from None
    newline = "\r\n" if "\r\n" in body else "\n"
    return (bom + json.dumps(wanted, ensure_ascii=False, indent=2).replace("\n", newline) + newline).encode()


def _settings(path: Path, body: str) -> Mapping[str, Any]:
    try:
        settings = jsonc.parse(body).value if body.strip() else {}
    except jsonc.NotJson as error:
        raise Refused(f"{path} cannot be read: {error.message}; not touched, mend it first") from None
    if not isinstance(settings, dict):
        raise Refused(f"{path} does not hold an object; not touched")
    return settings
