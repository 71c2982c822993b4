"""Senders that send a shared secret instead of a signature."""

from __future__ import annotations

import hmac

from holdfast.domain.errors import Unverified
from holdfast.ingress.webhook.verifiers.check import Check
from holdfast.ingress.webhook.verifiers.request import InboundRequest


def token(check: Check, request: InboundRequest, now_s: int) -> str:
    """A token in a header, compared with each secret in constant time."""
    scheme = check.scheme
    given = request.headers.one(scheme.header)
    if not given.startswith(scheme.prefix):
        raise Unverified(f"the header {scheme.header} does not begin with {scheme.prefix}")
    text = given.removeprefix(scheme.prefix).encode("latin-1")
    matching = [secret for secret in check.secrets if hmac.compare_digest(secret.encode("utf-8"), text)]
    if not matching:
        raise Unverified(f"the token in {scheme.header} is not a secret of this source")
    return matching[0]
