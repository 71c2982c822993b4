// Written by `holdfast hooks install`; changes are lost. Remove it with: holdfast hooks uninstall
import { spawn } from "node:child_process"

const command = ["/opt/holdfast/bin/python", "-I", "-S", "/opt/holdfast/lib/holdfast/ingress/hook/receiver.py", "--agent", "opencode"]
const events = ["session.created", "chat.message", "session.idle", "session.error", "permission.updated", "session.compacted", "session.deleted"]

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
  event: async ({ event }) => tell(event.type, { hook_event_name: event.type, cwd: directory, ...event }),
  "chat.message": async (input, output) =>
    tell("chat.message", { hook_event_name: "chat.message", cwd: directory, ...input, ...output }),
  "tool.execute.before": async (input, output) =>
    tell("tool.execute.before", { hook_event_name: "tool.execute.before", cwd: directory, ...input, ...output }),
  "tool.execute.after": async (input, output) =>
    tell("tool.execute.after", { hook_event_name: "tool.execute.after", cwd: directory, ...input, ...output }),
})
