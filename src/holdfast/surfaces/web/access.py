"""Who may see the page: a signed cookie, which a login code is exchanged for.

`holdfast open` prints a link with a code. Opening the link shows a button; only the POST of that button uses the code
up, so that a preview of the link by a chat program does not. The cookie is signed with a key that is derived from the
administrator's token: when that file is replaced, everyone has to log in again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from holdfast.domain.scopes import TokenScope, known_scopes, shown_scopes

COOKIE = "holdfast_page"
COOKIE_S = 12 * 3600
COOKIE_MAX = 1024


class Cookies:
    """Signed cookies. `secret` returns the text that the key is derived from; None: nobody can log in."""

    def __init__(self, secret: Callable[[], str | None]) -> None:
        self._secret = secret

    def grant(self, answer: Response, request: Request, granted: TokenScope) -> None:
        facts = {"id": granted.id, "scopes": shown_scopes(granted.scopes), "until": int(time.time()) + COOKIE_S}
        body = base64.urlsafe_b64encode(json.dumps(facts).encode()).decode().rstrip("=")
        answer.set_cookie(
            COOKIE, f"{body}.{self._signature(body)}", max_age=COOKIE_S, path=_path(request), httponly=True,
            samesite="strict", secure=request.scope.get("scheme") == "https",
        )  # fmt: skip

    def remove(self, answer: Response, request: Request) -> None:
        answer.delete_cookie(COOKIE, path=_path(request), httponly=True, samesite="strict")

    def granted(self, request: Request) -> TokenScope | None:
        """What the cookie of a request allows; None if there is none, or it is forged or has expired."""
        body, _, signature = request.cookies.get(COOKIE, "")[:COOKIE_MAX].partition(".")
        if not body or not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return None
        try:
            facts = json.loads(base64.urlsafe_b64decode(body + "=="))
        except (ValueError, binascii.Error):
            return None
        if facts["until"] <= time.time():
            return None
        return TokenScope(facts["id"], known_scopes(facts["scopes"]))

    def _signature(self, body: str) -> str:
        secret = self._secret()
        if secret is None:
            return secrets.token_hex(32)  # matches nothing
        key = hashlib.sha256(b"holdfast.page.cookie\n" + secret.encode()).digest()
        return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def _path(request: Request) -> str:
    return str(request.scope.get("root_path", "")) or "/"
