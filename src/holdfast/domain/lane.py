"""Lane: the line in which ordered deliveries wait. Only the head of a lane can be claimed."""

from __future__ import annotations

ORDERED_PREFIX = "handler:inbound."  # requests are normalised in the order they were accepted


def lane_key(address_kind: str, address: str, contract_id: str | None, stream: str | None, ordered: bool) -> str | None:
    """The lane a delivery belongs to, or None when it may overtake and be overtaken.

    A session is one lane whatever stream or contract a message came from: there is one terminal at its end.
    An event without a stream is its own stream, so an ordered contract has nothing to order it against.

    >>> lane_key("https", "https://example.com", "orders", "order:42", True)
    'orders order:42'
    """
    if address_kind == "session":
        return address
    if not ordered or stream is None:
        return None
    return f"{contract_id or address} {stream}"
