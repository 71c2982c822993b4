"""Platform: all facts about one kind of sender, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.verifiers import VERIFIERS
from holdfast.ingress.webhook.verifiers.check import Verifier

Normalizer = Callable[..., HookEvent | Sequence[HookEvent]]
"""(payload, headers) -> the events in one request."""

ID_HEADERS = ("webhook-id", "svix-id")


def standard_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    """The delivery id of Standard Webhooks."""
    return next((value for name in ID_HEADERS if (value := headers.get(name))), None)


def accepted(payload: Json) -> Json:
    return {"status": "accepted"}


@dataclass(frozen=True, slots=True)
class Platform:
    """How one kind of sender signs its requests, and which events they hold.

    `name`: the name in the configuration. `normalize`: from a request to events. `verifier`: the signature scheme.
    `headers`: stored with the request, in lower case; none of them may hold a secret. `delivery_id`: the platform's id
    of a delivery, the same for each retry. `answer`: the JSON of the response, or None for an empty response with the
    status `empty_status`. `challenge`: a response that needs the secret, or None if the request is no challenge.
    `takes_source_name`: the first argument of `normalize` is the name of the source.
    """

    name: str
    normalize: Normalizer
    verifier: Verifier = VERIFIERS["hook"]
    headers: tuple[str, ...] = ()
    delivery_id: Callable[[Json, Mapping[str, str]], str | None] = standard_id
    answer: Callable[[Json], Json] = accepted
    challenge: Callable[[Json, str], Json] | None = None
    takes_source_name: bool = False
    empty_status: int = 200

    def reply(self, payload: Json, secret: str | None) -> Json:
        """The response to a request that was stored; None for an empty one."""
        if self.challenge is not None and secret is not None:
            response = self.challenge(payload, secret)
            if response is not None:
                return response
        return self.answer(payload)
