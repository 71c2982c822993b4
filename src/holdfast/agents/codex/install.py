"""Codex CLI: groups in `hooks.json`, or in `config.toml` where hooks stand there already; and `notify`.

Codex runs a hook only after the user trusted it, and says nothing while it does not. The trust is a hash of the hook
at its place; it is computed here to tell, and never written: trusting is the user's decision. Until then `notify`,
which needs no trust, reports the end of each turn.

Our groups carry no matcher: none means every occurrence, and whether an empty one is part of the hash differs between
events.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.agents.codex import config_toml
from holdfast.agents.install.environment import Environment, is_own, split_line
from holdfast.agents.install.files import BOM, Refused, decode, read
from holdfast.agents.install.hook_config import (
    DISABLED,
    INSTALLED,
    UNREADABLE,
    UNTRUSTED,
    HookFile,
    HookStatus,
    JsonHookConfig,
    check_plain,
    read_json,
)  # fmt: skip
from holdfast.agents.install.hook_entries import Handler, HookEntry, find_groups

TIMEOUT_S = 5
SESSION_END_S = 3  # the most Codex allows there
DEFAULT_TIMEOUT_S, DEFAULT_SESSION_END_S = 600, 1
_UNMATCHED = ("UserPromptSubmit", "Stop")  # events whose matcher Codex ignores, in the hash too


def _handler(environment: Environment, event: str) -> Handler:
    timeout = SESSION_END_S if event == "SessionEnd" else TIMEOUT_S
    return {"type": "command", "command": environment.line("codex"), "timeout": timeout}


_HOOKS = JsonHookConfig(
    name="codex",
    programs=("codex",),
    folder=lambda environment: environment.folder("CODEX_HOME", ".codex"),
    user_file="hooks.json",
    project_file=".codex/hooks.json",
    lifecycle=(
        "SessionStart", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop", "PermissionRequest", "PreCompact",
        "SessionEnd",
    ),
    tools=("PreToolUse", "PostToolUse"),
    handler=_handler,
    words=lambda handler: split_line(handler.get("command")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Codex:
    """Two files: where the hooks stand, and the user's `config.toml` for `notify` and for what Codex trusts."""

    name: str = "codex"
    programs: tuple[str, ...] = _HOOKS.programs

    def is_found(self, environment: Environment) -> bool:
        return _HOOKS.is_found(environment)

    def targets(self, environment: Environment, project: bool) -> list[HookFile]:
        hooks, config = self._paths(environment, project)
        in_toml = self._is_in_toml(config)
        targets = [] if in_toml else _HOOKS.targets(environment, project)
        if in_toml or not project:
            targets.append(
                HookFile(
                    config,
                    lambda raw, tools: self._wire(environment, config, raw, tools, in_toml, not project),
                    lambda raw: self._unwire(config, raw),
                )
            )
        if in_toml and find_groups(read_json(hooks), _HOOKS.is_own):  # wired before the user moved to config.toml
            targets.append(
                HookFile(hooks, lambda raw, _: _HOOKS.unwire(hooks, raw), lambda raw: _HOOKS.unwire(hooks, raw))
            )
        return targets

    def look(self, environment: Environment, project: bool) -> HookStatus:
        hooks, config = self._paths(environment, project)
        try:
            document = _read_toml(config)
            path = config if find_groups(document, _HOOKS.is_own) else hooks
            settings = document if path == config else read_json(hooks)
            trust = document if not project else _read_toml(self._paths(environment, False)[1])
        except Refused as error:
            return HookStatus(UNREADABLE, config, error.message)
        found = _HOOKS.find(settings)
        look = _HOOKS.judge(path, settings, found)
        if path == hooks and found:
            look = check_plain(look)
        if look.state != INSTALLED:
            return look
        if _is_off(trust):
            return look._replace(state=DISABLED, detail="features.hooks is false in config.toml")
        doubted = [each.event for each in found if not is_trusted(trust, path, each)]
        if not doubted:
            return look
        notified = "; notify reports the end of turns meanwhile" if is_own(trust.get("notify") or []) else ""
        detail = f"start codex, type /hooks and trust {', '.join(dict.fromkeys(doubted))}{notified}"
        return look._replace(state=UNTRUSTED, detail=detail)

    def advice(self, environment: Environment, project: bool) -> list[str]:
        look = self.look(environment, project)
        told = [look.detail] if look.state in (UNTRUSTED, DISABLED, UNREADABLE) and look.detail else []
        notify = _read_toml(self._paths(environment, False)[1]).get("notify")
        if notify and not is_own(notify):
            told.append("notify in config.toml names another program and stays as it is: until the hooks are trusted, "
                        "Codex tells Holdfast nothing")  # fmt: skip
        return told

    def _paths(self, environment: Environment, project: bool) -> tuple[Path, Path]:
        hooks = _HOOKS.path(environment, project)
        return hooks, hooks.with_name("config.toml")

    def _is_in_toml(self, config: Path) -> bool:
        """Whether hooks stand in config.toml already: Codex warns about hooks in both files."""
        hooks = _read_toml(config).get("hooks")
        return isinstance(hooks, dict) and any(isinstance(groups, list) and groups for groups in hooks.values())

    def _wire(
        self, environment: Environment, config: Path, raw: bytes | None, tools: bool | None, in_toml: bool, notify: bool
    ) -> bytes | None:
        text, bom = _split(config, raw)
        try:
            made = text
            if notify and _may_notify(config_toml.load(text)):
                made = config_toml.set_notify(made, environment.words("codex", guarded=False))
            if in_toml:
                wanted = _HOOKS.wanted(environment, config_toml.load(text), tools)
                made = config_toml.set_hooks(made, wanted, _HOOKS.is_own)
        except Refused as error:
            raise Refused(f"{config}: {error.message}; not touched") from None
        return raw if made == text else (bom + made).encode()

    def _unwire(self, config: Path, raw: bytes | None) -> bytes | None:
        text, bom = _split(config, raw)
        try:
            made = config_toml.set_hooks(text, {}, _HOOKS.is_own)
            if is_own(config_toml.load(text).get("notify") or []):
                made = config_toml.set_notify(made, None)
        except Refused as error:
            raise Refused(f"{config}: {error.message}; not touched") from None
        return raw if made == text else (bom + made).encode()


