"""Installer: adds our hooks to the config files of agent CLIs, removes them, and reports their status.

A CLI whose files cannot be changed does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.agents import registry
from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.install.answers import AgentChange, AgentStatus, ChangedFile, HookChanges, HooksStatus
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.files import Change, apply, check, digest, prune, read, show_diff
from holdfast.agents.install.hook_config import NOT_FOUND, NOT_INSTALLED, UNREADABLE, HookFile
from holdfast.agents.install.install_record import HOOKS_RECORD, InstalledFile, InstallRecord
from holdfast.agents.registry import agent_names
from holdfast.domain.errors import BadInput, HoldfastError
from holdfast.home import Home


class Installer:
    """Installs hooks for the agent CLIs of one user, or of one project.

    >>> from holdfast.agents.install.environment import this_environment
    >>> installer = Installer(this_environment(), Home(Path("/nowhere")))
    >>> [status.agent for status in installer.status().agents] == list(agent_names())
    True
    """

    def __init__(self, environment: Environment, home: Home, project: bool = False, record: str = HOOKS_RECORD) -> None:
        self._environment, self._project = environment, project
        self._record = InstallRecord(home, record)

    def install(self, names: Sequence[str] = (), tools: bool | None = None, dry_run: bool = False) -> HookChanges:
        """Install hooks for the named CLIs, found or not; without names, for every CLI that is found."""
        agents = self._choose(names)
        return HookChanges(dry_run, [self._install(agent, names, tools, dry_run) for agent in agents])

    def uninstall(self, names: Sequence[str] = (), dry_run: bool = False) -> HookChanges:
        """Remove our hooks from the named CLIs, or from all."""
        return HookChanges(dry_run, [self._uninstall(agent, dry_run) for agent in self._choose(names)])

    def status(self, names: Sequence[str] = ()) -> HooksStatus:
        return HooksStatus([self._status(agent) for agent in choose_agents(names)])

    def _install(self, agent: AgentCli, names: Sequence[str], tools: bool | None, dry_run: bool) -> AgentChange:
        if not names and not agent.install.is_found(self._environment):
            return AgentChange(agent.name, NOT_FOUND)
        answer = self._change(agent, lambda file, raw: file.add(raw, tools), self._record_installed, dry_run)
        if answer.error is None and not dry_run:
            with suppress(HoldfastError, OSError):  # the hooks are installed; `status` shows this problem too
                return replace(answer, notes=self._advice(agent))
        return answer

    def _uninstall(self, agent: AgentCli, dry_run: bool) -> AgentChange:
        return self._change(agent, self._undo, self._record_uninstalled, dry_run)

    def _change(
        self,
        agent: AgentCli,
        plan: Callable[[HookFile, bytes | None], bytes | None],
        record: Callable[[HookFile, Change, Path | None, list[Path]], Sequence[str]],
        dry_run: bool,
    ) -> AgentChange:
        """Change the files of one CLI. All changes are planned and checked before the first file is written."""
        files: list[ChangedFile] = []
        try:
            changes = []
            for file in self._files(agent):
                raw = read(file.path)
                change = Change(file.path, raw, plan(file, raw))
                if not change.is_none:
                    check(change)
                    changes.append((file, change))
            unused_folders: list[str] = []
            for file, change in changes:
                changed = ChangedFile(str(change.path), show_diff(change))
                if dry_run:
                    files.append(changed)
                    continue
                backup, made = apply(change)
                files.append(changed)
                unused_folders += record(file, change, backup, made)
                if backup is not None and backup.exists():
                    files[-1] = replace(changed, copy=str(backup))
            for folder in sorted(unused_folders, key=len, reverse=True):
                with suppress(OSError):  # not empty: another program uses it
                    Path(folder).rmdir()
        except (HoldfastError, OSError) as error:
            return AgentChange(agent.name, "failed" if files else "refused", _message(error), files)
        return AgentChange(agent.name, "changed" if files else "unchanged", None, files)

    def _choose(self, names: Sequence[str]) -> list[AgentCli]:
        return choose_agents(names)

    def _advice(self, agent: AgentCli) -> list[str]:
        return agent.install.advice(self._environment, self._project)

    def _files(self, agent: AgentCli) -> list[HookFile]:
        return agent.install.files(self._environment, self._project)

    def _undo(self, file: HookFile, raw: bytes | None) -> bytes | None:
        """The original bytes if nothing else changed the file, otherwise the file without our entries."""
        can_restore, original = self._record.original(file.path, raw)
        return original if can_restore else file.remove(raw)

    def _record_installed(self, file: HookFile, change: Change, backup: Path | None, made: list[Path]) -> Sequence[str]:
        path, after = change.path, digest(change.after)
        installed = self._record.find(path)
        if installed is not None and installed.after == digest(change.before):
            installed = installed._replace(after=after)
        elif file.remove(change.before) == change.before:
            copy = None if backup is None else str(backup)
            installed = InstalledFile(digest(change.before), after, copy, tuple(map(str, made)))
        else:  # installed before, then changed by another program: the original bytes are unknown
            installed = None
        if installed is None:
            self._record.drop(path)
        else:
            self._record.put(path, installed)
        kept = [] if installed is None or installed.copy is None else [Path(installed.copy)]
        prune(path, kept + self._record.copies_elsewhere(path))
        return ()

    def _record_uninstalled(
        self, file: HookFile, change: Change, backup: Path | None, made: list[Path]
    ) -> Sequence[str]:
        """Forget the file. Returns the folders that were made for it if it is removed."""
        installed = self._record.find(change.path)
        restored = installed is not None and installed.before == digest(change.after)
        spared = self._record.copies_elsewhere(change.path)
        prune(change.path, spared, **({"count": 0} if restored else {}))
        self._record.drop(change.path)
        return installed.made if installed is not None and change.after is None else ()

    def _status(self, agent: AgentCli) -> AgentStatus:
        found = agent.install.is_found(self._environment)
        try:
            status = agent.install.status(self._environment, self._project)
        except (HoldfastError, OSError) as error:
            return AgentStatus(agent.name, found, UNREADABLE, _message(error), None, [])
        state = NOT_FOUND if status.state == NOT_INSTALLED and not found else status.state
        return AgentStatus(agent.name, found, state, status.detail, str(status.path), list(status.events))


def choose_agents(names: Sequence[str]) -> list[AgentCli]:
    """The named CLIs in the order of the registry; all without names."""
    unknown = [name for name in names if name not in agent_names()]
    if unknown:
        raise BadInput(f"unknown agent {unknown[0]!r}; use one of {', '.join(agent_names())}")
    return [agent for agent in registry.AGENTS if not names or agent.name in names]


def _message(error: HoldfastError | OSError) -> str:
    if isinstance(error, HoldfastError):
        return error.message
    return f"{error.filename or 'the system'}: {error.strerror or error}"
