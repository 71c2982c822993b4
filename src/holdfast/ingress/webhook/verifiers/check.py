"""Check: how one source's requests are verified, and with which secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.ingress.webhook.verifiers.scheme import PLAIN, Scheme

Verify = Callable[["Check", InboundRequest, int], str | None]
"""(check, request, Unix seconds) -> the secret that matches, if the verifier can tell. Raises `Unverified`."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """A verification function and its scheme.

    `settings`: the parts of the scheme that a source may change. `prepare` rejects secrets that cannot verify anything.
    """

    name: str
    verify: Verify
    scheme: Scheme = PLAIN
    settings: frozenset[str] = frozenset({"tolerance_seconds"})
    prepare: Callable[[Check], None] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """How the requests of one source are verified. Any of several secrets may have signed (a rotation)."""

    verifier: Verifier
    secrets: tuple[str, ...] = field(repr=False)
    scheme: Scheme
    public_url: str = ""

    @property
    def kind(self) -> str:
        return self.verifier.name
