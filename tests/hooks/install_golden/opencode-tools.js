// Written by `holdfast hooks install`; changes are lost. Remove it with: holdfast hooks uninstall
import { spawn } from "node:child_process"

const command = ["/opt/holdfast/bin/python", "-I", "-S", "/opt/holdfast/lib/holdfast/agents/receiver/receiver.py", "--agent", "opencode"]
const events = ["session.created", "chat.message", "session.idle", "session.error", "permission.updated", "session.compacted", "session.deleted", "tool.execute.before", "tool.execute.after"]

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
