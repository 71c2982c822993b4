"""Run inside a mount namespace: a real daemon under load, on a small disk that is filled and emptied again."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from small_disk import MIB, fill

from daemon import Daemon, shop, wait_until
from holdfast.domain.event import new_event
from holdfast.domain.ids import make_id
from holdfast.ingress.spool import write_event
from rawhttp import exchange, post

CONFIG = "disk: {low_water_bytes: 8388608, ballast_bytes: 2097152}\negress: {allow: [127.0.0.0/8]}\n"
PAYLOAD = b"x" * 5000
DRAINED_S = 60.0


class Load:
    """Posts events and writes spool records until it is stopped, and records what was accepted."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.accepted: list[str] = []
        self.refused: list[tuple[int, str | None, str]] = []
        self.spool_refused = 0
        self.odd: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._post, self._spool)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def post_one(self) -> bool:
        """Whether one more was accepted."""
        body = b'{"type":"order.posted","payload":"' + PAYLOAD + b'"}'
        answer = exchange(self._daemon.url, post("/api/events", self._daemon.token, body))
        if answer.status == 201:
            self.accepted.append(answer.json["id"])
        elif answer.status == 503:
            self.refused.append((answer.status, answer.headers.get("retry-after"), answer.json["detail"]))
        else:
            self.odd.append(f"{answer.status}: {answer.body[:200]!r}")
        return answer.status == 201

    def _post(self) -> None:
        while not self._stop.wait(0.01):
            self.post_one()

    def _spool(self) -> None:
        number = 0
        while not self._stop.wait(0.02):
            number += 1
            id = make_id("evt", time.time_ns() // 1_000_000, number.to_bytes(10, "big"))
            try:
                write_event(self._daemon.home / "spool", new_event("order.spooled", PAYLOAD.decode()), id)
            except OSError:
                self.spool_refused += 1
            else:
                self.accepted.append(id)


def story(home: Path) -> None:
    filler = home / "filler"
    (home.parent / "shop").mkdir()
    with shop(home.parent / "shop", home=home, config=CONFIG) as daemon:
        pid = daemon.pid
        load = Load(daemon)
        wait_until(lambda: len(load.accepted) > 100, 30, lambda: f"no load: {load.odd}\n{daemon.log}")
        fill(filler, 0)
        wait_until(lambda: len(load.refused) > 5 and load.spool_refused > 5, 30,
                   lambda: f"nothing is refused: {load.refused[:3]} {load.spool_refused}\n{daemon.log}")  # fmt: skip
        said = daemon.cli("emit", "order.cli", "--json")
        assert said.code == 1, said
        assert "free in" in said.err or "disk is full" in said.err, said
        assert said.out == ""
        assert daemon.request("GET", "/api/status")[0] == 200, "looking is always possible"
        fill(filler, 0)
        time.sleep(1)
        load.stop()
        waiting = daemon.request("GET", "/api/status")[1]
        filler.unlink()
        freed = time.monotonic()
        wait_until(load.post_one, DRAINED_S, lambda: f"intake stays closed\n{daemon.log}")
        opened = time.monotonic() - freed
        drained(daemon)
        print(
            f"accepted {len(load.accepted)}, refused {len(load.refused)} and {load.spool_refused} spool records; when "
            f"space came back {waiting['spooled']} waited in the spool and {waiting['pending']} in the store; "
            f"intake open after {opened:.1f} s, all drained after {time.monotonic() - freed:.1f} s"
        )
        assert daemon.pid == pid
        assert load.odd == [], load.odd[:3]
        assert all(retry == "1" for _, retry, _ in load.refused)
        assert len(set(load.accepted)) == len(load.accepted)
        for id in load.accepted:
            status, event = daemon.request("GET", f"/api/events/{id}")
            assert status == 200, f"{id} was accepted and is lost"
            assert [one["state"] for one in event["deliveries"]] == ["delivered"], event
        assert daemon.request("GET", "/api/receipts/verify")[1]["ok"] is True
        assert daemon.stop() == 0


def drained(daemon: Daemon) -> None:
    def empty() -> bool:
        status, found = daemon.request("GET", "/api/status")
        return status == 200 and found["spooled"] == 0 and found["unrouted"] == 0 and found["pending"] == 0

    wait_until(empty, DRAINED_S, lambda: f"it does not drain: {daemon.request('GET', '/api/status')}\n{daemon.log}")


if __name__ == "__main__":
    place = Path(sys.argv[1]) / "disk"
    place.mkdir(mode=0o700)
    options = f"size={40 * MIB},mode=700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]).returncode:
        sys.exit(77)
    story(place)
    print("done")
