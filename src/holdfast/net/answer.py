"""The answer to one request, as far as it has arrived. It can be judged at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.net.timeouts import Timeout


class Fault(Exception):
    """Why there is no answer, in our own words: messages of libraries quote URLs, which may carry tokens."""


class Disconnected(Fault):
    """The connection ended before any answer. `reused`: it had served another request before."""

    reused = False


@dataclass(slots=True)
class Answer:
    """`fault` is what went wrong after the status had arrived, or in place of it.

    `status_decides`: the answer states no length, so whatever becomes of its body, its status counts.
    """

    timeout: Timeout | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: str | None = None
    status_decides: bool = False

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status <= 299

    def restart_silence(self, in_s: float = 0.0) -> None:
        """The receiver made progress: its silence limit counts from now, or from so many seconds from now."""
        if self.timeout is not None:
            self.timeout.restart_silence(in_s)
