"""The answer to one request, as far as it has arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.net.timeouts import Timeout

BODY_MAX = 16 * 1024


class RequestError(Exception):
    """Why there is no answer. The text is our own: messages of libraries quote URLs, which may carry tokens."""


class Disconnected(RequestError):
    """The connection ended before any answer. `reused`: the connection had served another request before."""

    reused = False


@dataclass(slots=True)
class Answer:
    """Status, headers and body. An outcome can be derived from it at any moment.

    `error` is what went wrong after the status arrived, or instead of it. `status_decides`: the answer states no
    length, so its status counts whether the body is complete or not. Of the body the first `body_max` bytes are read.
    """

    timeout: Timeout | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str | None = None
    status_decides: bool = False
    body_max: int = BODY_MAX

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status <= 299

    def restart_silence(self, in_s: float = 0.0) -> None:
        """Restart the silence limit, because the receiver made progress; it counts from `in_s` seconds from now."""
        if self.timeout is not None:
            self.timeout.restart_silence(in_s)
