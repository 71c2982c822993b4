"""A secret in a file that can be replaced while the daemon runs."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.domain.errors import BadConfig
from holdfast.home import read_secret

CHECK_EVERY_S = 1.0

log = logging.getLogger("holdfast")


class SecretFile:
    """Checks the file at most once a second, and reads it again after a change.

    While the file is missing or has unsafe permissions, the last secret stays in force.
    """

    def __init__(self, path: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self._path, self._now_s = path, now_s
        self._text: str | None = None
        self._seen: tuple[int, int, int] | None = None
        self._checked_s = -math.inf

    def text(self) -> str | None:
        now_s = self._now_s()
        if now_s - self._checked_s >= CHECK_EVERY_S:
            self._checked_s = now_s
            self._check()
        return self._text

    def _check(self) -> None:
        try:
            status = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return
        seen = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._text = read_secret(self._path) or self._text
        except BadConfig as error:
            log.warning("the previous token stays in force: %s", error.message)
