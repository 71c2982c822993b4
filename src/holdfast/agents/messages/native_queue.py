"""NativeQueue: how messages are put into the queue that an agent CLI itself keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.domain.session import Session


@dataclass(frozen=True, slots=True)
class NativeQueue:
    """How messages are put into the queue of a CLI. `environment` holds what the daemon's own may lack."""

    program: str
    words: Callable[[Session, str], list[str]]
    environment: Callable[[Session], Mapping[str, str]]
    is_unknown: Callable[[str], bool]  # whether a complaint means that this version has no queue
