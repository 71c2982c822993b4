"""The SQLite setup: a home folder, a sink, a load, and a daemon that is started, killed and restarted."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.proof.kills.activity import Activity
from holdfast.proof.kills.evidence import Ended, Evidence, gather
from holdfast.proof.kills.load import ApiClient
from holdfast.proof.kills.processes import Companion, Daemon, Stuck, wait_until
from holdfast.proof.kills.records import Accepted, RecordFile, Started, read_records
from holdfast.proof.kills.snapshot import read_store
from holdfast.proof.receipt_faults import verify_url

CONTRACTS = {"ordered": True, "unordered": False}
CONFIG = """\
egress: {allow: ["127.0.0.0/8"]}
policies:
  prove: {schedule: [0.1, 0.2, 0.5, 1], attempts: 60, lease: 30}
"""
FIRST_DELIVERY_S = 300.0
LOAD_END_S = 330.0


@dataclass(frozen=True)
class SqlitePlan:
    """The load: `rate` events per second over `streams` streams, to a sink that fails a share `fail` of requests."""

    seed: int
    rate: float = 150.0
    streams: int = 20
    fail: float = 0.1
    concurrency: int | None = None
    drain_s: float = 120.0
    fault: str | None = None


class SqliteSetup:
    """A context manager: on exit it ends every process it started."""

    def __init__(self, root: Path, plan: SqlitePlan) -> None:
        self.root, self.plan = root, plan
        self.home, self.database = root / "home", root / "home" / "holdfast.db"
        self.log = root / "daemon.log"
        self.records = RecordFile(root / "lives.jsonl")
        self.ended: dict[int, Ended] = {}
        self.life, self.boot_s = -1, 1.0
        self.daemon: Daemon
        self._sink_file, self._load_file = root / "sink.jsonl", root / "load.jsonl"
        self.activity = Activity(self._sink_file, [self._load_file])
        self._companions: list[Companion] = []
        self._load: Companion
        self._sink_port = 0

    def __enter__(self) -> SqliteSetup:
        self.home.mkdir(mode=0o700)
        (self.home / "holdfast.yml").write_text(CONFIG)
        seed, fail = str(self.plan.seed), str(self.plan.fail)
        sink = Companion("sink", "--records", str(self._sink_file), "--seed", seed, "--fail", fail)
        self._companions.append(sink)
        self._sink_port = int(sink.first_line())
        return self

    def __exit__(self, *exception: object) -> None:
        if self.life >= 0:
            self.daemon.end()
        for companion in reversed(self._companions):
            companion.close(5)
        self.records.close()

    def open(self) -> None:
        """Start the daemon, add the contracts, start the load, and wait for the first delivery."""
        self.start()
        self.daemon.wait_answering()
        self.boot_s = (time.monotonic_ns() - self.daemon.started_ns) / 1e9
        client = ApiClient(self.home)
        for name, ordered in CONTRACTS.items():
            body = {
                "id": name, "target": {"url": f"http://127.0.0.1:{self._sink_port}/{name}"}, "ordered": ordered,
                "policy": "prove", "type_criterion": "prove.fact", "concurrency": self.plan.concurrency,
            }  # fmt: skip
            status, answer = client.post("/hooks/contracts", json.dumps(body).encode())
            if status != 201:
                raise Stuck(f"contract {name} was refused: {status} {answer}")
        client.close()
        self._load = Companion(
            "load", "--home", str(self.home), "--records", str(self._load_file), "--seed", str(self.plan.seed),
            "--rate", str(self.plan.rate), "--streams", str(self.plan.streams),
        )  # fmt: skip
        self._companions.append(self._load)
        self.wait_first_delivery()

    def start(self, *, waited: bool = False, crash: str | None = None) -> None:
        """Start the next daemon process."""
        self.life += 1
        settings = {"life": self.life, "crash": crash, "note": self.crash_note, "fault": self.plan.fault}
        self.daemon = Daemon(self.home, self.log, settings=settings)
        self.records.write(Started(self.life, waited, self.daemon.started_ns))

    @property
    def crash_note(self) -> Path:
        """The file in which a life that kills itself records that it did."""
        return self.root / f"crash-{self.life}.jsonl"

    def check(self) -> None:
        for companion in self._companions:
            companion.check()

    def wait_first_delivery(self) -> None:
        wait_until(f"the first delivery of life {self.life}", self._saw_delivery, FIRST_DELIVERY_S)

    def saw_open_request(self) -> bool:
        """Whether the sink has an unanswered request of this life."""
        self.activity.follow()
        return self.activity.open_requests(self.life) > 0

    def drain(self, progress: Callable[[str], None]) -> None:
        """Stop the load, wait until every delivery has ended, and stop the daemon."""
        self.daemon.wait_answering()
        self._load.close(LOAD_END_S)
        client = ApiClient(self.home)

        def drained() -> bool:
            status, figures = client.ask("GET", "/api/status")
            return status == 200 and figures["pending"] == 0 and figures["unrouted"] == 0

        try:
            wait_until("the end of every delivery", drained, self.plan.drain_s, every_s=0.1)
        except Stuck as stuck:
            progress(f"  {stuck}")  # the checker reports what is still pending
        client.close()
        self.stop()

    def stop(self) -> float:
        """Stop the daemon with SIGTERM and require exit code 0. Returns the seconds it took."""
        asked_s = time.monotonic()
        self.daemon.signal(signal.SIGTERM)
        code = self.daemon.wait()
        if code != 0:
            raise Stuck(f"the daemon exited with {code} after SIGTERM; see {self.log}")
        return time.monotonic() - asked_s

    def evidence(self) -> Evidence:
        """All records and rows, once no daemon has the store open."""
        files = (self._load_file, self._sink_file, self.root / "lives.jsonl")
        records = [record for path in files for record in read_records(path)]
        if not any(isinstance(record, Accepted) for record in records):
            raise Stuck("no event was accepted, so there is nothing to check")
        ordered = [name for name, is_ordered in CONTRACTS.items() if is_ordered]
        faults = verify_url(f"sqlite:///{self.database}")
        return gather(records, read_store(self.database), ordered, CONTRACTS, self.ended, receipt_faults=faults)

    def _saw_delivery(self) -> bool:
        self.activity.follow()
        return self.activity.arrived[self.life] > 0
