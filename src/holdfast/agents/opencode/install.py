"""OpenCode: no command hooks, but plugins; ours is one small file that runs the receiver.

The plugin waits for nothing: it starts the receiver, hands it the event and goes on. An error of it is swallowed, since
an exception in a plugin would be the agent's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.agents.install.environment import Environment, find_gone, is_own
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

// What each session was last called and what it last said, told when its turn ends.
const known = new Map()
const written = new Set()

function remember(event) {
  const { info, part } = event.properties ?? {}
  if (event.type === "session.updated" && info?.id) note(info.id, { title: info.title })
  if (event.type === "message.updated" && info?.role === "assistant") {
    if (written.size >= 1000) written.clear()
    written.add(info.id)
  }
  if (event.type === "message.part.updated" && part?.type === "text" && written.has(part.messageID))
    note(part.sessionID, { answer: part.text })
  if (event.type === "session.deleted") known.delete(info?.id)
}

function note(session, told) {
  const before = known.get(session)
  if (!before && known.size >= 100) known.delete(known.keys().next().value)
  known.set(session, { ...before, ...told })
}

function told(event) {
  return event.type === "session.idle" ? known.get(event.properties?.sessionID) : {}
}

function tell(event, payload) {
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
      tell(event.type, { hook_event_name: event.type, cwd: directory, ...event, ...told(event) })
    } catch {}
  },
  "chat.message": async (input, output) =>
    tell("chat.message", { hook_event_name: "chat.message", cwd: directory, ...input, ...output }),
  "tool.execute.before": async (input, output) =>
    tell("tool.execute.before", { hook_event_name: "tool.execute.before", cwd: directory, ...input, ...output }),
  "tool.execute.after": async (input, output) =>
    tell("tool.execute.after", { hook_event_name: "tool.execute.after", cwd: directory, ...input, ...output }),
})
"""


@dataclass(frozen=True, slots=True)
class OpenCode:
    name: str = "opencode"
    programs: tuple[str, ...] = ("opencode",)

    def is_found(self, environment: Environment) -> bool:
        return self._folder(environment).is_dir() or environment.has_program(*self.programs)

    def targets(self, environment: Environment, project: bool) -> list[HookFile]:
        path = self._path(environment, project)
        return [HookFile(path, lambda raw, tools: self._wire(environment, path, raw, tools), lambda raw: _unwire(raw))]

    def look(self, environment: Environment, project: bool) -> HookStatus:
        path = self._path(environment, project)
        try:
            raw = read(path)
        except Refused as error:
            return HookStatus(UNREADABLE, path, error.message)
        if raw is None or not _is_ours(raw):
            return HookStatus(NOT_INSTALLED, path)
        events = tuple(_list(_EVENTS, raw))
        words = _list(_COMMAND, raw)
        gone = find_gone(words) if is_own(words) else "its receiver"
        if gone is not None:
            return HookStatus(STALE, path, f"{gone} is gone; run: holdfast hooks install", events)
        return HookStatus(INSTALLED, path, None, events)

    def advice(self, environment: Environment, project: bool) -> list[str]:
        return []

    def _folder(self, environment: Environment) -> Path:
        return environment.folder("XDG_CONFIG_HOME", ".config") / "opencode"

    def _path(self, environment: Environment, project: bool) -> Path:
        folder = environment.project / ".opencode" if project else self._folder(environment)
        return folder / "plugin" / "holdfast.js"

    def _wire(self, environment: Environment, path: Path, raw: bytes | None, tools: bool | None) -> bytes:
        if raw is not None and raw.strip() and not _is_ours(raw):
            raise Refused(f"{path} is not a file that holdfast wrote; not touched")
        if tools is None:
            tools = raw is not None and any(event in TOOLS for event in _list(_EVENTS, raw))
        command, events = environment.words("opencode", guarded=False), LIFECYCLE + (TOOLS if tools else ())
        facts = {"mark": MARK, "command": json.dumps(command), "events": json.dumps(events)}
        return (_PLUGIN % facts).encode()


OPENCODE = OpenCode()


def _unwire(raw: bytes | None) -> bytes | None:
    return None if raw is not None and _is_ours(raw) else raw


def _is_ours(raw: bytes) -> bool:
    return raw.startswith(MARK.encode())


def _list(pattern: re.Pattern[str], raw: bytes) -> list[Any]:
    match = pattern.search(decode(Path("holdfast.js"), raw))
    try:
        found = json.loads(match[1]) if match else []
    except ValueError:
        return []
    return [each for each in found if isinstance(each, str)]
