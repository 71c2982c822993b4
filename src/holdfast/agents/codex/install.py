"""Hook config of Codex CLI: `hooks.json`, or `config.toml` if the user has hooks there; and `notify`.

Codex runs a hook only after the user trusted it, without any message before that. Until then `notify`, which needs no
trust, reports the end of each turn.

Our groups have no matcher: that matches everything, and whether an empty matcher is part of the trust hash differs
between events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.agents.codex import config_toml
from holdfast.agents.codex.trust import SESSION_END_MAX_S, is_trusted
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
    check_strict,
)
from holdfast.agents.install.hook_entries import Handler, find_in_groups
from holdfast.agents.install.json_settings import read_json
from holdfast.domain.json_value import Json, JsonObject, list_in

TIMEOUT_S = 5


def _handler(environment: Environment, event: str) -> Handler:
    timeout = SESSION_END_MAX_S if event == "SessionEnd" else TIMEOUT_S
    return {"type": "command", "command": environment.command_line("codex"), "timeout": timeout}


HOOKS_JSON = JsonHookConfig(
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
class CodexHookConfig:
    """Two files: the one with the hooks, and the user's `config.toml` with `notify` and the trusted hashes."""

    programs: tuple[str, ...] = HOOKS_JSON.programs

    def is_found(self, environment: Environment) -> bool:
        return HOOKS_JSON.is_found(environment)

    def files(self, environment: Environment, project: bool) -> list[HookFile]:
        hooks, config = self._paths(environment, project)
        in_toml = self._is_in_toml(config)
        files = [] if in_toml else HOOKS_JSON.files(environment, project)
        if in_toml or not project:
            files.append(
                HookFile(
                    config,
                    lambda raw, tools: self._add(environment, config, raw, tools, in_toml, not project),
                    lambda raw: self._remove(config, raw),
                )
            )
        if in_toml and HOOKS_JSON.find(read_json(hooks)):  # installed before the user moved to config.toml
            files.append(
                HookFile(hooks, lambda raw, _: HOOKS_JSON.remove(hooks, raw), lambda raw: HOOKS_JSON.remove(hooks, raw))
            )
        return files

    def status(self, environment: Environment, project: bool) -> HookStatus:
        hooks, config = self._paths(environment, project)
        try:
            document = _read_toml(config)
            path = config if find_in_groups(document, HOOKS_JSON.is_own) else hooks
            settings = document if path == config else read_json(hooks)
            user_config = document if not project else _read_toml(self._paths(environment, False)[1])
        except Refused as error:
            return HookStatus(UNREADABLE, config, error.message)
        entries = HOOKS_JSON.find(settings)
        status = HOOKS_JSON.status_of(path, settings, entries)
        if path == hooks and entries:
            status = check_strict(status)
        if status.state != INSTALLED:
            return status
        if _is_disabled(user_config):
            return status._replace(state=DISABLED, detail="features.hooks is false in config.toml")
        untrusted = [entry.event for entry in entries if not is_trusted(user_config, path, entry)]
        if not untrusted:
            return status
        notified = "; until then, notify reports the end of turns" if is_own(list_in(user_config, "notify")) else ""
        detail = f"start codex, type /hooks and trust {', '.join(dict.fromkeys(untrusted))}{notified}"
        return status._replace(state=UNTRUSTED, detail=detail)

    def advice(self, environment: Environment, project: bool) -> list[str]:
        status = self.status(environment, project)
        notes = [status.detail] if status.state in (UNTRUSTED, DISABLED, UNREADABLE) and status.detail else []
        config = _read_toml(self._paths(environment, False)[1])
        if not _may_set_notify(config):
            notes.append("notify in config.toml starts another program and was not changed: until you trust the hooks, "
                         "Codex sends nothing to Holdfast")  # fmt: skip
        return notes

    def _paths(self, environment: Environment, project: bool) -> tuple[Path, Path]:
        hooks = HOOKS_JSON.path(environment, project)
        return hooks, hooks.with_name("config.toml")

    def _is_in_toml(self, config: Path) -> bool:
        """Whether config.toml already has hooks. Codex warns about hooks in both files."""
        hooks = _read_toml(config).get("hooks")
        return isinstance(hooks, dict) and any(isinstance(groups, list) and groups for groups in hooks.values())

    def _add(
        self, environment: Environment, config: Path, raw: bytes | None, tools: bool | None, in_toml: bool, notify: bool
    ) -> bytes | None:
        text, bom = _split(config, raw)
        try:
            changed = text
            if notify and _may_set_notify(config_toml.load(text)):
                changed = config_toml.set_notify(changed, environment.command("codex", guarded=False))
            if in_toml:
                handlers = HOOKS_JSON.handlers(environment, config_toml.load(text), tools)
                changed = config_toml.set_hooks(changed, handlers, HOOKS_JSON.is_own)
        except Refused as error:
            raise Refused(f"{config}: {error.message}; file not changed") from None
        return raw if changed == text else (bom + changed).encode()

    def _remove(self, config: Path, raw: bytes | None) -> bytes | None:
        text, bom = _split(config, raw)
        try:
            changed = config_toml.set_hooks(text, {}, HOOKS_JSON.is_own)
            if is_own(list_in(config_toml.load(text), "notify")):
                changed = config_toml.set_notify(changed, None)
        except Refused as error:
            raise Refused(f"{config}: {error.message}; file not changed") from None
        return raw if changed == text else (bom + changed).encode()


INSTALL = CodexHookConfig()


def _is_disabled(config: Mapping[str, Json]) -> bool:
    features = config.get("features")
    return isinstance(features, dict) and features.get("hooks") is False


def _may_set_notify(config: Mapping[str, Json]) -> bool:
    """Codex has one `notify`. The user's own program in it is not replaced."""
    return not config.get("notify") or is_own(list_in(config, "notify"))


def _split(path: Path, raw: bytes | None) -> tuple[str, str]:
    """The text of a file, and its byte order mark or an empty string."""
    text = decode(path, raw)
    body = text.removeprefix(BOM)
    return body, text[: len(text) - len(body)]


def _read_toml(path: Path) -> JsonObject:
    try:
        return config_toml.load(_split(path, read(path))[0])
    except Refused as error:
        message = error.message
        raise Refused(
            message if str(path) in message else f"{path}: {message}; file not changed, fix it first"
        ) from None
