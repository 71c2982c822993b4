"""The PostgreSQL setup: three daemons on one database, a load for each, two publishers, and a sink.

On servers of its own, each daemon reaches the database through a network that can be cut, and the clock of the last
daemon is wrong.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.proof.kills.activity import Activity
from holdfast.proof.kills.database import Database
from holdfast.proof.kills.evidence import Ended, Evidence, gather
from holdfast.proof.kills.load import ApiClient
from holdfast.proof.kills.processes import Companion, Daemon, Stuck, wait_until
from holdfast.proof.kills.records import Accepted, RecordFile, Started, read_records
from holdfast.proof.kills.server_pair import pair_address
from holdfast.proof.kills.sqlite_setup import CONFIG, CONTRACTS
from holdfast.proof.receipt_faults import verify_url

DAEMONS = 3
PUBLISHERS = 2
WRONG_CLOCK_MS = -2 * 3600 * 1000
RATES = {"limited": 100.0}
"""Contracts with a rate, in requests per second, besides those of `CONTRACTS`."""
TURNS = 1_000_000
WAIT_MAX_S = 300.0
LOAD_END_S = 330.0
BACKLOG = 300
CATCH_UP_S = 30.0


@dataclass(frozen=True)
class PostgresPlan:
    """The load on the daemons. Leases are short, so that a stop of a few seconds outlasts them."""

    seed: int
    rate: float = 8.0
    streams: int = 12
    fail: float = 0.1
    lease_ms: int = 5_000
    drain_s: float = 120.0
    fault: str | None = None


class PostgresSetup:
    """A context manager: on exit it ends every process it started, and drops the schema."""

    def __init__(self, root: Path, plan: PostgresPlan, url: str, ports: Sequence[int] = ()) -> None:
        """`ports`: of the servers that the campaign started; a network is put before them."""
        self.root, self.plan, self.url, self._ports = root, plan, url, ports
        self.networks: list[Companion] = []
        self._urls = [url] * DAEMONS
        self.database = Database(url)
        self.homes = [root / f"home{number}" for number in range(DAEMONS)]
        self.log = root / "daemons.log"
        self.records = RecordFile(root / "lives.jsonl")
        self.daemons: list[Daemon] = []
        self.lives: list[int] = []
        self.ended: dict[int, Ended] = {}
        self._life, self._prepared = -1, False
        self._sink_file = root / "sink.jsonl"
        self._load_files = [root / f"load{number}.jsonl" for number in range(DAEMONS + PUBLISHERS)]
        self.activity = Activity(self._sink_file, self._load_files)
        self._companions: list[Companion] = []
        self._sink_port = 0

    def __enter__(self) -> PostgresSetup:
        for home in self.homes:
            home.mkdir(mode=0o700)
            (home / "holdfast.yml").write_text(CONFIG)
        seed, fail = str(self.plan.seed), str(self.plan.fail)
        sink = Companion("sink", "--records", str(self._sink_file), "--seed", seed, "--fail", fail)
        self._companions.append(sink)
        self._sink_port = int(sink.first_line())
        if self._ports:
            self._urls = [self._make_network() for _ in range(DAEMONS)]
        return self

    def _make_network(self) -> str:
        """Put a proxy before the servers. Returns the store's URL through it."""
        network = Companion("proxy", *(word for port in self._ports for word in ("--port", str(port))))
        self.networks.append(network)
        ports = [int(port) for port in network.first_line().split()]
        return f"{pair_address(ports)}&schema={self.database.schema}"

    def __exit__(self, *exception: object) -> None:
        """Also works when the server itself is gone."""
        for daemon in self.daemons:
            daemon.end()
        for companion in [*reversed(self._companions), *self.networks]:
            companion.close(5)
        self.records.close()
        if self._prepared:
            try:
                self.database.drop()
            except Exception:
                if exception[0] is None:  # otherwise the exception that ended the campaign matters more
                    raise

    @property
    def contracts(self) -> list[str]:
        return [*CONTRACTS, *RATES]

    @property
    def tag(self) -> str:
        """The common prefix of the session names of this campaign."""
        return self.database.schema

    def open(self) -> None:
        """Create tables, daemons and contracts, start the load, and wait for the first delivery."""
        self._prepared = True
        self.database.prepare()
        for number in range(DAEMONS):
            self.start(number)
        for daemon in self.daemons:
            daemon.wait_answering(WAIT_MAX_S)
        client = ApiClient(self.homes[0])
        for name in self.contracts:
            body = {
                "id": name, "target": {"url": f"http://127.0.0.1:{self._sink_port}/{name}"}, "policy": "prove",
                "ordered": CONTRACTS.get(name, False), "type_criterion": "prove.fact",
                "rate": f"{RATES[name]:g}/s" if name in RATES else None,
            }  # fmt: skip
            status, answer = client.post("/hooks/contracts", json.dumps(body).encode())
            if status != 201:
                raise Stuck(f"contract {name} was refused: {status} {answer}")
        client.close()
        self._start_load()
        self.wait_delivery(0)

    def start(self, number: int, *, waited: bool = False) -> None:
        """Start the next process of one of the daemons."""
        self._life += 1
        settings = {
            "life": self._life, "tag": f"{self.tag}-{self._life}", "lease_ms": self.plan.lease_ms,
            "fault": self.plan.fault, "clock_ms": WRONG_CLOCK_MS if self._ports and number == DAEMONS - 1 else None,
        }  # fmt: skip
        daemon = Daemon(self.homes[number], self.log, self._urls[number], settings)
        if number == len(self.daemons):
            self.daemons.append(daemon)
            self.lives.append(self._life)
        else:
            self.daemons[number], self.lives[number] = daemon, self._life
        self.records.write(Started(self._life, waited, daemon.started_ns))

    def check(self) -> None:
        for companion in (*self._companions, *self.networks):
            companion.check()
        for number, daemon in enumerate(self.daemons):
            if not daemon.alive:
                raise Stuck(f"daemon {number} exited unexpectedly; see {self.log}")

    def wait_delivery(self, since_ns: int, life: int | None = None) -> None:
        """Wait for a delivery after `since_ns`, or with `life` for any delivery of that life."""

        def arrived() -> bool:
            self.activity.follow()
            return self.activity.latest_ns > since_ns if life is None else self.activity.arrived[life] > 0

        wait_until("the next delivery", arrived, WAIT_MAX_S, every_s=0.01)

    def saw_open_request(self, life: int) -> bool:
        self.activity.follow()
        return self.activity.open_requests(life) > 0

    def catch_up(self) -> None:
        """Wait for a short backlog, so that disruptions hit normal work and not only catching up."""
        with contextlib.suppress(Stuck):
            wait_until("the backlog's end", lambda: self.database.backlog() < BACKLOG, CATCH_UP_S, every_s=0.2)

    def drain(self, progress: Callable[[str], None]) -> None:
        """Stop the load, wait until every delivery has ended, and stop the daemons."""
        for daemon in self.daemons:
            daemon.wait_answering(WAIT_MAX_S)
        for load in self._companions[:0:-1]:
            load.close(LOAD_END_S)
        left = self.database.backlog()
        while left:
            before = left

            def fewer(most: int = before) -> bool:
                return self.database.backlog() < most

            try:
                wait_until("the end of any delivery", fewer, self.plan.drain_s, every_s=0.2)
            except Stuck as stuck:
                progress(f"  {stuck}")  # the checker reports what is still pending
                break
            left = self.database.backlog()
        for daemon in self.daemons:
            daemon.signal(signal.SIGTERM)
        for number, daemon in enumerate(self.daemons):
            if (code := daemon.wait(WAIT_MAX_S)) != 0:
                raise Stuck(f"daemon {number} exited with {code} after SIGTERM; see {self.log}")

    def evidence(self) -> Evidence:
        """All records and rows, once the daemons have stopped."""
        files = (*self._load_files, self._sink_file, self.root / "lives.jsonl")
        records = [record for path in files for record in read_records(path)]
        if not any(isinstance(record, Accepted) for record in records):
            raise Stuck("no event was accepted, so there is nothing to check")
        ordered = [name for name, is_ordered in CONTRACTS.items() if is_ordered]
        store = self.database.read_store()
        holders = self.database.read_holders(list(store.links), self.plan.lease_ms)
        business = self.database.business()
        return gather(
            records, store, ordered, self.contracts, self.ended, holders=holders, business=business, rates=RATES,
            receipt_faults=verify_url(self.url),
        )  # fmt: skip

    def _start_load(self) -> None:
        seed, streams = str(self.plan.seed), str(self.plan.streams)
        for number, records in enumerate(self._load_files):
            shared = ["--records", str(records), "--seed", seed, "--streams", streams]
            if number < DAEMONS:
                home, first = str(self.homes[number]), str(number * TURNS)
                load = Companion("load", *shared, "--home", home, "--rate", str(self.plan.rate), "--first", first)
            else:
                rate = ["--rate", str(self.plan.rate / 2), "--tag", self.tag, "--number", str(number)]
                load = Companion("publisher", *shared, *rate, environment={"HOLDFAST_PROVE_STORE": self.url})
            self._companions.append(load)
