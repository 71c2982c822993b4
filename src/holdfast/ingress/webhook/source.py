"""InboundSource: one path that receives webhooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from holdfast.domain.canonical import BYTES_MAX
from holdfast.ingress.webhook.headers import may_be_secret
from holdfast.ingress.webhook.platforms import KEPT_HEADERS, platform_of
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.verifiers.check import Check

SOURCE = "inbound"


@dataclass(frozen=True, slots=True)
class InboundSource:
    """A source in the configuration. `check` is None if it is declared insecure.

    `normalizer`: the name of a platform or of the user's own function. `id_header` and `id_field`: where the sender's
    delivery id is, if the platform does not define it. `type_header` and `type_field`: where the normalizer `json`
    finds the name of the event.
    """

    name: str
    path: str
    normalizer: str | None
    check: Check | None
    verify_token: str | None = field(default=None, repr=False)
    id_header: str | None = None
    keep_headers: tuple[str, ...] = ()
    body_max_bytes: int = BYTES_MAX
    platform_name: str | None = None
    id_field: str | None = None
    type_header: str | None = None
    type_field: str | None = None

    @property
    def address(self) -> str:
        return f"handler:{SOURCE}.{self.name}"

    @property
    def kept_headers(self) -> frozenset[str]:
        return _kept(self.keep_headers, self.id_header, self.type_header)

    @property
    def platform(self) -> Platform:
        return platform_of(self.platform_name or self.normalizer, self.name)


@lru_cache(maxsize=256)
def _kept(keep: tuple[str, ...], *named: str | None) -> frozenset[str]:
    """Headers that the user named are not stored if they may hold a secret; those of a platform are safe."""
    chosen = (name for name in (*keep, *named) if name and not may_be_secret(name))
    return frozenset({*KEPT_HEADERS, *chosen})
