"""How output looks in a terminal: its width, relative times, short ids and colors by meaning.

A pipe gets none of this: full times and ids, no colors, so that scripts and logs see everything.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping

from holdfast.operations.elapsed import ago

SHORT_ID = 17  # `evt_` and 13 digits: commands accept 10 characters or more
WIDTH_MIN = 40

GOOD, WARN, BAD, BUSY, FAINT = "green", "yellow", "red", "magenta", "bright_black"
COLORS = {
    "delivered": GOOD, "active": GOOD, "ok": GOOD, "healthy": GOOD, "accepted": GOOD, "installed": GOOD,
    "pending": WARN, "waiting": WARN, "disabled": WARN, "inactive": WARN, "paused": WARN, "unknown": WARN,
    "sent": WARN, "queued": WARN, "warn": WARN, "alert": WARN,
    "dead": BAD, "failed": BAD, "misconfigured": BAD, "unhealthy": BAD, "expired": BAD, "fail": BAD,
    "working": BUSY, "initializing": BUSY, "in flight": BUSY,
    "dropped": FAINT, "ended": FAINT, "closed": FAINT, "idle": FAINT, "retired": FAINT,
}  # fmt: skip
"""Colors of the words that stand in the columns `state`, `status`, `health` and `level`."""
COLORED = frozenset({"state", "status", "health", "level"})


def is_terminal() -> bool:
    """Whether standard output is a terminal that people look at."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_color() -> bool:
    """Colors are off with NO_COLOR (no-color.org) and outside of a terminal."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def width() -> int:
    return max(WIDTH_MIN, shutil.get_terminal_size((80, 24)).columns)


def height() -> int:
    return max(5, shutil.get_terminal_size((80, 24)).lines)


def relative(iso: str) -> str:
    """A time such as `3 min ago`; the text itself if it is no time."""
    try:
        return ago(iso, time.time())
    except ValueError:
        return iso


def clock_time(name: str, value: object) -> object:
    """As `shorten`, for lines that stay on the screen while time passes: times of day instead of relative times."""
    if isinstance(value, str) and name.endswith("_at") and len(value) > 19:
        return value[11:19]
    return shorten(name, value)


def is_id(name: str) -> bool:
    return name in ("id", "name") or name.endswith("_id")


def short_id(text: str) -> str:
    """
    >>> short_id("evt_01a1ee4282e788eca9db1f76b5b2f52a")
    'evt_01a1ee4282e78'
    """
    return text[:SHORT_ID] if text.startswith(("evt_", "tok_")) else text


def shorten(name: str, value: object) -> object:
    """The form of a value in a terminal: a relative time, a short id, or the value itself."""
    if isinstance(value, str) and (name.endswith("_at") or name in ("at", "timestamp")):
        return relative(value)
    return short_id(value) if isinstance(value, str) and (name == "id" or name.endswith("_id")) else value


def for_people(name: str, value: str) -> str:
    """A value in a sentence: shortened in a terminal, whole elsewhere."""
    return str(shorten(name, value)) if is_terminal() else value


def without_own_streams(item: Mapping[str, object]) -> Mapping[str, object]:
    """An event without a stream is its own stream; repeating its id there tells nothing."""
    own = item.get("stream")
    return {**item, "stream": ""} if own is not None and own in (item.get("id"), item.get("event_id")) else item
