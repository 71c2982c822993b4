// Written by `holdfast hooks install`; changes are lost. Remove it with: holdfast hooks uninstall
import { spawn } from "node:child_process"

const command = ["/opt/holdfast/bin/python", "-I", "-S", "/opt/holdfast/lib/holdfast/agents/receiver/receiver.py", "--agent", "opencode"]
const events = ["session.created", "chat.message", "session.idle", "session.error", "permission.updated", "session.compacted", "session.deleted"]

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
