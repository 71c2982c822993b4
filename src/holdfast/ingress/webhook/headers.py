"""The headers of a request: unchanged values by lower-case name, with repetitions."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.domain.errors import Unverified

VALUE_MAX = 4096
KEPT_MAX = 32
KEPT_VALUE_MAX = 1024
_SECRET_WORDS = ("authorization", "cookie", "password", "secret", "signature", "token")


class Headers:
    """Values are the received bytes decoded as Latin-1, so that no byte is lost and decoding never fails."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in raw:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())

    def get(self, name: str) -> str:
        """The first value, or an empty string."""
        return self._values.get(name, [""])[0]

    def one(self, name: str) -> str:
        """The value of a header that must occur exactly once: with two, it is unclear which one was signed."""
        values = self._values.get(name, [])
        if not values or not values[0]:
            raise Unverified(f"the header {name} is missing")
        if len(values) > 1:
            raise Unverified(f"the header {name} occurs {len(values)} times; it must occur once")
        if len(values[0]) > VALUE_MAX:
            raise Unverified(f"the header {name} is longer than {VALUE_MAX} characters")
        return values[0]

    def first_of(self, *names: str) -> str:
        """The name of the first of these headers that is present; if none is, the first name."""
        return next((name for name in names if name in self._values), names[0])

    def keep(self, names: frozenset[str]) -> dict[str, str]:
        """The named headers of this request, limited in number and length. See `InboundSource.kept_headers`."""
        present = sorted(name for name in self._values if name in names)
        return {name: _printable(self.get(name)[:KEPT_VALUE_MAX]) for name in present[:KEPT_MAX]}


def may_be_secret(name: str) -> bool:
    """Whether a header with this name may contain a secret, which must not be stored.

    >>> may_be_secret("x-hub-signature-256"), may_be_secret("x-shop-event")
    (True, False)
    """
    lower = name.lower()
    return any(word in lower for word in _SECRET_WORDS)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
