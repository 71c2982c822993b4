"""A projection: count the steps of every run, in the same transaction as the reader's position.

    python totals.py run 1        append three steps of run:1 and close it
    python totals.py count        count until every closed run is counted, then print the totals

A daemon (`holdfast up --app totals:outbox`) must be running for `count`: it finds the streams with new events.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys

from holdfast import Outbox

PATH = os.environ.get("TOTALS_DB", "totals.db")
outbox = Outbox(f"sqlite:///{PATH}")


def connect() -> sqlite3.Connection:
    connection = sqlite3.connect(PATH)
    outbox.prepare(connection)
    connection.execute("CREATE TABLE IF NOT EXISTS totals (run TEXT PRIMARY KEY, steps INTEGER, done INTEGER)")
    return connection


def run(number: str) -> None:
    """Append in your own transaction. `expected_seq` refuses a second writer of the same run."""
    connection, stream = connect(), outbox.stream(f"run:{number}")
    with connection:
        connection.execute("INSERT INTO totals VALUES (?, 0, 0)", (stream.name,))
        for step in (1, 2, 3):
            stream.append(connection, "step.done", {"step": step}, expected_seq=step)
        stream.close(connection)
    connection.close()


async def count() -> None:
    connection, reader = connect(), outbox.read("totals", "run:*")
    async for event in reader:
        with connection:
            if event.type == "step.done":
                connection.execute("UPDATE totals SET steps = steps + 1 WHERE run = ?", (event.stream,))
            else:
                connection.execute("UPDATE totals SET done = 1 WHERE run = ?", (event.stream,))
            reader.advance(connection, event)  # committed together with the totals, or not at all
        if connection.execute("SELECT min(done) FROM totals").fetchone() == (1,):
            break
    for name, steps in connection.execute("SELECT run, steps FROM totals ORDER BY run"):
        print(name, steps)
    connection.close()


if __name__ == "__main__":
    outbox.migrate()
    if sys.argv[1] == "run":
        run(sys.argv[2])
    else:
        asyncio.run(count())
