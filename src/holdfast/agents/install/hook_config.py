"""HookConfig: the config files of one agent CLI that hold its hooks; JsonHookConfig for CLIs with a JSON file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.agents.install.environment import Environment, find_missing, is_own
from holdfast.agents.install.files import Refused
from holdfast.agents.install.hook_entries import (
    Handler,
    HookEntry,
    find_in_groups,
    find_in_lists,
    set_in_groups,
    set_in_lists,
)
from holdfast.agents.install.json_settings import edit_json, is_strict_json, parse_settings, read_json
from holdfast.domain.json_value import Json, JsonObject

NOT_FOUND = "not found"
NOT_INSTALLED = "not installed"
INSTALLED = "installed"
UNTRUSTED = "installed but not trusted"
DISABLED = "disabled by setting"
STALE = "stale path"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class HookFile:
    """A config file and how to change it. `add` and `remove` map the file's bytes to new ones; None: no file.

    The second argument of `add`: True adds tool events, False removes them, None keeps the current choice.
    """

    path: Path
    add: Callable[[bytes | None, bool | None], bytes | None]
    remove: Callable[[bytes | None], bytes | None]


class HookStatus(NamedTuple):
    """The state of the hooks of one CLI, the events they cover, and what to do if something is wrong."""

    state: str
    path: Path
    detail: str | None = None
    events: tuple[str, ...] = ()


class HookConfig(Protocol):
    """How to install hooks into one CLI. `project` selects the files of a project instead of the user's."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The possible names of its executable."""
        ...

    def is_found(self, environment: Environment) -> bool:
        """Whether the CLI is installed."""
        ...

    def files(self, environment: Environment, project: bool) -> list[HookFile]:
        """The files that an installation changes."""
        ...

    def status(self, environment: Environment, project: bool) -> HookStatus: ...

    def advice(self, environment: Environment, project: bool) -> list[str]:
        """Notes for the user after an installation."""
        ...


@dataclass(frozen=True, slots=True)
class JsonHookConfig:
    """Hooks in a JSON file.

    - `folder` is the CLI's config folder; `user_file` is relative to it, `project_file` to the project.
    - `lifecycle` events are always installed, `tools` events only on request.
    - `handler` makes the JSON object for one event; `words` reads the command line out of such an object.
    - `grouped`: the file has groups with matchers (see `hook_entries`), else plain lists.
    - `initial`: the content of a new file. `own_file`: the file is removed with its last hook.
    - `disabled_by` returns the setting that disables all hooks, if it is set.
    - `strict`: the CLI ignores a file with comments or trailing commas, hooks included.
    """

    programs: tuple[str, ...]
    folder: Callable[[Environment], Path]
    user_file: str
    project_file: str
    lifecycle: tuple[str, ...]
    tools: tuple[str, ...]
    handler: Callable[[Environment, str], Handler]
    words: Callable[[Handler], list[str]]
    grouped: bool = True
    initial: Mapping[str, Json] = field(default_factory=dict)
    own_file: bool = False
    disabled_by: Callable[[Mapping[str, Json]], str | None] = lambda _: None
    notes: tuple[str, ...] = ()
    strict: bool = False

    def is_found(self, environment: Environment) -> bool:
        return self.folder(environment).is_dir() or environment.has_program(*self.programs)

    def path(self, environment: Environment, project: bool) -> Path:
        return environment.project / self.project_file if project else self.folder(environment) / self.user_file

    def files(self, environment: Environment, project: bool) -> list[HookFile]:
        path = self.path(environment, project)
        return [
            HookFile(
                path,
                lambda raw, tools: self.add(environment, path, raw, tools),
                lambda raw: self.remove(path, raw),
            )
        ]

    def add(self, environment: Environment, path: Path, raw: bytes | None, tools: bool | None) -> bytes:
        def change(settings: Mapping[str, Json]) -> JsonObject:
            settings = settings or self.initial
            return self.set(settings, self.handlers(environment, settings, tools))

        return edit_json(path, raw, change) or b""

    def remove(self, path: Path, raw: bytes | None) -> bytes | None:
        rest = edit_json(path, raw, lambda settings: self.set(settings, {}))
        if self.own_file and rest != raw and parse_settings(path, rest) == self.initial:
            return None
        return rest

    def handlers(
        self, environment: Environment, settings: Mapping[str, Json], tools: bool | None
    ) -> dict[str, Handler]:
        """The handlers that the file should contain, by event."""
        if tools is None:
            tools = any(entry.event in self.tools for entry in self.find(settings))
        return {event: self.handler(environment, event) for event in self.lifecycle + (self.tools if tools else ())}

    def set(self, settings: Mapping[str, Json], handlers: Mapping[str, Handler]) -> JsonObject:
        return (set_in_groups if self.grouped else set_in_lists)(settings, handlers, self.is_own)

    def find(self, settings: object) -> list[HookEntry]:
        return (find_in_groups if self.grouped else find_in_lists)(settings, self.is_own)

    def is_own(self, handler: object) -> bool:
        return isinstance(handler, dict) and is_own(self.words(handler))

    def status(self, environment: Environment, project: bool) -> HookStatus:
        path = self.path(environment, project)
        try:
            settings = read_json(path)
            status = self.status_of(path, settings, self.find(settings))
            return status if status.state == NOT_INSTALLED or not self.strict else check_strict(status)
        except Refused as error:
            return HookStatus(UNREADABLE, path, error.message)

    def status_of(self, path: Path, settings: Mapping[str, Json], entries: list[HookEntry]) -> HookStatus:
        """The status that follows from our entries in a file."""
        if not entries:
            return HookStatus(NOT_INSTALLED, path)
        events = tuple(dict.fromkeys(entry.event for entry in entries))
        missing_file = next(filter(None, (find_missing(self.words(entry.handler)) for entry in entries)), None)
        if missing_file is not None:
            return HookStatus(STALE, path, f"{missing_file} does not exist; run: holdfast hooks install", events)
        reason = self.disabled_by(settings)
        if reason is not None:
            return HookStatus(DISABLED, path, reason, events)
        missing = [event for event in self.lifecycle if event not in events]
        detail = f"hooks missing for {', '.join(missing)}; run: holdfast hooks install" if missing else None
        return HookStatus(INSTALLED, path, detail, events)

    def advice(self, environment: Environment, project: bool) -> list[str]:
        status = self.status(environment, project)
        if status.state in (DISABLED, UNREADABLE):
            return [f"{status.detail}: no hook runs until that is changed"]
        return list(self.notes)


def check_strict(status: HookStatus) -> HookStatus:
    """The same status, or `unreadable` if the file has comments or trailing commas."""
    if is_strict_json(status.path):
        return status
    detail = f"{status.path} has comments or trailing commas, so its CLI ignores the whole file"
    return status._replace(state=UNREADABLE, detail=detail)
