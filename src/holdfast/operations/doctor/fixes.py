"""Repairs that `holdfast doctor --fix` makes. Each is safe: it removes access or rewrites our own entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.agents.install.environment import Environment
from holdfast.agents.install.installer import Installer
from holdfast.home import Home
from holdfast.operations.doctor.finding import Finding

AGENT = "agent."


def apply_fixes(findings: Iterable[Finding], home: Home, environment: Environment) -> list[str]:
    """Repair what can be repaired safely. Returns a sentence for each repair."""
    done: list[str] = []
    for finding in findings:
        fix = None if finding.level == "ok" else _fix_for(finding.id, home, environment)
        if fix is not None and (text := fix()) is not None:
            done.append(text)
    return list(dict.fromkeys(done))


def _fix_for(id: str, home: Home, environment: Environment) -> Callable[[], str | None] | None:
    if id == "home.permissions":
        return lambda: _close_folder(home)
    if id == "home.secrets":
        return lambda: _close_files(home)
    if id.startswith(AGENT):
        return lambda: _install_hooks(id.removeprefix(AGENT), home, environment)
    return None


def _close_folder(home: Home) -> str | None:
    if not home.root.is_dir():
        return None
    home.root.chmod(0o700)
    return f"set the mode of {home.root} to 0700"


def _close_files(home: Home) -> str | None:
    files = [home.token, home.config, *home.root.glob(f"{home.database.name}*")]
    opened = [path for path in files if path.is_file() and path.stat().st_mode & 0o077]
    for path in opened:
        path.chmod(0o600)
    return f"set the mode of {', '.join(map(str, opened))} to 0600" if opened else None


def _install_hooks(agent: str, home: Home, environment: Environment) -> str | None:
    """Rewrite hooks of ours that are stale or incomplete. What only the user can do (trust, settings) stays."""
    (change,) = Installer(environment, home).install([agent]).agents
    return f"installed the hooks of {agent} again" if change.result == "changed" else None
