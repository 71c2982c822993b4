"""A secret in a file that may be replaced while the daemon runs."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.domain.errors import BadConfig
from holdfast.home import read_secret

LOOK_EVERY_S = 1.0

log = logging.getLogger("holdfast")


class SecretFile:
    """Looks at the file at most once a second, and reads it when it changed.

    A file that is missing or may not be used leaves the secret that was read last in force.
    """

    def __init__(self, path: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self._path, self._now_s = path, now_s
        self._text: str | None = None
        self._seen: tuple[int, int, int] | None = None
        self._looked_s = -math.inf

    def text(self) -> str | None:
        now_s = self._now_s()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        return self._text

    def _look(self) -> None:
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return
        seen = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._text = read_secret(self._path) or self._text
        except BadConfig as error:
            log.warning("the token that was read before stays in force: %s", error.message)
