"""One attempt at a webhook: its request, its answer so far, and the outcome for its delivery."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime

from holdfast.domain.address import without_tokens
from holdfast.domain.delivery import Dead, Delivered, Outcome, Retry, clean_error
from holdfast.domain.json_value import JsonObject
from holdfast.domain.retry import RETRY_AFTER_MAX_S
from holdfast.domain.states import Reason
from holdfast.egress.webhook.requests import UNSIGNED, RequestOptions
from holdfast.net.answer import Answer

SHOWN_MAX = 500
RETRIED_4XX = frozenset({408, 425, 429})
REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})
HEADERS_KEPT, HEADER_MAX = 12, 100
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")  # the standard has whole seconds; some receivers send fractions
HIDDEN_HEADERS = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate", "authorization"})


@dataclass(slots=True)
class Exchange:
    """The state of one attempt. `outcome` may be called at any moment, also after the attempt was cancelled."""

    url: str
    began_ms: int
    options: RequestOptions = UNSIGNED
    request: Mapping[str, str] = field(default_factory=dict)
    answer: Answer = field(default_factory=Answer)
    refusal: str | None = None

    def outcome(self, now_ms: int, boot_ms: int) -> Outcome:
        answer = self.answer
        detail: JsonObject = {
            "status": answer.status,
            "duration_ms": max(0, boot_ms - self.began_ms),
            "url": self._masked(without_tokens(self.url)),
            "response": self._shown(),
        }
        if not answer.is_success:  # headers are kept for failures only
            detail["request_headers"] = {**_request_head(self.request, self.options.headers)}
            answered = _answer_head(answer.headers)
            detail["response_headers"] = {name: self._masked(value) for name, value in answered.items()}
        if self.refusal is not None:
            return Dead(Reason.REJECTED, self._masked(self.refusal), detail)
        if answer.status is None:
            return Retry(self._masked(answer.error or "the attempt ended without an answer"), detail=detail)
        if answer.is_success and answer.error is not None:
            return Retry(self._masked(answer.error), detail=detail)
        after_s = retry_after_s(answer.headers.get("Retry-After"), now_ms)
        return judge(answer.status, after_s, detail, self.options.retry_on)

    def _shown(self) -> str:
        text = self._masked(self.answer.body.decode("utf-8", "replace"))
        shown = text[:SHOWN_MAX]
        return shown if shown.isprintable() else "".join(char if char.isprintable() else " " for char in shown)

    def _masked(self, text: str) -> str:
        """Mask secrets: a receiver knows them and may echo them, but they must not be stored."""
        for form in self.options.hidden:
            text = text.replace(form, "***")
        return text


def _request_head(headers: Mapping[str, str], private: Mapping[str, str]) -> dict[str, str]:
    """The request headers for the operator, without signatures and the values of a contract's own headers."""
    hidden = {name.lower() for name in private} | {"webhook-signature", "x-hook-signature"}
    return {name: "***" if name.lower() in hidden else value for name, value in headers.items()}


def _answer_head(headers: Mapping[str, str]) -> dict[str, str]:
    """The first headers of an answer, each on one line, without those that hold credentials."""
    kept = [(name, value) for name, value in headers.items() if name.lower() not in HIDDEN_HEADERS]
    return {clean_error(name)[:HEADER_MAX]: clean_error(value)[:HEADER_MAX] for name, value in kept[:HEADERS_KEPT]}


def judge(status: int, after_s: float | None, detail: JsonObject, retry_on: frozenset[int] = frozenset()) -> Outcome:
    """The outcome that a status means for the delivery.

    >>> judge(503, 30.0, {})
    Retry(error='answered 503', after_s=30.0, detail={})
    """
    if 200 <= status <= 299:
        return Delivered(detail=detail)
    if status == 410:
        gone = {**detail, "gone": True}
        return Dead(Reason.REJECTED, "410 Gone: the receiver takes no more events of this contract", gone)
    if 400 <= status <= 499 and status not in RETRIED_4XX and status not in retry_on:
        return Dead(Reason.REJECTED, f"answered {status}: the receiver refuses this event", detail)
    if status in REDIRECTS:
        return Retry(f"redirect not followed: answered {status}; set the target to the final URL", after_s, detail)
    if 300 <= status <= 399:
        return Retry(f"answered {status}, which is neither a success nor a redirect", after_s, detail)
    return Retry(f"answered {status}", after_s, detail)


def retry_after_s(text: str | None, now_ms: int) -> float | None:
    """The seconds that a `Retry-After` header asks for, at most an hour; None if it cannot be parsed.

    >>> retry_after_s("120", 0)
    120.0
    """
    if text is None or len(text) > 100:
        return None
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_MAX_S)
    try:
        moment = parsedate_to_datetime(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(max(0.0, moment.timestamp() - now_ms / 1000), RETRY_AFTER_MAX_S)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
