"""The daemon as a user service: a systemd user unit on Linux, a launchd agent on macOS.

The file holds interpreter, home and restart rules. If the service manager does not respond, the answer contains the
commands to type. A file of the same name that Holdfast did not write is not changed.
"""

from __future__ import annotations

import os
import plistlib
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from holdfast.agents.install.answers import InstalledService, RemovedService, ServiceStatus
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.files import Change, Refused, apply, prune, read, show_diff
from holdfast.agents.install.service_variables import NAME, ServiceVariables
from holdfast.domain.errors import HoldfastError, NotFound
from holdfast.home import Home

UNIT = "holdfast.service"
LABEL = "holdfast"
MARK = "Written by `holdfast service install`"
CALL_S = 30.0
STOP_S = 60  # longer than the daemon's own grace time

_UNIT = """\
# {mark}; changes are lost when it is installed again.
[Unit]
Description=Holdfast, which keeps every message until it has arrived
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
{environment}
EnvironmentFile=-{file}
Restart=on-failure
RestartSec=2
TimeoutStopSec={stop}
KillMode=mixed
UMask=0077
# No private /tmp and no hidden home: terminals' sockets and the agents' transcripts are there.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes

[Install]
WantedBy=default.target
"""


_SHELL = 'set -a; [ ! -r "$1" ] || . "$1"; set +a; shift; exec "$@"'
"""launchd has no file for variables: this reads it and becomes the daemon."""


class NoManager(HoldfastError):
    """The service manager does not respond."""


