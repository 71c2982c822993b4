"""What runs in the pane from which a hook came: the name of the program and, if it can be found, its version.

After a crash the agent's last picture and title stay in the pane while a shell reads the input. Only the program's name
tells, so it is kept with the session and compared before every paste.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from holdfast.agents.hooks.hook import Hook
from holdfast.agents.messages.tmux import Pane, Tmux, TmuxError
from holdfast.agents.messages.tmux_adapter import SHELLS
from holdfast.domain.json_value import JsonObject
from holdfast.ports import in_thread

RECENT_MS = 10_000
FOLDERS_MAX = 4
PACKAGE_BYTES_MAX = 1 << 20

INTERPRETERS = ("node", "bun", "deno")
_FOREGROUND = 5  # `tpgid` in `/proc/PID/stat`, counted after the name
_VERSION = re.compile(r"\d+(?:\.\d+){1,4}")


async def read_pane_facts(hook: Hook, now_ms: int, host: str) -> JsonObject:
    """`pane_command` and `agent_version`. A command of None: an old hook, another host, or a shell."""
    if hook.pane is None or hook.tmux is None or hook.host not in (None, host) or now_ms - hook.at_ms > RECENT_MS:
        return {"pane_command": None}
    try:
        screen = await Tmux(hook.tmux).look(Pane(hook.tmux, hook.pane))
    except TmuxError:
        return {"pane_command": None}
    other_server = hook.tmux_server is not None and screen.server != hook.tmux_server
    if not screen.command or screen.dead or other_server or screen.command in SHELLS:
        return {"pane_command": None}
    version = await in_thread("files", lambda: read_version(screen.process))
    return {"pane_command": screen.command, **({} if version is None else {"agent_version": version})}


def read_version(pane_process: int) -> str | None:
    """The version of the program that reads a terminal: the name of its file, or the package that it belongs to.

    `pane_process` is any process of that terminal. The parent of a hook would not do: a CLI runs its hooks in a shell.
    Only systems with `/proc` tell which file a process runs.
    """
    if pane_process <= 0:
        return None
    try:
        program = _program(_reader(pane_process))
        if _VERSION.fullmatch(program.name):
            return program.name
        for folder in list(program.parents)[:FOLDERS_MAX]:
            package = folder / "package.json"
            if package.is_file() and package.stat().st_size <= PACKAGE_BYTES_MAX:
                version = json.loads(package.read_bytes()).get("version")
                return version if isinstance(version, str) and _VERSION.fullmatch(version) else None
    except (OSError, ValueError, AttributeError, IndexError, StopIteration):
        pass
    return None


def _reader(process: int) -> int:
    """The leader of the process group that reads the terminal of a process."""
    fields = Path(f"/proc/{process:d}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    return int(fields[_FOREGROUND])


def _program(process: int) -> Path:
    """The file that a process runs; of an interpreter, the script."""
    program = Path(f"/proc/{process:d}/exe").readlink()
    if program.name not in INTERPRETERS:
        return program
    words = Path(f"/proc/{process:d}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    script = next(word for word in words[1:] if word and not word.startswith("-"))
    return (Path(f"/proc/{process:d}/cwd").readlink() / script).resolve()
