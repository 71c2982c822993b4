"""The sentences that are shown after a button did its work. The address names one by its key, never a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

NUMBER_MAX = 10**15

SENTENCES = {
    "retried": "The delivery is due now.",
    "cancelled": "The delivery was cancelled.",
    "requeued": "{number} requeued.",
    "discarded": "{number} discarded.",
    "enabled": "The contract is enabled.",
    "disabled": "The contract is disabled; its deliveries are parked.",
    "paused": "Deliveries of the contract are paused.",
    "resumed": "Deliveries continue.",
    "removed": "The contract was removed.",
    "created": "The contract is in force.",
    "closed": "The session is closed.",
    "rotated": "Requests are signed with the new secret, and for a day with the old one too.",
    "sent": "The message is queued.",
    "routed": "The event is routed again.",
    "pinged": "The ping was delivered.",
    "ping-failed": "The ping was not delivered. The attempt below shows why.",
    "replayed": "{number} sent again.",
    "verified": "The receipts are whole: {number} links were checked.",
    "faulty": "The receipts have faults.",
    "verifying": "The check is running. Its result appears here when it has ended.",
}
BAD = ("ping-failed", "faulty")
LEFT = {
    "requeued": " {left} are left: press again to continue.",
    "discarded": " {left} are left: press again to continue.",
    "replayed": " The rest begins at {left}: press again to continue.",
}


class Sentence(NamedTuple):
    text: str
    bad: bool


def sentence(query: Mapping[str, str]) -> Sentence | None:
    """What the address of a page says was done, or None.

    >>> sentence({"done": "requeued", "number": "1200", "left": "3000"}).text
    '1,200 requeued. 3,000 are left: press again to continue.'
    """
    key = query.get("done", "")
    if key not in SENTENCES:
        return None
    number, left = _number(query.get("number")), _number(query.get("left"))
    text = SENTENCES[key] + (LEFT.get(key, "") if left else "")
    return Sentence(text.format(number=f"{number:,}", left=f"{left:,}"), key in BAD)


def _number(text: str | None) -> int:
    return min(int(text), NUMBER_MAX) if text and text.isascii() and text.isdigit() and len(text) < 16 else 0
