"""Warnings about hooks that are installed but that their agent CLI does not run: not trusted yet, or disabled."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.agents.install.environment import Environment, this_environment
from holdfast.agents.install.hook_config import DISABLED, UNTRUSTED
from holdfast.agents.install.installer import Installer
from holdfast.home import Home
from holdfast.ports import Clock

FRESH_MS = 60_000


class IdleHooks:
    """Reads the config files of the agent CLIs at most once a minute."""

    def __init__(self, home: Home, clock: Clock, environment: Callable[[], Environment] = this_environment) -> None:
        self._home, self._clock, self._environment = home, clock, environment
        self._found: tuple[int, list[str]] | None = None

    def warnings(self) -> list[str]:
        now_ms = self._clock.boot_ms()
        if self._found is None or now_ms - self._found[0] > FRESH_MS:
            self._found = now_ms, self._read()
        return self._found[1]

    def _read(self) -> list[str]:
        try:
            agents = Installer(self._environment(), self._home).status().agents
        except OSError:  # such as a folder of another user; doctor reports it
            return []
        return [
            f"the hooks of {agent.agent} are {agent.state}: {agent.detail}"
            for agent in agents
            if agent.state in (UNTRUSTED, DISABLED)
        ]
