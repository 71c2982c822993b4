"""A stand-in for an agent CLI in a terminal: raw mode, bracketed paste, an input box, hooks through the real receiver.

It looks like Claude Code and obeys the same keys, and it can be made to misbehave: be slow to start, be busy, ignore a
key, confirm late, or open a permission question at any moment. What happens to it is written to a log.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import termios
import threading
import time
import tty
from pathlib import Path
from typing import Any

RULE = "─" * 60
LONG_TEXT, LONG_LINES = 800, 10
PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"


class StandIn:
    """The program. `control` receives one JSON object per datagram, `log` gets one JSON object per line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.chance = random.Random(options.mischief)
        self.box, self.history = "", [""]
        self.pastes = 0
        self.question = self.busy = self.ask_on_paste = False
        self.swallow, self.lose, self.late_s, self.ask_after_s = 0, 0, 0.0, 0.0
        self.pending = b""
        self.timers: list[tuple[float, str]] = []
        self.lock = threading.Lock()

    def run(self) -> None:
        time.sleep(self.options.slow)
        before = termios.tcgetattr(0)
        tty.setraw(0)
        control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.options.control)
        control.bind(self.options.control)
        self.write("\x1b[?2004h\x1b]2;✳ Claude Code\x07")
        self.hook("SessionStart", source=self.options.source)
        self.draw()
        self.log(started=os.getpid())
        try:
            while self.step(control):
                pass
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
            self.write("\x1b[?2004l")

    def step(self, control: socket.socket) -> bool:
        wait = max(0.0, min((at for at, _ in self.timers), default=time.monotonic() + 60) - time.monotonic())
        readable, _, _ = select.select([0, control.fileno()], [], [], wait)
        if control.fileno() in readable and not self.obey(json.loads(control.recv(65536))):
            return False
        if 0 in readable:
            chunk = os.read(0, 65536)
            if not chunk:
                return False
            self.take(chunk)
        for at, what in [timer for timer in self.timers if timer[0] <= time.monotonic()]:
            self.timers.remove((at, what))
            self.obey({"do": what})
        return True

    def obey(self, command: dict[str, Any]) -> bool:
        match command["do"]:
            case "ask":
                self.question = True
                self.log(asked=True)
            case "answer":
                self.question = False
            case "busy" | "idle":
                self.busy = command["do"] == "busy"
                if not self.busy:
                    self.hook("Stop", last_assistant_message="done")
            case "swallow":
                self.swallow = command["count"]
            case "late":
                self.late_s = command["seconds"]
            case "ask_on_paste":
                self.ask_on_paste = True
            case "ask_after_paste":
                self.ask_after_s = command["seconds"]
            case "type":
                self.box += command["text"]
            case "clear":
                self.box = ""
            case "lose":
                self.lose = command["count"]
            case "clear_session":
                self.hook("SessionEnd", reason="clear")
                self.options.session = command["session"]
                self.hook("SessionStart", source="clear")
            case "quit":
                self.hook("SessionEnd", reason="prompt_input_exit")
                return False
        self.draw()
        return True

    def take(self, chunk: bytes) -> None:
        self.pending += chunk
        while self.pending:
            if self.pending.startswith(PASTE_BEGINS):
                end = self.pending.find(PASTE_ENDS)
                if end < 0:
                    return
                text, self.pending = self.pending[len(PASTE_BEGINS) : end], self.pending[end + len(PASTE_ENDS) :]
                self.paste(text.decode("utf-8", "surrogateescape"))
            elif PASTE_BEGINS.startswith(self.pending[: len(PASTE_BEGINS)]):
                return
            elif self.pending[:1] == b"\x18":
                if len(self.pending) < 2:
                    return
                chord, self.pending = self.pending[:2], self.pending[2:]
                self.key("chord" if chord == b"\x18\x13" else "other")
            else:
                key, self.pending = self.pending[:1], self.pending[1:]
                self.key("enter" if key == b"\r" else key.decode("latin-1"))
        self.draw()

    def paste(self, text: str) -> None:
        self.log(pasted=text, pasted_at=time.time())
        if self.ask_on_paste:
            self.ask_on_paste = False
            self.question = True
            self.log(asked=True)
        if self.question:
            if text.isdigit() and len(text) == 1:
                self.approve("a pasted digit")
            return
        self.misbehave()
        self.box += text
        if self.ask_after_s:
            self.timers.append((time.monotonic() + self.ask_after_s, "ask"))
            self.ask_after_s = 0.0

    def misbehave(self) -> None:
        if not self.options.mischief:
            return
        match self.chance.randrange(40):
            case 0:
                self.swallow = 1
            case 1:
                self.late_s = self.chance.random()
            case 2:
                now = time.monotonic()
                self.timers += [(now + self.chance.random() / 10, "ask"), (now + 0.5, "answer")]
            case 3:
                self.busy = True
                self.timers.append((time.monotonic() + 0.4, "idle"))

    def key(self, name: str) -> None:
        if self.question:
            if name in ("enter", "1", "2", "y"):
                self.approve(name)
            return
        if name not in ("enter", "chord"):
            if name.isprintable():
                self.box += name
                self.log(typed=name)
            return
        if name == "chord" and self.busy:
            self.log(interrupted=True)
        if self.swallow:
            self.swallow -= 1
            self.log(swallowed=name)
        elif self.lose:
            self.lose -= 1
            self.log(lost=self.box)
            self.box = ""
        elif self.box.strip():
            self.submit()

    def submit(self) -> None:
        prompt, self.box = self.box.strip(), ""
        self.history.append("❯ " + prompt.splitlines()[0][:60])
        late_s, self.late_s = self.late_s, 0.0
        self.log(prompt=prompt)
        self.draw()
        if late_s:
            threading.Thread(target=self.confirm, args=(prompt, late_s), daemon=True).start()
        else:
            self.confirm(prompt, 0.0)

    def confirm(self, prompt: str, late_s: float) -> None:
        time.sleep(late_s)
        with self.lock:
            self.hook("UserPromptSubmit", prompt=prompt)
            if not self.busy and not self.options.quiet:
                self.hook("Stop", last_assistant_message="done")

    def approve(self, how: str) -> None:
        self.question = False
        self.log(approved=how)

    def hook(self, event: str, **fields: Any) -> None:
        given = {"session_id": self.options.session, "cwd": os.getcwd(), "hook_event_name": event, **fields}
        command = [*self.options.receiver.split("\x1f"), "--agent", "claude", "--home", self.options.home]
        subprocess.run(command, input=json.dumps(given).encode(), check=True, timeout=60)

    def log(self, **what: Any) -> None:
        with Path(self.options.log).open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps(what) + "\n")

    def draw(self) -> None:
        lines = [*self.history[-5:], ""]
        if self.question:
            lines += ["Bash command", "", " Do you want to proceed?", " ❯ 1. Yes", "   2. No", "", " Esc to cancel"]
        else:
            lines += [RULE, *self.shown_box(), RULE, "  ? for shortcuts"]
        if self.busy:
            lines.append("  esc to interrupt")
        self.write("\x1b[H\x1b[2J" + "\r\n".join(lines))

    def shown_box(self) -> list[str]:
        lines = self.box.split("\n")
        if len(self.box) > LONG_TEXT or len(lines) > LONG_LINES:
            lines = [f"[Pasted text #1 +{len(lines)} lines]"]
        return ["❯\u00a0" + lines[0], *("  " + line for line in lines[1:])]

    def write(self, text: str) -> None:
        os.write(1, text.encode("utf-8", "surrogateescape"))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("home", "session", "log", "control", "receiver"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--source", default="startup")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--mischief", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="no Stop hook after a prompt")
    for number in (signal.SIGINT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    StandIn(parser.parse_args()).run()


if __name__ == "__main__":
    main()
