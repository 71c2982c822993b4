"""Answers of the installer and of the service: what was changed, and what is installed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A config file that was changed, or would be. `copy` is the path of its backup."""

    path: str
    diff: str
    copy: str | None = None


@dataclass(frozen=True, slots=True)
class AgentChange:
    """The result for one agent CLI: changed, unchanged, not found, refused (nothing written) or failed (partly)."""

    agent: str
    result: str
    error: str | None = None
    files: list[ChangedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HookChanges:
    """What an installation or removal of hooks changed, or with `dry_run` would change."""

    dry_run: bool
    agents: list[AgentChange]


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The hooks of one agent CLI. `path` is None if its config file cannot be read."""

    agent: str
    found: bool
    state: str
    detail: str | None
    path: str | None
    events: list[str]


@dataclass(frozen=True, slots=True)
class HooksStatus:
    agents: list[AgentStatus]


@dataclass(frozen=True, slots=True)
class InstalledService:
    """`running` is None in all answers about the service if the service manager does not respond.

    `failed`: the service manager did not do what it was asked. `variables` are stored for the service; those in `unset`
    are named by the configuration, but have no value.
    """

    path: str
    diff: str
    changed: bool
    running: bool | None
    notes: list[str]
    failed: bool = False
    variables: list[str] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RemovedService:
    path: str
    changed: bool
    running: bool | None
    notes: list[str]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    path: str
    state: str
    running: bool | None
    notes: list[str]
