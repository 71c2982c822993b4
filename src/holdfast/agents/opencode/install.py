"""Hook config of OpenCode: it has plugins instead of command hooks. Ours is one small file that runs the receiver.

The plugin starts the receiver, passes it the event and does not wait for it. It catches all errors, because an
exception in a plugin would break the agent.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.agents.install.environment import Environment, find_missing, is_own
from holdfast.agents.install.files import Refused, decode, read
from holdfast.agents.install.hook_config import INSTALLED, NOT_INSTALLED, STALE, UNREADABLE, HookFile, HookStatus

MARK = "// Written by `holdfast hooks install`; changes are lost. Remove it with: holdfast hooks uninstall"
LIFECYCLE = (
    "session.created", "chat.message", "session.idle", "session.error", "permission.updated", "session.compacted",
    "session.deleted",
)  # fmt: skip
TOOLS = ("tool.execute.before", "tool.execute.after")

_COMMAND = re.compile(r"^const command = (\[.*\])$", re.MULTILINE)
_EVENTS = re.compile(r"^const events = (\[.*\])$", re.MULTILINE)

_PLUGIN = """\
%(mark)s
import { spawn } from "node:child_process"

const command = %(command)s
const events = %(events)s

// Title and last answer of each session, sent when its turn ends.
const sessions = new Map()
const answers = new Set()

function remember(event) {
  const { info, part } = event.properties ?? {}
  if (event.type === "session.updated" && info?.id) update(info.id, { title: info.title })
  if (event.type === "message.updated" && info?.role === "assistant") {
    if (answers.size >= 1000) answers.clear()
    answers.add(info.id)
  }
  if (event.type === "message.part.updated" && part?.type === "text" && answers.has(part.messageID))
    update(part.sessionID, { answer: part.text })
  if (event.type === "session.deleted") sessions.delete(info?.id)
}

function update(session, values) {
  const before = sessions.get(session)
  if (!before && sessions.size >= 100) sessions.delete(sessions.keys().next().value)
  sessions.set(session, { ...before, ...values })
}

function remembered(event) {
  return event.type === "session.idle" ? sessions.get(event.properties?.sessionID) : {}
}

function send(event, payload) {
  if (!events.includes(event)) return
  try {
    const child = spawn(command[0], [...command.slice(1), event], { stdio: ["pipe", "ignore", "ignore"] })
    child.on("error", () => {})
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
    child.unref()
  } catch {}
}

export const Holdfast = async ({ directory }) => ({
  event: async ({ event }) => {
    try {
      remember(event)
      send(event.type, { hook_event_name: event.type, cwd: directory, ...event, ...remembered(event) })
    } catch {}
  },
  "chat.message": async (input, output) =>
    send("chat.message", { hook_event_name: "chat.message", cwd: directory, ...input, ...output }),
  "tool.execute.before": async (input, output) =>
    send("tool.execute.before", { hook_event_name: "tool.execute.before", cwd: directory, ...input, ...output }),
  "tool.execute.after": async (input, output) =>
    send("tool.execute.after", { hook_event_name: "tool.execute.after", cwd: directory, ...input, ...output }),
})
"""


@dataclass(frozen=True, slots=True)
class OpenCodeHookConfig:
    """Our plugin file."""

    programs: tuple[str, ...] = ("opencode",)

    def is_found(self, environment: Environment) -> bool:
        return self._folder(environment).is_dir() or environment.has_program(*self.programs)

    def files(self, environment: Environment, project: bool) -> list[HookFile]:
        path = self._path(environment, project)
        return [HookFile(path, lambda raw, tools: self._add(environment, path, raw, tools), lambda raw: _remove(raw))]

    def status(self, environment: Environment, project: bool) -> HookStatus:
        path = self._path(environment, project)
        try:
            raw = read(path)
        except Refused as error:
            return HookStatus(UNREADABLE, path, error.message)
        if raw is None or not _is_ours(raw):
            return HookStatus(NOT_INSTALLED, path)
        events = tuple(_list(_EVENTS, raw))
        words = _list(_COMMAND, raw)
        missing = find_missing(words) if is_own(words) else "its receiver"
        if missing is not None:
            return HookStatus(STALE, path, f"{missing} does not exist; run: holdfast hooks install", events)
        return HookStatus(INSTALLED, path, None, events)

    def advice(self, environment: Environment, project: bool) -> list[str]:
        return []

    def _folder(self, environment: Environment) -> Path:
        return environment.folder("XDG_CONFIG_HOME", ".config") / "opencode"

    def _path(self, environment: Environment, project: bool) -> Path:
        folder = environment.project / ".opencode" if project else self._folder(environment)
        return folder / "plugin" / "holdfast.js"

    def _add(self, environment: Environment, path: Path, raw: bytes | None, tools: bool | None) -> bytes:
        if raw is not None and raw.strip() and not _is_ours(raw):
            raise Refused(f"{path} was not written by holdfast; file not changed")
        if tools is None:
            tools = raw is not None and any(event in TOOLS for event in _list(_EVENTS, raw))
        command, events = environment.command("opencode", guarded=False), LIFECYCLE + (TOOLS if tools else ())
        values = {"mark": MARK, "command": json.dumps(command), "events": json.dumps(events)}
        return (_PLUGIN % values).encode()


INSTALL = OpenCodeHookConfig()


def _remove(raw: bytes | None) -> bytes | None:
    return None if raw is not None and _is_ours(raw) else raw


def _is_ours(raw: bytes) -> bool:
    return raw.startswith(MARK.encode())


def _list(pattern: re.Pattern[str], raw: bytes) -> list[str]:
    match = pattern.search(decode(Path("holdfast.js"), raw))
    try:
        items = json.loads(match[1]) if match else []
    except ValueError:
        return []
    return [item for item in items if isinstance(item, str)]
