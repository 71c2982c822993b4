"""Platform: everything Holdfast knows about one kind of sender."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook.verifiers import VERIFIERS
from holdfast.ingress.webhook.verifiers.check import Verifier

Normalizer = Callable[..., HookEvent | Sequence[HookEvent]]
"""(payload, headers) -> the events in one request."""

ID_HEADERS = ("webhook-id", "svix-id")


def standard_id(payload: Any, headers: Mapping[str, str]) -> str | None:
    """The delivery id of Standard Webhooks."""
    return next((found for header in ID_HEADERS if (found := headers.get(header))), None)


def accepted(payload: Any) -> Any:
    return {"status": "accepted"}


@dataclass(frozen=True, slots=True)
class Platform:
    """How one kind of sender proves itself, and what becomes of its requests.

    `normalize`: from a request to events. `verifier`: how it signs. `headers`: those kept with the stored request, in
    lower case. `delivery_id`: the platform's own name for a delivery, the same when it sends again. `answer`: the JSON
    it wants, or None for an empty answer, whose status is `empty`. `challenge`: an answer that must be made with the
    secret, or None for all other requests. `named`: the normalizer gets the name of the source first.
    """

    name: str
    normalize: Normalizer
    verifier: Verifier = VERIFIERS["hook"]
    headers: tuple[str, ...] = ()
    delivery_id: Callable[[Any, Mapping[str, str]], str | None] = standard_id
    answer: Callable[[Any], Any] = accepted
    challenge: Callable[[Any, str], Any] | None = None
    named: bool = False
    empty: int = 200

    def reply(self, payload: Any, secret: str | None) -> Any:
        """What the platform is told about a request that was stored; None for an empty answer."""
        if self.challenge is not None and secret is not None:
            challenged = self.challenge(payload, secret)
            if challenged is not None:
                return challenged
        return self.answer(payload)
