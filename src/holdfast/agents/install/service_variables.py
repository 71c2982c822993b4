"""The environment variables of the service, in a file in the home that only its owner can read.

systemd reads it as an `EnvironmentFile`; under launchd a shell does. Both understand `NAME="value"` with backslashes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.home import write_secret

NAME = "service.env"
_HEAD = "# Variables of the service. Written by `holdfast service install`; restart the service after a change."
_SPECIAL = re.compile(r'(["\\$`])')
_LINE = re.compile(r'^([A-Za-z_][A-Za-z0-9_]*)=(?:"((?:[^"\\]|\\.)*)"|([^"\s]*))$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ServiceVariables:
    path: Path

    def read(self) -> dict[str, str]:
        """The variables in the file; none if there is no file."""
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return {}
        return {
            match[1]: match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL)
            for match in _LINE.finditer(text)
        }

    def write(self, values: Mapping[str, str]) -> bool:
        """Replace the variables; returns whether anything changed."""
        if values == self.read():
            return False
        lines = [f'{name}="{_SPECIAL.sub(_ESCAPE, value)}"' for name, value in sorted(values.items())]
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(self.path, "\n".join([_HEAD, *lines]))
        return True

    def remove(self) -> bool:
        if not self.path.exists():
            return False
        self.path.unlink()
        return True


_ESCAPE = r"\\\1"
