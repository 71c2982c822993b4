"""The verbs of wiring: install, uninstall, status. One CLI that cannot be wired does not keep the others from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.agents.claude.install import CLAUDE
from holdfast.agents.codex.install import CODEX
from holdfast.agents.copilot.install import COPILOT
from holdfast.agents.cursor.install import CURSOR
from holdfast.agents.gemini.install import GEMINI
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.files import Change, apply, check, digest, prune, read, show_diff
from holdfast.agents.install.hook_config import NOT_FOUND, NOT_INSTALLED, UNREADABLE, HookConfig, HookFile
from holdfast.agents.install.install_record import InstalledFile, InstallRecord
from holdfast.agents.opencode.install import OPENCODE
from holdfast.agents.qwen.install import QWEN
from holdfast.domain.errors import BadInput, HoldfastError
from holdfast.home import Home

AGENTS: tuple[HookConfig, ...] = (CLAUDE, CODEX, GEMINI, QWEN, COPILOT, CURSOR, OPENCODE)
NAMES = tuple(agent.name for agent in AGENTS)


class Installer:
    """What can be done about the CLIs of one machine.

    >>> from holdfast.agents.install.environment import this_environment
    >>> Installer(this_environment(), Home(Path("/nowhere"))).status(["gemini"])["agents"][0]["agent"]
    'gemini'
    """

    def __init__(self, environment: Environment, home: Home, project: bool = False) -> None:
        self._machine, self._project = environment, project
        self._record = InstallRecord(home)

    def install(self, names: Sequence[str] = (), tools: bool | None = None, dry_run: bool = False) -> dict[str, Any]:
        """Wire the named CLIs, or all that are found. Named ones are wired even before their CLI is there."""
        return {"dry_run": dry_run, "agents": [self._install(each, names, tools, dry_run) for each in pick(names)]}

    def uninstall(self, names: Sequence[str] = (), dry_run: bool = False) -> dict[str, Any]:
        """Take out what install put in, of all CLIs unless some are named."""
        return {"dry_run": dry_run, "agents": [self._uninstall(each, dry_run) for each in pick(names)]}

    def status(self, names: Sequence[str] = ()) -> dict[str, Any]:
        return {"agents": [self._look(agent) for agent in pick(names)]}

    def _install(self, agent: HookConfig, names: Sequence[str], tools: bool | None, dry_run: bool) -> dict[str, Any]:
        if not names and not agent.is_found(self._machine):
            return _answer(agent, NOT_FOUND)
        answer = self._change(agent, lambda target, raw: target.wire(raw, tools), self._note_installed, dry_run)
        if answer["error"] is None and not dry_run:
            with suppress(HoldfastError, OSError):  # it is wired; what else there is to say, status says
                answer["notes"] = agent.advice(self._machine, self._project)
        return answer

    def _uninstall(self, agent: HookConfig, dry_run: bool) -> dict[str, Any]:
        return self._change(agent, self._undo, self._note_uninstalled, dry_run)

    def _change(
        self,
        agent: HookConfig,
        plan: Callable[[HookFile, bytes | None], bytes | None],
        note: Callable[[HookFile, Change, Path | None, list[Path]], Sequence[str]],
        dry_run: bool,
    ) -> dict[str, Any]:
        """Plan every file of a CLI before the first is written."""
        answer = _answer(agent, "unchanged")
        try:
            changes = []
            for target in agent.targets(self._machine, self._project):
                raw = read(target.path)
                change = Change(target.path, raw, plan(target, raw))
                if not change.is_none:
                    check(change)
                    changes.append((target, change))
            left: list[str] = []
            for target, change in changes:
                file = {"path": str(change.path), "diff": show_diff(change), "copy": None}
                if not dry_run:
                    kept, made = apply(change)
                    answer["files"].append(file)
                    left += note(target, change, kept, made)
                    file["copy"] = str(kept) if kept is not None and kept.exists() else None
                else:
                    answer["files"].append(file)
                answer["result"] = "changed"
            for folder in sorted(left, key=len, reverse=True):
                with suppress(OSError):  # somebody else keeps something there
                    Path(folder).rmdir()
        except (HoldfastError, OSError) as error:
            answer.update(result="failed" if answer["files"] else "refused", error=_sentence(error))
        return answer

    def _undo(self, target: HookFile, raw: bytes | None) -> bytes | None:
        """The bytes from before where nothing else changed since, otherwise all but our entries."""
        known, original = self._record.original(target.path, raw)
        return original if known else target.unwire(raw)

    def _note_installed(self, target: HookFile, change: Change, kept: Path | None, made: list[Path]) -> Sequence[str]:
        path, after = change.path, digest(change.after)
        entry = self._record.find(path)
        if entry is not None and entry.after == digest(change.before):
            entry = entry._replace(after=after)
        elif target.unwire(change.before) == change.before:
            entry = InstalledFile(
                digest(change.before), after, None if kept is None else str(kept), tuple(map(str, made))
            )
        else:  # wired before, and changed by others since: what was there before us is no longer known
            entry = None
        if entry is None:
            self._record.drop(path)
        else:
            self._record.put(path, entry)
        prune(path, None if entry is None or entry.copy is None else Path(entry.copy))
        return ()

    def _note_uninstalled(self, target: HookFile, change: Change, kept: Path | None, made: list[Path]) -> Sequence[str]:
        """Forget the file; the folders that were made for it, if it is gone."""
        entry = self._record.find(change.path)
        restored = entry is not None and entry.before == digest(change.after)
        prune(change.path, None, **({"count": 0} if restored else {}))
        self._record.drop(change.path)
        return entry.made if entry is not None and change.after is None else ()

    def _look(self, agent: HookConfig) -> dict[str, Any]:
        found = agent.is_found(self._machine)
        shape: dict[str, Any] = {"agent": agent.name, "found": found}
        try:
            look = agent.look(self._machine, self._project)
        except (HoldfastError, OSError) as error:
            return {**shape, "state": UNREADABLE, "detail": _sentence(error), "path": None, "events": []}
        state = NOT_FOUND if look.state == NOT_INSTALLED and not found else look.state
        return {**shape, "state": state, "detail": look.detail, "path": str(look.path), "events": list(look.events)}


def pick(names: Sequence[str]) -> list[HookConfig]:
    """The named ones, in the usual order; all where none is named."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise BadInput(f"there is no agent {unknown[0]!r}; there are {', '.join(NAMES)}")
    return [agent for agent in AGENTS if not names or agent.name in names]


def _answer(agent: HookConfig, result: str) -> dict[str, Any]:
    return {"agent": agent.name, "result": result, "error": None, "files": [], "notes": []}


def _sentence(error: HoldfastError | OSError) -> str:
    if isinstance(error, HoldfastError):
        return error.message
    return f"{error.filename or 'the system'}: {error.strerror or error}"
