"""Login codes for the web page. They are kept in memory: a code outlives neither its use nor the process."""

from __future__ import annotations

import secrets

from holdfast.domain.event import iso_time
from holdfast.domain.scopes import ADMIN, TokenScope
from holdfast.operations.answers.login import LoginLink
from holdfast.ports import Clock

CODE_MS = 600_000
CODES_MAX = 100


class LoginCodes:
    """Codes that were created and not used yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: dict[str, tuple[int, TokenScope]] = {}

    def create(self, granted: TokenScope) -> tuple[str, int]:
        """A new code, and when it ends."""
        now_ms = self._clock.now_ms()
        self._codes = {code: entry for code, entry in self._codes.items() if entry[0] > now_ms}
        while len(self._codes) >= CODES_MAX:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(24)
        self._codes[code] = (now_ms + CODE_MS, granted)
        return code, now_ms + CODE_MS

    def is_valid(self, code: str) -> bool:
        """Whether a code would work now. It is not used up."""
        entry = self._codes.get(code)
        return entry is not None and entry[0] > self._clock.now_ms()

    def use(self, code: str) -> TokenScope | None:
        """What the code grants; None if it is unknown, was used or has expired."""
        entry = self._codes.pop(code, None)
        return entry[1] if entry is not None and entry[0] > self._clock.now_ms() else None


class LoginVerbs:
    def __init__(self, clock: Clock) -> None:
        self.codes = LoginCodes(clock)

    async def create(self) -> LoginLink:
        """A link with which one person can log in to the web page as administrator. It works once, for 10 minutes."""
        code, ends_ms = self.codes.create(ADMIN)
        return LoginLink(f"/login?code={code}", iso_time(ends_ms))
