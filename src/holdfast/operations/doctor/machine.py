"""Checks of the machine: the clock, tmux and the system service."""

from __future__ import annotations

import re
import subprocess

from holdfast.agents.install.environment import Environment
from holdfast.agents.install.service import Service
from holdfast.home import Home
from holdfast.operations.doctor.finding import Finding, ok, warn
from holdfast.operations.elapsed import span

TMUX_LEAST = (3, 0)
TMUX_S = 5.0
AHEAD_MS = 60_000

_VERSION = re.compile(r"(\d+)\.(\d+)")


def check_tmux(environment: Environment) -> list[Finding]:
    """Messages are pasted into agents that run in tmux."""
    program = environment.find_program("tmux")
    if program is None:
        return [ok("machine.tmux", "tmux is not installed: messages cannot be typed into agent sessions")]
    try:
        done = subprocess.run([program, "-V"], capture_output=True, timeout=TMUX_S, stdin=subprocess.DEVNULL, cwd="/")
    except (OSError, subprocess.SubprocessError) as error:
        return [warn("machine.tmux", f"{program} does not run: {error}", "reinstall tmux")]
    text = done.stdout[:200].decode("utf-8", "replace").strip()
    found = _VERSION.search(text)
    if found is None:
        return [ok("machine.tmux", f"{text or program}: its version is unknown")]
    if (int(found[1]), int(found[2])) < TMUX_LEAST:
        least = ".".join(map(str, TMUX_LEAST))
        return [warn("machine.tmux", f"{text} is older than {least}", "install a newer tmux")]
    return [ok("machine.tmux", text)]


def judge_clock(newest_ms: int | None, now_ms: int) -> Finding:
    """A newest event from the future shows that the clock was set back, or that another machine's clock is ahead."""
    ahead_ms = 0 if newest_ms is None else newest_ms - now_ms
    if ahead_ms > AHEAD_MS:
        text = f"the newest event was accepted {span(ahead_ms / 1000)} in the future: a clock is wrong"
        return warn("machine.clock", text, "synchronize the clocks (NTP) of this machine and of the database")
    return ok("machine.clock", "the clock agrees with the newest event")


def check_service(environment: Environment, home: Home, alive: bool) -> list[Finding]:
    """The system service, if it is installed."""
    service = Service(environment, home).status()
    if service.state == "not installed":
        return [ok("service", "the daemon is not installed as a service", "to start it with the machine, run: "
                   "holdfast service install")]  # fmt: skip
    if service.running is None:
        return [ok("service", f"{service.path}: the service manager does not respond")]
    if not service.running and not alive:
        return [warn("service", f"{service.path} is installed, but the service does not run",
                     "run: holdfast service install")]  # fmt: skip
    return [ok("service", f"{service.path}: {service.state}")]
