"""All parts of the proof: simulation, power cuts, kills on SQLite, disruptions on PostgreSQL, concurrent writers."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from holdfast.domain.errors import BadConfig, BadInput, NotFound, StoreError
from holdfast.egress.attempt_log import describe
from holdfast.home import shown_url
from holdfast.proof.kills.artifacts import write_violations
from holdfast.proof.kills.checker import check
from holdfast.proof.kills.disruptions import SERVER_KINDS
from holdfast.proof.kills.evidence import Evidence
from holdfast.proof.kills.faults import FAULTS
from holdfast.proof.kills.parallel import Progress, cut_power_often, kill_mutants, run_schedules
from holdfast.proof.kills.report import Report
from holdfast.proof.kills.sqlite_campaign import SqliteCampaign
from holdfast.proof.kills.sqlite_setup import SqlitePlan, SqliteSetup
from holdfast.proof.kills.table import Proof

FAULTY_DRAIN_S = 10.0
NO_DRIVER = "PostgreSQL was skipped: no driver is installed. Run: pip install 'holdfast[postgres]'"
SQLITE, POSTGRES = "sqlite", "postgresql"


@dataclass(frozen=True)
class Size:
    """The size of each part; 0 skips it. `schedules` None: run them for `schedule_s` seconds."""

    schedules: int | None = 0
    schedule_s: float | None = None
    mutant_seeds: int = 0
    images: int = 0
    kills: int = 0
    rounds: int = 0
    writer_s: float = 0.0


SIZES = {
    "quick": Size(None, 15.0, mutant_seeds=0, images=500, kills=10, rounds=8, writer_s=5.0),
    "default": Size(None, 90.0, mutant_seeds=1000, images=20_000, kills=200, rounds=100, writer_s=60.0),
    "full": Size(200_000, None, mutant_seeds=1000, images=20_000, kills=800, rounds=200, writer_s=60.0),
}


@dataclass(frozen=True)
class ProofRequest:
    """What to run: the size, the seed, the store, and perhaps a fault to inject.

    `only`: only this kind of disruption on PostgreSQL. `server`: this PostgreSQL version instead of the newest.
    """

    size: Size
    seed: int
    store: str | None = None
    fault: str | None = None
    only: str | None = None
    server: str | None = None

    @property
    def sqlite(self) -> bool:
        return self.store is None or self.store.startswith("sqlite:")

    @property
    def postgres(self) -> bool:
        return self.store is None or self.store.startswith(("postgresql:", "postgres:"))


def draw_seed() -> int:
    return secrets.randbelow(1_000_000)


def prove(request: ProofRequest, root: Path, progress: Progress) -> Proof:
    """Run the requested parts one after another."""
    size, seed, proof = request.size, request.seed, Proof(request.seed)
    began_s = time.monotonic()
    if size.schedules != 0:
        progress(f"Simulating schedules, starting with seed {_first(seed)} …")
        proof.schedules = run_schedules(_first(seed), size.schedules, size.schedule_s, progress)
    proof.mutants = kill_mutants(size.mutant_seeds, progress)
    if size.images and request.sqlite:
        progress(f"Checking {size.images} disk images after power cuts …")
        proof.disk = cut_power_often(size.images, seed, progress)
    if size.kills and request.sqlite:
        progress(f"Killing the daemon on SQLite {size.kills} times under load …")
        proof.sqlite = _kill_on_sqlite(request, root / SQLITE, progress)
    if (size.rounds or size.writer_s) and request.postgres:
        _disrupt_postgres(request, root / POSTGRES, proof, progress)
    proof.duration_s = time.monotonic() - began_s
    return proof


def check_request(request: ProofRequest) -> None:
    """Refuse a request that cannot be run, before anything is started."""
    if not (request.sqlite or request.postgres):
        raise BadInput("--store takes sqlite:///PATH or postgresql://USER@HOST/DATABASE")
    if request.store is not None and request.only in SERVER_KINDS:
        raise BadInput(
            f"--only {request.only!r} kills the server itself and works only without --store, on a server started here"
        )
    if request.server is not None:
        _check_server(request.server)
    if request.store is None:
        return
    if request.sqlite:
        folder = _folder_of(request.store)
        if not folder.is_dir():
            raise NotFound(f"--store: the folder {folder} does not exist; name a file in an existing folder")
        return
    if find_spec("asyncpg") is None:
        raise BadConfig(NO_DRIVER)
    from holdfast.proof.kills.database import Database

    place = Database(request.store)
    try:
        place.rows("SELECT 1")
    except Exception as error:
        raise StoreError(f"{shown_url(request.store)} cannot be reached: {describe(error)}") from error


def _check_server(version: str) -> None:
    from holdfast.proof.kills.server import find_programs

    if find_programs(version) is None:
        raise NotFound(f"--server: PostgreSQL {version} was not found on this machine")


@contextmanager
def work_folder(request: ProofRequest) -> Iterator[Path]:
    """A temporary folder, beside the SQLite file if one was named, so that the proof runs on that disk."""
    parent = _folder_of(request.store) if request.store is not None and request.sqlite else None
    root = Path(tempfile.mkdtemp(prefix="holdfast-prove-", dir=parent))
    try:
        yield root
    except KeyboardInterrupt:
        shutil.rmtree(root, ignore_errors=True)
        raise


def _folder_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///")).absolute().parent


def _first(seed: int) -> int:
    """The first seed of the simulation. Consecutive proof seeds get ranges 1,000 apart."""
    return 1 + seed * 1000


def _kill_on_sqlite(request: ProofRequest, root: Path, progress: Progress) -> Report:
    root.mkdir()
    began_s = time.monotonic()
    plan = SqlitePlan(request.seed)
    if request.fault in FAULTS:
        plan = SqlitePlan(request.seed, drain_s=FAULTY_DRAIN_S, fault=request.fault)
    evidence = SqliteCampaign(SqliteSetup(root, plan), request.size.kills, progress).run()
    return _judge(evidence, request, root, began_s)


def _judge(evidence: Evidence, request: ProofRequest, root: Path, began_s: float) -> Report:
    report = Report(evidence, check(evidence), request.seed, time.monotonic() - began_s)
    if not report.ok:
        write_violations(report, root)
    return report


def _disrupt_postgres(request: ProofRequest, root: Path, proof: Proof, progress: Progress) -> None:
    from holdfast.proof.kills.server import NO_SERVER, OwnServer, find_programs

    if find_spec("asyncpg") is None:
        proof.skipped.append(NO_DRIVER)
        progress(NO_DRIVER)
        return
    root.mkdir()
    with ExitStack() as stack:
        if request.store is not None:
            server, url = None, request.store
        elif (programs := find_programs(request.server)) is not None:
            server = stack.enter_context(OwnServer(programs))
            url = server.address
        else:
            proof.skipped.append(NO_SERVER)
            progress(NO_SERVER)
            return
        if request.size.rounds:
            proof.postgres = _disrupt(request, root, url, server, progress)
            if not proof.postgres.ok and server is not None:
                shutil.copyfile(server.log, root / "server.log")
        if request.size.writer_s:
            _write(request, url, proof, progress)


def _disrupt(request: ProofRequest, root: Path, url: str, server: object, progress: Progress) -> Report:
    from holdfast.proof.kills.database import with_schema
    from holdfast.proof.kills.postgres_campaign import PostgresCampaign
    from holdfast.proof.kills.postgres_setup import PostgresPlan, PostgresSetup
    from holdfast.proof.kills.server import OwnServer

    own = server if isinstance(server, OwnServer) else None
    whose = f"a temporary PostgreSQL {own.version}" if own is not None else "your PostgreSQL"
    progress(f"Disrupting two daemons on {whose} {request.size.rounds} times under load …")
    began_s = time.monotonic()
    plan = PostgresPlan(request.seed)
    if request.fault is not None:
        plan = PostgresPlan(request.seed, drain_s=FAULTY_DRAIN_S, fault=request.fault)
    setup = PostgresSetup(root, plan, with_schema(url, _schema()))
    evidence = PostgresCampaign(setup, own, request.size.rounds, progress, request.only).run()
    return _judge(evidence, request, root, began_s)


def _write(request: ProofRequest, url: str, proof: Proof, progress: Progress) -> None:
    from holdfast.proof.kills.database import Database, with_schema
    from holdfast.proof.kills.writers import WRITERS, write_for

    progress(f"Publishing with {WRITERS} concurrent writers for {request.size.writer_s:g} s …")
    place = with_schema(url, _schema())
    try:
        proof.writing = asyncio.run(write_for(place, request.size.writer_s, request.seed))
    finally:
        Database(place).drop()


def _schema() -> str:
    """A fresh schema name that nothing else uses."""
    return f"hf_prove_{secrets.token_hex(6)}"
