"""The whole proof: simulation, power cuts, kills on SQLite, trouble on PostgreSQL, many writers; and one table."""

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
from holdfast.egress.engine import describe
from holdfast.home import shown_url
from holdfast.proof.kills.campaign import Campaign
from holdfast.proof.kills.checker import check
from holdfast.proof.kills.evidence import Evidence
from holdfast.proof.kills.faults import FAULTS
from holdfast.proof.kills.keeping import write_stories
from holdfast.proof.kills.pooled import Say, cut_power_often, kill_mutants, run_schedules
from holdfast.proof.kills.report import Report
from holdfast.proof.kills.scene import Plan, Scene
from holdfast.proof.kills.strikes import OF_THE_SERVER
from holdfast.proof.kills.table import Proof

FAULTY_DRAIN_S = 10.0
NO_DRIVER = "no driver for PostgreSQL is installed: pip install 'holdfast[postgres]' brings it"
SQLITE, POSTGRES = "sqlite", "postgresql"


@dataclass(frozen=True)
class Size:
    """How much of each part. `schedules` may be bounded by `schedule_s` instead. 0: not at all."""

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
class Wish:
    """What is to be proven: how much, from which seed, on which kind of store, and perhaps with a fault put in.

    `only`: this kind of trouble on PostgreSQL and no other. `server`: this version of PostgreSQL, not the newest.
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


def prove(wish: Wish, root: Path, say: Say) -> Proof:
    """Run every part that was wished for, one after another."""
    size, seed, proof = wish.size, wish.seed, Proof(wish.seed)
    began_s = time.monotonic()
    if size.schedules != 0:
        say(f"Simulating schedules from seed {_first(seed)} on …")
        proof.schedules = run_schedules(_first(seed), size.schedules, size.schedule_s, say)
    proof.mutants = kill_mutants(size.mutant_seeds, say)
    if size.images and wish.sqlite:
        say(f"Cutting the power {size.images} times …")
        proof.disk = cut_power_often(size.images, seed, say)
    if size.kills and wish.sqlite:
        say(f"Killing the daemon on SQLite {size.kills} times under load …")
        proof.sqlite = _kill_on_sqlite(wish, root / SQLITE, say)
    if (size.rounds or size.writer_s) and wish.postgres:
        _trouble_on_postgres(wish, root / POSTGRES, proof, say)
    proof.duration_s = time.monotonic() - began_s
    return proof


def check_store(wish: Wish) -> None:
    """Refuse a store that cannot be had before anything is begun."""
    if not (wish.sqlite or wish.postgres):
        raise BadInput("--store takes sqlite:///PATH or postgresql://USER@HOST/DATABASE")
    if wish.store is not None and wish.only in OF_THE_SERVER:
        raise BadInput(f"--only {wish.only!r} strikes the server itself, which is done only to one of our own")
    if wish.server is not None:
        _check_server(wish.server)
    if wish.store is None:
        return
    if wish.sqlite:
        folder = _folder_of(wish.store)
        if not folder.is_dir():
            raise NotFound(f"--store: the folder {folder} does not exist; name a file in one that does")
        return
    if find_spec("asyncpg") is None:
        raise BadConfig(NO_DRIVER)
    from holdfast.proof.kills.database import Database

    place = Database(wish.store)
    try:
        place.rows("SELECT 1")
    except Exception as error:
        raise StoreError(f"{shown_url(wish.store)} cannot be reached: {describe(error)}") from error


def _check_server(version: str) -> None:
    from holdfast.proof.kills.server import find_programs

    if find_programs(version) is None:
        raise NotFound(f"--server: no PostgreSQL {version} was found here")


@contextmanager
def workplace(wish: Wish) -> Iterator[Path]:
    """A folder of our own; beside the SQLite file that was named, so that it is that disk which is tried."""
    beside = _folder_of(wish.store) if wish.store is not None and wish.sqlite else None
    root = Path(tempfile.mkdtemp(prefix="holdfast-prove-", dir=beside))
    try:
        yield root
    except KeyboardInterrupt:
        shutil.rmtree(root, ignore_errors=True)
        raise


def _folder_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///")).absolute().parent


def _first(seed: int) -> int:
    """Where the simulation's seeds begin: far apart for neighbours."""
    return 1 + seed * 1000


def _kill_on_sqlite(wish: Wish, root: Path, say: Say) -> Report:
    root.mkdir()
    began_s = time.monotonic()
    plan = Plan(wish.seed)
    if wish.fault in FAULTS:
        plan = Plan(wish.seed, drain_s=FAULTY_DRAIN_S, fault=wish.fault)
    evidence = Campaign(Scene(root, plan), wish.size.kills, say).run()
    return _judge(evidence, wish, root, began_s)


def _judge(evidence: Evidence, wish: Wish, root: Path, began_s: float) -> Report:
    report = Report(evidence, check(evidence), wish.seed, time.monotonic() - began_s)
    if not report.ok:
        write_stories(report, root)
    return report


def _trouble_on_postgres(wish: Wish, root: Path, proof: Proof, say: Say) -> None:
    from holdfast.proof.kills.server import NO_SERVER, OwnServer, find_programs

    if find_spec("asyncpg") is None:
        proof.skipped.append(NO_DRIVER)
        say(NO_DRIVER)
        return
    root.mkdir()
    with ExitStack() as stack:
        if wish.store is not None:
            server, url = None, wish.store
        elif (programs := find_programs(wish.server)) is not None:
            server = stack.enter_context(OwnServer(programs))
            url = server.address
        else:
            proof.skipped.append(NO_SERVER)
            say(NO_SERVER)
            return
        if wish.size.rounds:
            proof.postgres = _storm(wish, root, url, server, say)
            if not proof.postgres.ok and server is not None:
                shutil.copyfile(server.log, root / "server.log")
        if wish.size.writer_s:
            _write(wish, url, proof, say)


def _storm(wish: Wish, root: Path, url: str, server: object, say: Say) -> Report:
    from holdfast.proof.kills.database import with_schema
    from holdfast.proof.kills.fleet import Fleet, FleetPlan
    from holdfast.proof.kills.server import OwnServer
    from holdfast.proof.kills.storm import Storm

    own = server if isinstance(server, OwnServer) else None
    whose = f"a PostgreSQL {own.version} of our own" if own is not None else "your PostgreSQL"
    say(f"Striking two daemons on {whose} {wish.size.rounds} times under load …")
    began_s = time.monotonic()
    plan = FleetPlan(wish.seed)
    if wish.fault is not None:
        plan = FleetPlan(wish.seed, drain_s=FAULTY_DRAIN_S, fault=wish.fault)
    fleet = Fleet(root, plan, with_schema(url, _schema()))
    evidence = Storm(fleet, own, wish.size.rounds, say, wish.only).run()
    return _judge(evidence, wish, root, began_s)


def _write(wish: Wish, url: str, proof: Proof, say: Say) -> None:
    from holdfast.proof.kills.database import Database, with_schema
    from holdfast.proof.kills.writers import WRITERS, write_for

    say(f"Letting {WRITERS} writers publish for {wish.size.writer_s:g} s …")
    place = with_schema(url, _schema())
    try:
        proof.writing = asyncio.run(write_for(place, wish.size.writer_s, wish.seed))
    finally:
        Database(place).drop()


def _schema() -> str:
    """A schema of our own that nobody else can have."""
    return f"hf_prove_{secrets.token_hex(6)}"
