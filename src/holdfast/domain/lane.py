"""Lane: a queue of ordered deliveries. Only the head of a lane can be claimed."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.address import KINDS
from holdfast.domain.json_value import Json

SESSIONS = "handler:sessions"
"""The consumer of agent hooks: the only address whose lanes coalesce."""

MESSAGES = "handler:messages"
"""Finds the session that a message is for, if its sender may write to it."""

INBOUND = "handler:inbound."
"""The prefix of the addresses where webhook requests are normalized, in the order they were accepted."""

CRITICAL = frozenset(
    f"hook.{name}"
    for name in (
        "session_start", "user_prompt_submit", "agent_stop", "session_end", "notification", "error",
        "subagent_start", "subagent_stop", "compact",
    )
)  # fmt: skip
"""Hook events that are never dropped. All others are bursty: of those that wait together, only the latest is kept."""

COALESCE_LOOKBACK = 32
LANE_MAX = 1000


def is_ordered_directly(address: str) -> bool:
    """Whether deliveries to a direct address are ordered without a contract.

    >>> is_ordered_directly("handler:inbound.shop"), is_ordered_directly("handler:ship")
    (True, False)
    """
    return address == SESSIONS or address.startswith(INBOUND)


def lane_key(address_kind: str, address: str, contract_id: str | None, stream: str | None, ordered: bool) -> str | None:
    """The lane of a delivery, or None if it is unordered.

    A session is one lane, whatever stream or contract a message came from: it has one terminal.
    An event without a stream is its own stream, so an ordered contract has nothing to order it against.

    >>> lane_key("https", "https://example.com", "orders", "order:42", True)
    'orders order:42'
    """
    if KINDS[address_kind].one_lane:
        return address
    if not ordered or stream is None:
        return None
    return f"{contract_id or address} {stream}"


def may_coalesce(address: str) -> bool:
    """Whether a pending delivery to this address may be dropped in favor of a later one.

    >>> may_coalesce("handler:sessions"), may_coalesce("handler:ship")
    (True, False)
    """
    return address == SESSIONS


def burst_key(address: str, type: str, properties: Mapping[str, Json] | None = None) -> str | None:
    """A pending delivery may be replaced by a later one with the same key, if no critical event is between them.

    The key is the same tool of the same subagent, or the same native event of a CLI without a common name.

    >>> burst_key("handler:sessions", "hook.tool_use", {"tool_name": "Bash"})
    'hook.tool_use Bash'
    >>> burst_key("handler:sessions", "hook.agent_stop")
    """
    if not may_coalesce(address) or type in CRITICAL or not type.startswith("hook."):
        return None
    known = properties or {}
    name = known.get("native_event" if type == "hook.raw" else "tool_name")
    return " ".join(str(part) for part in (type, name, known.get("subagent_id")) if part)
