"""All parts of the proof: simulation, power cuts, kills on SQLite, disruptions on PostgreSQL, writers, publishing."""

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
from typing import TYPE_CHECKING

from holdfast.domain.errors import BadConfig, BadInput, NotFound, StoreError
from holdfast.domain.extras import install_command
from holdfast.egress.attempt_log import describe
from holdfast.home import masked_url
from holdfast.proof.kills.artifacts import write_violations
from holdfast.proof.kills.checker import check
from holdfast.proof.kills.disruptions import OWN_KINDS
from holdfast.proof.kills.evidence import Evidence
from holdfast.proof.kills.faults import FAULTS
from holdfast.proof.kills.parallel import Progress, cut_power_often, kill_mutants, run_schedules
from holdfast.proof.kills.report import Report
from holdfast.proof.kills.sqlite_campaign import SqliteCampaign
from holdfast.proof.kills.sqlite_setup import SqlitePlan, SqliteSetup
from holdfast.proof.kills.table import Proof
from holdfast.proof.messages.campaign import MessageCampaign

if TYPE_CHECKING:
    from holdfast.proof.kills.server_pair import ServerPair

FAULTY_DRAIN_S = 10.0
NO_DRIVER = f"PostgreSQL was skipped: no driver is installed. Run: {install_command('postgres')}"
NO_TMUX = "Messages into agent sessions were skipped: tmux is not installed"
SQLITE, POSTGRES, PUBLISHING = "sqlite", "postgresql", "publishing"


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
    publishing_kills: int = 0
    leader_losses: int = 0
    messages: int = 0


SIZES = {
    "quick": Size(None, 15.0, 0, 500, kills=10, rounds=9, writer_s=5.0, publishing_kills=5, messages=3),
    "default": Size(None, 90.0, 1000, 20_000, 200, 100, 60.0, publishing_kills=20, leader_losses=2, messages=27),
    "full": Size(200_000, None, 1000, 20_000, 800, 260, 60.0, publishing_kills=50, leader_losses=10, messages=180),
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
    if size.messages and request.sqlite:
        _kill_among_messages(request, root / "messages", None, proof, progress)
    if (size.rounds or size.writer_s or size.messages) and request.postgres:
        _disrupt_postgres(request, root / POSTGRES, proof, progress)
    if (size.publishing_kills or size.leader_losses) and request.store is None:
        _disrupt_publishing(request, root / PUBLISHING, proof, progress)
    proof.duration_s = time.monotonic() - began_s
    return proof


def check_request(request: ProofRequest) -> None:
    """Refuse a request that cannot be run, before anything is started."""
    if not (request.sqlite or request.postgres):
        raise BadInput("--store takes sqlite:///PATH or postgresql://USER@HOST/DATABASE")
    if request.store is not None and request.only in OWN_KINDS:
        raise BadInput(f"--only {request.only!r} works only without --store, on servers started here")
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
        raise StoreError(f"{masked_url(request.store)} cannot be reached: {describe(error)}") from error


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


def _kill_among_messages(request: ProofRequest, root: Path, url: str | None, proof: Proof, progress: Progress) -> None:
    """Messages into agent sessions, with kills of the daemon, the agent and tmux around the paste."""
    if shutil.which("tmux") is None:
        proof.skipped.append(NO_TMUX)
        progress(NO_TMUX)
        return
    progress(f"Killing around {request.size.messages} deliveries of messages on {POSTGRES if url else SQLITE} …")
    report = MessageCampaign(root, url, request.seed, lambda text: None).run(request.size.messages)
    proof.messages[POSTGRES if url else SQLITE] = report


def _judge(evidence: Evidence, request: ProofRequest, root: Path, began_s: float) -> Report:
    report = Report(evidence, check(evidence), request.seed, time.monotonic() - began_s)
    if not report.ok:
        write_violations(report, root)
    return report


def _disrupt_postgres(request: ProofRequest, root: Path, proof: Proof, progress: Progress) -> None:
    from holdfast.proof.kills.server import NO_SERVER, find_programs
    from holdfast.proof.kills.server_pair import ServerPair

    if find_spec("asyncpg") is None:
        proof.skipped.append(NO_DRIVER)
        progress(NO_DRIVER)
        return
    root.mkdir()
    with ExitStack() as stack:
        if request.store is not None:
            servers, url = None, request.store
        elif (programs := find_programs(request.server)) is not None:
            servers = stack.enter_context(ServerPair(programs))
            servers.make_synchronous()
            url = servers.address
        else:
            proof.skipped.append(NO_SERVER)
            progress(NO_SERVER)
            return
        if request.size.rounds:
            proof.postgres = _disrupt(request, root, url, servers, progress)
            if not proof.postgres.ok and servers is not None:
                shutil.copyfile(servers.primary.log, root / "server.log")
                shutil.copyfile(servers.standby.log, root / "standby.log")
        if request.size.writer_s:
            _write(request, url, proof, progress)
        if request.size.messages:
            _kill_among_messages_on(request, root / "messages", url, proof, progress)


def _kill_among_messages_on(request: ProofRequest, root: Path, url: str, proof: Proof, progress: Progress) -> None:
    from holdfast.proof.kills.database import Database, with_schema

    place = with_schema(url, _schema())
    try:
        _kill_among_messages(request, root, place, proof, progress)
    finally:
        Database(place).drop()


def _disrupt(request: ProofRequest, root: Path, url: str, servers: ServerPair | None, progress: Progress) -> Report:
    from holdfast.proof.kills.database import with_schema
    from holdfast.proof.kills.postgres_campaign import PostgresCampaign
    from holdfast.proof.kills.postgres_setup import DAEMONS, PostgresPlan, PostgresSetup

    whose = f"a temporary PostgreSQL {servers.version}" if servers is not None else "your PostgreSQL"
    progress(f"Disrupting {DAEMONS} daemons on {whose} {request.size.rounds} times under load …")
    began_s = time.monotonic()
    plan = PostgresPlan(request.seed)
    if request.fault is not None:
        plan = PostgresPlan(request.seed, drain_s=FAULTY_DRAIN_S, fault=request.fault)
    ports = servers.ports if servers is not None else ()
    setup = PostgresSetup(root, plan, with_schema(url, _schema()), ports)
    evidence = PostgresCampaign(setup, servers, request.size.rounds, progress, request.only).run()
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


def _disrupt_publishing(request: ProofRequest, root: Path, proof: Proof, progress: Progress) -> None:
    from holdfast.proof.streams.campaign import NO_SERVERS, has_servers, kill_servers, lose_leaders

    if not has_servers():
        proof.skipped.append(NO_SERVERS)
        progress(NO_SERVERS)
        return
    size, seed = request.size, request.seed
    if size.publishing_kills:
        progress(f"Killing daemon, Redis and NATS {size.publishing_kills} times while events are published …")
        proof.publishing = kill_servers(root / "kills", size.publishing_kills, seed, progress)
    if size.leader_losses:
        progress(f"A JetStream cluster of three loses its leader {size.leader_losses} times under load …")
        proof.cluster = lose_leaders(root / "leaders", size.leader_losses, seed, progress)


def _schema() -> str:
    """A fresh schema name that nothing else uses."""
    return f"hf_prove_{secrets.token_hex(6)}"