class Step(NamedTuple):
    """The result of a step with the service manager. `running` is None if it does not respond."""

    running: bool | None
    notes: list[str]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """Installs and removes the service, and reports its status."""

    environment: Environment
    home: Home

    @property
    def variables(self) -> ServiceVariables:
        return ServiceVariables(self.home.root / NAME)

    def install(self, values: Mapping[str, str] | None = None) -> InstalledService:
        """Write the files and start the service. `values`: its variables; None leaves those of the last time."""
        path = self._path()
        change = Change(path, self._read_own(path), self._text())
        if not change.is_none:
            apply(change)
            prune(path, (), 0)
        diff = show_diff(change)
        changed = (values is not None and self.variables.write(values)) or not change.is_none
        step = self._run_step(self._start, changed, self._by_hand())
        names = sorted(self.variables.read())
        return InstalledService(str(path), diff, changed, step.running, step.notes, step.failed, names)

    def uninstall(self) -> RemovedService:
        path = self._path()
        raw = self._read_own(path)
        if raw is None:
            return RemovedService(str(path), changed=False, running=None, notes=["no service is installed"])
        step = self._run_step(self._stop, True, [])
        apply(Change(path, raw, None))
        self.variables.remove()
        prune(path, (), 0)
        link = path.parent / "default.target.wants" / UNIT
        if link.is_symlink() and not link.exists():  # left over: it was enabled, and no service manager disabled it
            link.unlink()
        if self._is_linux and step.running is not None:
            self._call("systemctl", "--user", "daemon-reload")
        return RemovedService(str(path), changed=True, running=step.running, notes=step.notes, failed=step.failed)

    def status(self) -> ServiceStatus:
        path = self._path()
        raw = read(path)
        state = "not installed" if raw is None else "installed"
        notes = []
        if raw is not None and MARK.encode() not in raw:
            notes.append(f"{path} was not written by holdfast")
        elif raw is not None and raw != self._text():
            state, notes = "outdated", ["the file differs from what would be installed; run: holdfast service install"]
        return ServiceStatus(str(path), state, self._is_running(), notes)

    @property
    def _is_linux(self) -> bool:
        return self.environment.platform.startswith("linux")

    def _path(self) -> Path:
        if self.environment.platform == "darwin":
            return self.environment.home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        if self._is_linux:
            return self.environment.folder("XDG_CONFIG_HOME", ".config") / "systemd" / "user" / UNIT
        raise NotFound(f"no service manager is supported on {self.environment.platform}; run: holdfast up")

    def _read_own(self, path: Path) -> bytes | None:
        raw = read(path)
        if raw is not None and MARK.encode() not in raw:
            raise Refused(f"{path} was not written by holdfast; file not changed")
        return raw

    def _text(self) -> bytes:
        return self._unit() if self._is_linux else self._plist()

    def _command(self) -> list[str]:
        return [self.environment.python, "-P", "-m", "holdfast", "up"]

    def _variables(self) -> dict[str, str]:
        """The daemon's variables. Never the store's URL, because it may contain a password."""
        given = {"HOLDFAST_HOME": str(self.home.root)}
        if config := self.environment.env.get("HOLDFAST_CONFIG"):
            given["HOLDFAST_CONFIG"] = str(Path(config).expanduser().absolute())
        return given

    def _unit(self) -> bytes:
        command = " ".join(_quote(word).replace("$", "$$") for word in self._command())
        variables = "\n".join(f"Environment={_quote(f'{name}={value}')}" for name, value in self._variables().items())
        file = _escape_glob(str(self.variables.path)).replace("%", "%%")
        return _UNIT.format(mark=MARK, command=command, environment=variables, file=file, stop=STOP_S).encode()

    def _plist(self) -> bytes:
        log = str(self.home.root / "service.log")
        path = self.environment.env.get("PATH", os.defpath)  # launchd's own has no Homebrew, where tmux usually is
        return plistlib.dumps(
            {
                "Label": LABEL,
                "ProgramArguments": ["/bin/sh", "-c", _SHELL, "holdfast", str(self.variables.path), *self._command()],
                "EnvironmentVariables": {**self._variables(), "PATH": path},
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "ThrottleInterval": 10,
                "ExitTimeOut": STOP_S,
                "Umask": 0o077,
                "StandardOutPath": log,
                "StandardErrorPath": log,
            }
        ).replace(b"<plist ", f"<!-- {MARK}; changes are lost when it is installed again. -->\n<plist ".encode(), 1)

    def _run_step(self, step: Callable[[bool], list[str]], changed: bool, by_hand: list[str]) -> Step:
        """Run a step with the service manager. If it does not respond, return the commands to type."""
        try:
            notes = step(changed)
        except NoManager as error:
            return Step(None, [error.message, *by_hand], failed=True)
        return Step(self._is_running(), notes)

    def _start(self, changed: bool) -> list[str]:
        if not self._is_linux:
            if changed and self._is_running() is not None:
                self._call("launchctl", "bootout", f"{self._domain()}/{LABEL}")
            if changed or not self._is_running():
                self._require("launchctl", "bootstrap", self._domain(), str(self._path()))
            return []
        self._require("systemctl", "--user", "daemon-reload")
        self._require("systemctl", "--user", "enable", UNIT)
        self._require("systemctl", "--user", "restart" if changed else "start", UNIT)
        return ["it starts when you log in; to start it at boot: loginctl enable-linger"]

    def _stop(self, changed: bool) -> list[str]:
        if self._is_linux:
            self._require("systemctl", "--user", "disable", "--now", UNIT)
        else:
            self._call("launchctl", "bootout", f"{self._domain()}/{LABEL}")
        return []

    def _is_running(self) -> bool | None:
        """None: unknown."""
        try:
            if self._is_linux:
                said = self._call("systemctl", "--user", "is-active", UNIT).stdout.strip()
                return said == "active" if said else None
            done = self._call("launchctl", "print", f"{self._domain()}/{LABEL}")
            return "state = running" in done.stdout if done.returncode == 0 else None
        except NoManager:
            return None

    def _by_hand(self) -> list[str]:
        if self._is_linux:
            return [f"when systemd responds, run: systemctl --user enable --now {UNIT}"]
        return [f"when launchd responds, run: launchctl bootstrap {self._domain()} {self._path()}"]

    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    def _require(self, *words: str) -> None:
        done = self._call(*words)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()[:1]
            raise NoManager(f"{' '.join(words)} failed: {said[0][:200] if said else f'exit {done.returncode}'}")

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                words, capture_output=True, text=True, timeout=CALL_S, check=False, stdin=subprocess.DEVNULL,
                env=dict(self.environment.env), errors="replace",
            )  # fmt: skip
        except FileNotFoundError:
            raise NoManager(f"{words[0]} is not installed") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoManager(f"{words[0]} does not respond ({type(error).__name__})") from None


def _escape_glob(path: str) -> str:
    """A path for a setting of systemd that takes patterns."""
    return re.sub(r"([*?\[\\])", r"\\\1", path)


def _quote(text: str) -> str:
    r"""A word quoted for systemd.

    >>> _quote('/home/a "b"/100%')
    '"/home/a \\"b\\"/100%%"'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"'
