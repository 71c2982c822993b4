"""One store under load: a daemon, a process that publishes, and what is read about both while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from benchmarks import processes
from benchmarks.daemon import Daemon, Rest
from benchmarks.orders import ROOT, Failed
from benchmarks.server import Server

RECEIPTS = ("receipts",)
DRAIN_S = 300.0
MB = 1e6


class SoakedStore(ABC):
    """A context manager: the daemon runs inside."""

    name: str

    def __init__(self, folder: Path, url: str, retention_s: float) -> None:
        self.url, self._folder = url, folder
        days, minutes = retention_s / 86_400, max(retention_s / 10, 1.0) / 60
        config = f"retention: {{delivered_days: {days:.8f}, every_minutes: {minutes:.6f}}}\n"
        self._daemon = Daemon(folder, url, config, app="benchmarks.soak.app:outbox")
        self._load: subprocess.Popen[str] | None = None
        self._rest: Rest | None = None

    def __enter__(self) -> Self:
        self._daemon.start()
        self._daemon.wait_settled()
        self._rest = self._daemon.connect()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._load is not None and self._load.poll() is None:
            self._load.terminate()
            self._load.wait(30)
        if self._rest is not None:
            self._rest.close()
        self._daemon.__exit__(*exception)

    def load(self, rate: float, seconds: float) -> None:
        """Start publishing."""
        order = json.dumps({"url": self.url, "rate": rate, "seconds": seconds})
        paths = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        self._load = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.soak.load", order],
            env={**os.environ, "PYTHONPATH": paths}, cwd=self._folder, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def loaded(self) -> dict[str, Any]:
        """Wait for the end of the publishing. Returns how many events were published, and in how many seconds."""
        assert self._load is not None
        out, _ = self._load.communicate()
        if self._load.returncode:
            raise Failed(f"publishing on {self.name} ended with {self._load.returncode}")
        answer: dict[str, Any] = json.loads(out)
        return answer

    def backlog(self) -> int:
        assert self._rest is not None
        status = self._rest.status()
        if status["dead"]:
            raise Failed(f"{status['dead']} deliveries on {self.name} are dead")
        return int(status["unrouted"]) + int(status["pending"])

    def is_loaded(self) -> bool:
        """Whether publishing has ended."""
        return self._load is not None and self._load.poll() is not None

    def drain(self) -> None:
        """Wait until all events are handled."""
        ends = time.monotonic() + DRAIN_S
        while backlog := self.backlog():
            if time.monotonic() > ends:
                raise Failed(f"{backlog:,} events on {self.name} were not handled within {DRAIN_S:g} s")
            time.sleep(0.05)

    def sample(self) -> dict[str, float]:
        """The state of the daemon and the store, each value under its name."""
        pid = self._daemon.pid
        return {
            "memory": processes.memory_mb(pid),
            "descriptors": processes.descriptors(pid),
            "backlog": self.backlog(),
            **self._sample_store(),
        }

    @abstractmethod
    def _sample_store(self) -> dict[str, float]: ...

    @abstractmethod
    def tables(self) -> dict[str, float]:
        """The size of each table with its indexes, in MB."""


class SoakedSqlite(SoakedStore):
    name = "sqlite"

    def __init__(self, folder: Path, url: str, retention_s: float) -> None:
        super().__init__(folder, url, retention_s)
        self._path = Path(url.removeprefix("sqlite:///"))

    def _sample_store(self) -> dict[str, float]:
        return {
            "WAL": self._path.with_name(self._path.name + "-wal").stat().st_size / MB,
            "file": self._path.stat().st_size / MB,
        }

    def tables(self) -> dict[str, float]:
        import apsw

        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            rows = list(connection.execute("""
                SELECT m.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema m ON m.name = d.name
                WHERE d.aggregate = TRUE GROUP BY m.tbl_name"""))  # fmt: skip
        finally:
            connection.close()
        return {name.removeprefix("holdfast_"): size / MB for name, size in rows}


class SoakedPostgres(SoakedStore):
    name = "postgres"

    def __init__(self, folder: Path, url: str, retention_s: float, server: Server) -> None:
        super().__init__(folder, url, retention_s)
        self._server = server

    def _sample_store(self) -> dict[str, float]:
        tables = self.tables()
        dead, wal = self._row("""
            SELECT (SELECT sum(n_dead_tup) FROM pg_stat_user_tables), (SELECT sum(size) FROM pg_ls_waldir())""")
        return {
            "WAL": float(wal) / MB,
            "tables without receipts": sum(size for name, size in tables.items() if name not in RECEIPTS),
            "dead tuples": float(dead),
            "server memory": self._server.memory_mb(),
        }

    def tables(self) -> dict[str, float]:
        rows = self._rows("SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables")
        return {name: size / MB for name, size in rows}

    def _row(self, query: str) -> tuple[Any, ...]:
        return self._rows(query)[0]

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query).fetchall()  # type: ignore[call-overload,no-any-return]
