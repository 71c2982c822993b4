"""The web page over a large store: the time of every screen, and its bytes for a browser with an empty cache."""

from __future__ import annotations

import http.client
import json
import shutil
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.daemon import Daemon
from benchmarks.latency import fresh
from benchmarks.measure import Results, percentile, progress
from benchmarks.orders import Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from benchmarks.stored import fill_stored

STORES = ("sqlite", "postgres")
STATIC = ("page.css", "page.js", "live.js", "keyboard.js", "icon-trouble.svg")
REQUESTS = 20
LIMIT_S = 120.0
STALE_S = 2.1  # what needs attention is looked up again after two seconds; the first request pays for it
BYTES_EACH = 3000  # on disk at most, with indexes and the log during writing
SCREENS = {
    "overview": "/",
    "events": "/events",
    "search": "/events?q=region%3Deu",
    "search in vain": "/events?q=nothing-has-these-words",
    "event": "/events/{event}",
    "sessions": "/sessions",
    "session": "/sessions/claude-1",
    "contracts": "/contracts",
    "contract": "/contracts/contract-01",
    "dead letters": "/dead-letters",
    "dead letters of a contract": "/dead-letters?contract=contract-00",
    "streams": "/streams",
    "stream": "/streams/order:1",
}


class Answer(NamedTuple):
    ms: float
    body: bytes


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for store in STORES:
        count = sizes.web_events[store]
        try:
            _need_room(folder, count)
            with fresh(store, folder, server, "bench_web") as url:
                began = time.monotonic()
                fill_stored(url, count)
                progress(f"  {store}: {count:,} events, filled in {time.monotonic() - began:.0f} s")
                for _ in range(sizes.times):
                    _measure(results, store, url, folder)
        except (Failed, OSError) as error:
            results.miss(f"web.{store}", str(error))
    _sum_up(results)


def _need_room(folder: Path, count: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < count * BYTES_EACH:
        raise Failed(f"{count:,} events need {count * BYTES_EACH / 1e9:.1f} GB of disk; {free / 1e9:.1f} GB are free")


def _measure(results: Results, store: str, url: str, folder: Path) -> None:
    with Daemon(folder, url, app=None) as daemon:
        daemon.start()
        daemon.wait_ready()
        browser = Browser(daemon)
        results.add(f"web.{store}.first request", browser.get("/").ms, "ms")
        event = browser.an_event()
        static = sum(len(browser.get(f"/static/{name}").body) for name in STATIC)
        for name, path in SCREENS.items():
            time.sleep(STALE_S)
            answers = [browser.get(path.format(event=event)) for _ in range(REQUESTS)]
            results.add(f"web.{store}.{name}", answers[0].ms, "ms")
            results.add(f"web.{store}.{name}, again", percentile([answer.ms for answer in answers[1:]], 0.5), "ms")
            results.add(f"web.{store}.{name}, bytes", (len(answers[-1].body) + static) / 1000, "kB")


class Browser:
    """One connection with a token, which accepts compressed answers."""

    def __init__(self, daemon: Daemon) -> None:
        parts = urlsplit(daemon.url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT_S)
        token = (daemon.home / "token").read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}

    def get(self, path: str) -> Answer:
        began = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Failed(f"{path} answered {answer.status}: {body[:200]!r}")
        return Answer((time.perf_counter() - began) * 1000, body)

    def an_event(self) -> str:
        """An event that is not among the newest, with a dead delivery."""
        items = json.loads(self.get("/api/deliveries?state=dead&limit=50").body)["items"]
        return str(items[-1]["event_id"])


def _sum_up(results: Results) -> None:
    """The slowest screen and the largest."""
    medians = {name: figure.median for name, figure in results.figures.items() if name.startswith("web.")}
    times = [medians[name] for store in STORES for screen in SCREENS if (name := f"web.{store}.{screen}") in medians]
    sizes = [value for name, value in medians.items() if name.endswith(", bytes")]
    if times and sizes:
        results.add("web.first page", max(times), "ms")
        results.add("web.transferred", max(sizes), "kB")
