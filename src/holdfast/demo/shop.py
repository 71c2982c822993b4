"""The application of `holdfast demo`: a shop with one handler that works and one that fails until it is fixed."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from holdfast import Delivery, Event, Outbox, Reject

folder = Path(os.environ.get("HOLDFAST_DEMO", "."))
database = folder / "shop.db"
outbox = Outbox(f"sqlite:///{database}")


@outbox.on("order.placed")
def pack(event: Event, delivery: Delivery) -> None:
    """Idempotent, since it runs at least once for every order."""
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT OR IGNORE INTO packed (order_id) VALUES (?)", (event.payload["id"],))


@outbox.on("coupon.used")
async def book_coupon(event: Event) -> None:
    if not (folder / "fixed").exists():
        raise Reject(f"unknown currency {event.payload['currency']!r}")
