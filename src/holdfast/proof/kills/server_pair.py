"""A primary with a synchronous standby. The standby takes over when the primary is killed, and gets a new standby."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg

from holdfast.proof.kills.processes import wait_until
from holdfast.proof.kills.server import OwnServer, give_to_nobody

STANDBY = "standby_b"
WAIT_S = 180.0
_STREAMING = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"


class Member(OwnServer):
    """One of the two servers. It also listens on a port. `source`: the server it is a copy of."""

    def __init__(self, programs: Path, source: Member | None = None, prefix: str = "hf-prove-pg-") -> None:
        super().__init__(programs, prefix)
        self.port, self.source = free_port(), source

    def promote(self) -> None:
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-s", "promote")

    def copy_again(self, source: Member) -> None:
        """Become a standby of another server, after this one was killed."""
        self.source = source
        shutil.rmtree(self.folder / "data")
        self._create(self.folder / "data")
        give_to_nobody(self.folder)
        self.start()

    def alter(self, setting: str) -> None:
        self.rows(f"ALTER SYSTEM SET {setting}")
        self.rows("SELECT pg_reload_conf()")

    def rows(self, text: str) -> list[Any]:
        with ThreadPoolExecutor(1) as thread:  # also works where an event loop is running
            return thread.submit(asyncio.run, self._rows(text)).result()

    async def _rows(self, text: str) -> list[Any]:
        connection = await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{self.port}/postgres", timeout=30)
        try:
            return list(await connection.fetch(text))
        finally:
            await connection.close(timeout=5)

    def _listen(self) -> str:
        return f"-c listen_addresses=127.0.0.1 -c port={self.port} -c wal_retrieve_retry_interval=200ms"

    def _create(self, data: Path) -> None:
        if self.source is None:
            super()._create(data)
            return
        where = f"host=127.0.0.1 port={self.source.port} user=postgres application_name={STANDBY}"
        self._run("pg_basebackup", "-d", where, "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync")


class ServerPair:
    """A context manager. `primary` is the server that accepts writes now."""

    def __init__(self, programs: Path, prefix: str = "hf-prove-pg-") -> None:
        self.primary = Member(programs, prefix=prefix)
        self.standby = Member(programs, self.primary, prefix=prefix)
        self._started = contextlib.ExitStack()

    def __enter__(self) -> ServerPair:
        with contextlib.ExitStack() as starting:
            starting.enter_context(self.primary)
            starting.enter_context(self.standby)
            self._started = starting.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._started.close()

    @property
    def version(self) -> str:
        return self.primary.version

    @property
    def ports(self) -> list[int]:
        return sorted((self.primary.port, self.standby.port))

    @property
    def address(self) -> str:
        """The URL that names both servers."""
        return pair_address(self.ports)

    def make_synchronous(self) -> None:
        """After the copy was made: a standby with this setting would wait for itself once it is promoted."""
        self.primary.alter(f"synchronous_standby_names = '{STANDBY}'")
        self.wait_for("sync")

    def make_asynchronous(self) -> None:
        self.primary.alter("synchronous_standby_names = ''")
        self.wait_for("async")

    def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def rebuild_standby(self) -> None:
        """Make the killed server a standby of the present primary, so that the next failover loses nothing either."""
        self.standby.copy_again(self.primary)
        self.make_synchronous()

    def wait_for(self, state: str) -> None:
        def found() -> bool:
            with contextlib.suppress(OSError, asyncpg.PostgresError, subprocess.SubprocessError):
                return [row[0] for row in self.primary.rows(_STREAMING)] == [state]
            return False

        wait_until(f"a standby that is {state}", found, WAIT_S, 0.05)


def pair_address(ports: list[int]) -> str:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
