"""A shop: the order and its event are committed in one transaction, and a durable handler ships the order.

    holdfast up --app shop:outbox        in this folder: creates the tables, delivers, runs `ship`
    python shop.py tea 2                 in another terminal: places an order

The order is shipped even if the daemon was stopped when it was placed.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing

from holdfast import Event, Outbox, Reject

DATABASE = os.environ.get("SHOP_DB", "shop.db")
PRICES = {"tea": 4, "coffee": 5}

outbox = Outbox(f"sqlite:///{DATABASE}")


def connect() -> sqlite3.Connection:
    connection = sqlite3.connect(DATABASE)
    outbox.prepare(connection)  # durable commits: write-ahead log, full syncs, checkpoints left to the daemon
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, quantity INTEGER)")
    connection.execute("CREATE TABLE IF NOT EXISTS shipments (order_id INTEGER PRIMARY KEY, total INTEGER)")
    return connection


def place_order(connection: sqlite3.Connection, item: str, quantity: int) -> int:
    """Insert the order and publish its event in one transaction."""
    with connection:
        cursor = connection.execute("INSERT INTO orders (item, quantity) VALUES (?, ?)", (item, quantity))
        order = cursor.lastrowid
        outbox.publish(
            connection,
            "order.placed",
            {"order": order, "item": item, "quantity": quantity},
            stream=f"order:{order}",
            dedup=f"order-{order}-placed",
        )
    return int(order or 0)


@outbox.on("order.placed")
def ship(event: Event) -> None:
    """Runs at least once for each order, so the primary key makes a second run harmless."""
    order = event.payload
    if order["item"] not in PRICES:
        raise Reject(f"we do not sell {order['item']}")  # a retry would not help: dead letter at once
    total = PRICES[order["item"]] * order["quantity"]
    with closing(connect()) as connection, connection:
        connection.execute("INSERT OR IGNORE INTO shipments VALUES (?, ?)", (order["order"], total))


def main(item: str, quantity: str) -> None:
    outbox.migrate()  # creates Holdfast's tables in shop.db if they do not exist
    with closing(connect()) as connection:
        print(f"placed order {place_order(connection, item, int(quantity))}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["tea", "1"]))
