"""The load: a separate process that posts events at a steady rate and records which were accepted.

A post without a response is repeated with the same key until there is one; until then its outcome is unknown. The
process ends when its stdin is closed, after the last response.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import time
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from holdfast.proof.kills.records import Accepted, RecordFile, Refused, Sent, digest_json

WORKERS = 24
ANSWER_S = 10.0
UNKNOWN_S = 300.0
PAUSE_S = 0.03
STREAMED = 0.7
WORDS = ("kelp", "reef", "naïve", "汐", "🌊", "tab\tnew\nline", '"quoted"', "\\", "")


class Load:
    def __init__(self, home: Path, records: RecordFile, seed: int, rate: float, streams: int, first: int = 0) -> None:
        self._home, self._records, self._seed, self._streams = home, records, seed, streams
        self._every_s = 1 / rate
        self._lock, self._next_s, self._count = Lock(), time.monotonic(), first
        self.stopping = Event()

    def work(self) -> None:
        """One of several workers: post the next event, and repeat it until it is answered."""
        client = ApiClient(self._home)
        while (turn := self._turn()) is not None:
            self._post(client, turn)

    def _turn(self) -> int | None:
        with self._lock:
            if self.stopping.wait(max(0.0, self._next_s - time.monotonic())):
                return None
            # Posts missed while the daemon was down are not made up for: the rate stays steady.
            self._next_s = max(self._next_s, time.monotonic() - self._every_s) + self._every_s
            self._count += 1
            return self._count

    def _post(self, client: ApiClient, turn: int) -> None:
        event = make_event(self._seed, turn, self._streams)
        key = event["dedup_key"]
        self._records.write(Sent(key, event["stream"], digest_json(event["payload"]), time.monotonic_ns()))
        body = json.dumps(event).encode()
        deadline_s = time.monotonic() + UNKNOWN_S
        while time.monotonic() < deadline_s:
            status, answer = client.post("/api/events", body)
            if status in (200, 201):
                self._records.write(
                    Accepted(
                        key, answer["id"], answer["stream"], answer["seq"], answer["duplicate"], time.monotonic_ns()
                    )
                )
                return
            if 400 <= status < 500 and status != 401:  # 401: another process took the port of a killed daemon
                self._records.write(Refused(key, status, str(answer)[:500]))
                return
            time.sleep(PAUSE_S)


class ApiClient:
    """A connection to the daemon that the home's address file names. Reconnects when it breaks."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """The status and the response body; status 0 if there was no response."""
        return self.ask("POST", path, body)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
        try:
            if self._connection is None:
                address = urlsplit((self._home / "address").read_text().strip())
                assert address.hostname
                self._connection = http.client.HTTPConnection(address.hostname, address.port, timeout=ANSWER_S)
            headers = {
                "Authorization": f"Bearer {(self._home / 'token').read_text().strip()}",
                "Content-Type": "application/json",
            }
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            answer = json.loads(response.read() or b"{}")
            return response.status, answer if isinstance(answer, dict) else {"items": answer}
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            return 0, {}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def make_event(seed: int, turn: int, streams: int) -> dict[str, Any]:
    """The event with number `turn`. The same seed gives the same event."""
    chance = random.Random(f"{seed}/{turn}")
    key = f"prove-{seed}-{turn:07d}"
    stream = f"lane:{chance.randrange(streams):02d}" if chance.random() < STREAMED else None
    words = [chance.choice(WORDS) for _ in range(chance.randrange(8))]
    payload = {"key": key, "words": words, "ratio": chance.random(), "nested": {"turn": turn, "none": None}}
    return {"type": "prove.fact", "stream": stream, "payload": payload, "dedup_key": key}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first event")
    given = parser.parse_args()
    load = Load(given.home, RecordFile(given.records), given.seed, given.rate, given.streams, given.first)
    workers = [Thread(target=load.work) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    sys.stdin.read()
    load.stopping.set()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
