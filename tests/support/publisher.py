"""An application in its own process: it writes a row and an event, and ends in a chosen way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from clients import Client
from holdfast import Outbox

ORDER = "INSERT INTO {orders} VALUES (42) ON CONFLICT DO NOTHING"


class Situation(NamedTuple):
    """How a transaction ends, the exit code of the process, and the number of events afterwards."""

    name: str
    exit: int
    events: int


COMMITTED = Situation("committed", 0, 1)
ROLLED_BACK = Situation("rolled back", 0, 0)
RAISED = Situation("an exception", 1, 0)
KILLED = Situation("killed before the commit", -signal.SIGKILL, 0)
KILLED_UNHEARD = Situation("killed before the commit was heard of", -signal.SIGKILL, 1)
LOST = Situation("connection lost before the commit", 1, 0)
LOST_UNHEARD = Situation("connection lost before the commit was heard of", 1, 1)


def live(kind: type[Client], situation: Situation, url: str, folder: Path, orders: str, tell: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the exit code shows how it failed
    asyncio.run(_live(kind(), situation, url, folder, orders, tell))


async def _live(client: Client, situation: Situation, url: str, folder: Path, orders: str, tell: Connection) -> None:
    await client.open(folder)
    try:
        await client.begin()
        await client.execute(ORDER.format(orders=orders))
        published = await client.publish(Outbox(url), "order.placed", {"id": 42}, stream="order:42", dedup="order-42")
        tell.send((published.id, published.duplicate))
        await _end(client, situation)
    finally:
        with contextlib.suppress(Exception):
            await client.close()


async def _end(client: Client, situation: Situation) -> None:
    if situation == RAISED:
        raise RuntimeError("the application has an error")
    if situation == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if situation == LOST:
        with contextlib.suppress(Exception):
            await client.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    if situation == ROLLED_BACK:
        await client.rollback()
    else:
        await client.commit()
    if situation == KILLED_UNHEARD:
        os.kill(os.getpid(), signal.SIGKILL)