CODEX = Codex()


def trust_hash(event: str, matcher: str | None, handler: Handler) -> str:
    """The hash under which Codex remembers that a user trusts a hook."""
    shape: dict[str, Any] = {"event_name": _snake(event), "hooks": [_identity(event, handler)]}
    if matcher is not None and event not in _UNMATCHED:
        shape["matcher"] = matcher
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def is_trusted(config: Mapping[str, Any], path: Path, found: HookEntry) -> bool:
    """Whether Codex will run this hook: trusted as it is now, at its place, and not switched off there."""
    hooks = config.get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    if not isinstance(states, dict):
        return False
    place = f"{_snake(found.event)}:{found.group}:{found.place}"
    known = [states.get(f"{name}:{place}") for name in (path, path.resolve())]
    wanted = trust_hash(found.event, found.matcher, found.handler)
    return any(
        isinstance(state, dict) and state.get("enabled") is not False and state.get("trusted_hash") == wanted
        for state in known
    )


def _identity(event: str, handler: Handler) -> dict[str, Any]:
    """A handler as Codex normalises it before it hashes."""
    given = handler.get("timeout")
    if event == "SessionEnd":
        timeout = min(SESSION_END_S, max(1, DEFAULT_SESSION_END_S if given is None else given))
    else:
        timeout = max(1, DEFAULT_TIMEOUT_S if given is None else given)
    identity = {
        "type": "command",
        "command": handler["command"],
        "timeout": timeout,
        "async": bool(handler.get("async")),
    }
    message = handler.get("statusMessage")
    return identity if message is None else {**identity, "statusMessage": message}


def _snake(event: str) -> str:
    """
    >>> _snake("UserPromptSubmit")
    'user_prompt_submit'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _is_off(config: Mapping[str, Any]) -> bool:
    features = config.get("features")
    return isinstance(features, dict) and features.get("hooks") is False


def _may_notify(config: Mapping[str, Any]) -> bool:
    """Codex has one `notify`; a foreign one is not ours to replace."""
    return not config.get("notify") or is_own(config["notify"])


def _split(path: Path, raw: bytes | None) -> tuple[str, str]:
    text = decode(path, raw)
    body = text.removeprefix(BOM)
    return body, text[: len(text) - len(body)]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return config_toml.load(_split(path, read(path))[0])
    except Refused as error:
        said = error.message
        raise Refused(said if str(path) in said else f"{path}: {said}; not touched, mend it first") from None
