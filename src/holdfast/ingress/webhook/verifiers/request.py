"""The parts of a request that a signature may cover."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ingress.webhook.headers import Headers


@dataclass(frozen=True, slots=True)
class InboundRequest:
    """`path` and `query` as received, still percent-encoded; `query` without its question mark."""

    headers: Headers
    body: bytes
    method: str = "POST"
    path: str = ""
    query: str = ""

    def url(self, public_url: str) -> str:
        """The URL the sender used. Behind a tunnel, only its query arrives here unchanged."""
        return f"{public_url}?{self.query}" if self.query else public_url
