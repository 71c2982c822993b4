"""The servers that a URL names. A connection goes to the one that accepts writes.

The driver could try several hosts by itself, but its time limit covers all of them together: a host that answers
nothing, because it lost its power or its network, would use it up before the next one is tried.
"""

from __future__ import annotations

import contextlib
import socket
import sys

import asyncpg

from holdfast.store.postgres.errors import FAULTS, is_connection_lost
from holdfast.store.postgres.place import each_host
from holdfast.store.postgres.pooled_connection import PooledConnection

CONNECT_TIMEOUT_S = 10.0
HOST_TIMEOUT_S = 2.0
"""The time limit for each of several hosts."""
STATEMENTS_CACHED = 400
APPLICATION = "holdfast"
_SILENCE_MS = 25_000
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class Hosts:
    """Connects to the host that answered last, and to the others in turn if it no longer accepts writes."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsns, self._schema = each_host(dsn), schema
        self._last = 0

    async def connect(self, *, cached: bool = True) -> PooledConnection:
        """`cached`: statements are prepared once and kept, which needs a server session of our own."""
        faults: list[BaseException] = []
        count = len(self.dsns)
        timeout_s = CONNECT_TIMEOUT_S if count == 1 else HOST_TIMEOUT_S
        for number in ((self._last + turn) % count for turn in range(count)):
            try:
                raw = await asyncpg.connect(
                    self.dsns[number],
                    timeout=timeout_s,
                    statement_cache_size=STATEMENTS_CACHED if cached else 0,
                    server_settings={"application_name": APPLICATION},
                )
            except FAULTS as error:
                if count == 1 or not is_connection_lost(error):  # a wrong password is not fixed by another host
                    raise
                faults.append(error)
                continue
            self._last = number
            connection = PooledConnection(raw, self._schema)
            _set_keepalive(connection)
            return connection
        raise _clearest(faults)


def _clearest(faults: list[BaseException]) -> BaseException:
    """One error for all hosts: a server that refuses writes says more than one that does not answer."""
    refusing = [error for error in faults if isinstance(error, asyncpg.TargetServerAttributeNotMatched)]
    return (refusing or faults)[-1]


def _set_keepalive(connection: PooledConnection) -> None:
    """Set TCP keepalives, so that a query to a server that vanished fails instead of waiting forever."""
    sock = connection.raw._transport.get_extra_info("socket")
    if sock is None or sock.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in _KEEPALIVE.items():
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        if sys.platform == "linux":
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
