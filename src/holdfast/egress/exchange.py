"""One attempt at a webhook: how it is to look, what is known of it so far, and what it comes to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from holdfast.domain.delivery import Dead, Delivered, Outcome, Retry, clip
from holdfast.domain.retry import RETRY_AFTER_MAX_S
from holdfast.domain.states import Reason
from holdfast.egress.patience import Wait

SHOWN_MAX = 500
RETRIED_4XX = frozenset({408, 425, 429})
HEADERS_KEPT, HEADER_MAX = 12, 100
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")  # whole ones by the book; some senders count more finely
HIDDEN_HEADERS = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate", "authorization"})


@dataclass(frozen=True, slots=True)
class Sending:
    """How a contract's requests look, and which refusals it takes for a passing thing."""

    secrets: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    template: str | None = None
    retry_on: frozenset[int] = frozenset()
    hidden: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """What must not be kept if it is said back, in every form; worked out once for all attempts."""
        given = (*self.secrets, *self.headers.values())
        forms = (form for text in given for form in (text, text.removeprefix("whsec_").removeprefix("whsk_")))
        object.__setattr__(self, "hidden", tuple(dict.fromkeys(filter(None, forms))))


PLAIN = Sending()


@dataclass(slots=True)
class Exchange:
    """What is known about one attempt so far; it is complete enough to be judged at any moment."""

    url: str
    began_ms: int
    sending: Sending = PLAIN
    request: Mapping[str, str] = field(default_factory=dict)
    answer: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    body: bytes = b""
    fault: str | None = None
    refusal: str | None = None
    dialled: bool = False
    patience_s: float = 0.0
    silence_s: float = 0.0
    wait: Wait | None = None

    def heard(self, in_s: float = 0.0) -> None:
        """The receiver's next silence begins now, or in so many seconds."""
        if self.wait is not None:
            self.wait.heard(in_s)

    def outcome(self, now_ms: int, boot_ms: int) -> Outcome:
        detail: dict[str, Any] = {
            "status": self.status,
            "duration_ms": max(0, boot_ms - self.began_ms),
            "url": self._masked(self.url.partition("?")[0]),
            "response": self._shown(),
        }
        went_well = self.status is not None and 200 <= self.status <= 299
        if went_well and self.fault is None and self.refusal is None:
            return Delivered(detail=detail)
        if not went_well:  # of what went well, this much is enough
            detail["request_headers"] = _request_head(self.request, self.sending.headers)
            answered = _answer_head(self.answer)
            detail["response_headers"] = {name: self._masked(value) for name, value in answered.items()}
        if self.refusal is not None:
            return Dead(Reason.REJECTED, self._masked(self.refusal), detail)
        if self.status is None or went_well:
            return Retry(self._masked(self.fault or "the attempt ended without an answer"), detail=detail)
        return judge(self.status, retry_after_s(self.answer.get("Retry-After"), now_ms), detail, self.sending.retry_on)

    def _shown(self) -> str:
        text = self._masked(self.body.decode("utf-8", "replace"))
        shown = text[:SHOWN_MAX]
        return shown if shown.isprintable() else "".join(char if char.isprintable() else " " for char in shown)

    def _masked(self, text: str) -> str:
        """A receiver knows our secret and may echo it; what we keep must not hold it."""
        for form in self.sending.hidden:
            text = text.replace(form, "***")
        return text


def _request_head(headers: Mapping[str, str], private: Mapping[str, str]) -> dict[str, str]:
    """What was sent, for the operator: the values of a contract's own headers, and signatures, are not shown."""
    hidden = {name.lower() for name in private} | {"webhook-signature", "x-hook-signature"}
    return {name: "***" if name.lower() in hidden else value for name, value in headers.items()}


def _answer_head(headers: Mapping[str, str]) -> dict[str, str]:
    """The first few headers of an answer, each a line, none that could let somebody in."""
    kept = [(name, value) for name, value in headers.items() if name.lower() not in HIDDEN_HEADERS]
    return {clip(name)[:HEADER_MAX]: clip(value)[:HEADER_MAX] for name, value in kept[:HEADERS_KEPT]}


def judge(
    status: int, after_s: float | None, detail: dict[str, Any], retry_on: frozenset[int] = frozenset()
) -> Outcome:
    """What a status means for the delivery.

    >>> judge(503, 30.0, {})
    Retry(error='answered 503', after_s=30.0, detail={})
    """
    if 200 <= status <= 299:
        return Delivered(detail=detail)
    if status == 410:
        gone = {**detail, "gone": True}
        return Dead(Reason.REJECTED, "410 Gone: the receiver wants no more of this contract's events", gone)
    if 400 <= status <= 499 and status not in RETRIED_4XX and status not in retry_on:
        return Dead(Reason.REJECTED, f"answered {status}: the receiver refuses this event", detail)
    if 300 <= status <= 399:
        return Retry(f"redirect not followed: answered {status}; set the target to the final URL", after_s, detail)
    return Retry(f"answered {status}", after_s, detail)


def retry_after_s(text: str | None, now_ms: int) -> float | None:
    """The seconds a `Retry-After` asks for, bounded; None when it says nothing that can be used.

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
