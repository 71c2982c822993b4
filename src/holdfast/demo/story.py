"""`holdfast demo`: runs in a temporary home with a real daemon, and checks each step."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from holdfast.domain.json_value import KnownJson
from holdfast.domain.signature import verify_hook, verify_standard

SECRET = "whsec_ZGVtb19zZWNyZXRfb2ZfdGhpcnR5X3R3b19ieXRlcyEh"
ORDERS = 12
TIMEOUT_S = 30.0


class Sink(ThreadingHTTPServer):
    """A webhook receiver that checks every signature, and answers 503 to its first two requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SinkHandler)
        self.requests = 0
        self.forged = 0
        self.received: list[tuple[str, int]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/orders"

    def take(self, headers: dict[str, str], body: bytes) -> int:
        self.requests += 1
        signed = verify_standard([SECRET], headers, body, int(time.time()))
        if not signed or not verify_hook([SECRET], body, headers.get("x-hook-signature", "")):
            self.forged += 1
            return 401
        if self.requests <= 2:
            return 503
        event = json.loads(body)
        self.received.append((event["id"], event["seq"]))
        return 204


class _SinkHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Sink)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.server.take({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Story:
    """Prints each step and records the result of each check."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.checks: dict[str, bool] = {}

    def print(self, text: str) -> None:
        if not self.quiet:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def check(self, name: str, passed: bool, text: str) -> None:
        self.checks[name] = bool(passed)
        self.print(f"  {'ok ' if passed else 'NO '} {text}")


class Demo:
    def __init__(self, folder: Path, story: Story) -> None:
        self.folder, self.story = folder, story
        self.database = folder / "shop.db"
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        (self.home / "holdfast.yml").write_text('egress:\n  allow: ["127.0.0.0/8"]\n')
        self.sink = Sink()
        self.daemon: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        self._open_shop()
        self._start()
        self._subscribe()
        self._place_orders()
        self._poison()
        self._verify()
        self._stop()

    def _open_shop(self) -> None:
        from holdfast.demo.shop import outbox

        self.story.print("1. A shop stores orders in its own SQLite file; Holdfast adds its tables to it.")
        os.environ["HOLDFAST_DEMO"] = str(self.folder)
        self.outbox = type(outbox)(f"sqlite:///{self.database}")
        self.outbox.migrate()
        with sqlite3.connect(self.database) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
            connection.execute("CREATE TABLE packed (order_id INTEGER PRIMARY KEY)")
        self.story.check("tables", self.database.exists(), "tables created in shop.db")

    def _start(self) -> None:
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")},
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_DEMO": str(self.folder),
        }
        (self.home / "address").unlink(missing_ok=True)
        self._log = (self.folder / "daemon.log").open("ab")
        self.daemon = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "up", "--port", "0", "--app", "holdfast.demo.shop:outbox"],
            env=environment, stdout=self._log, stderr=self._log, cwd=self.folder,
        )  # fmt: skip
        self._wait("the daemon to answer", lambda: (self.home / "address").exists())

    def _subscribe(self) -> None:
        self.story.print("2. A contract: every order.placed goes to a webhook, signed and in stream order.")
        status, _ = self._call(
            "POST",
            "/hooks/contracts",
            {
                "id": "notify-warehouse",
                "target": {"url": self.sink.url, "secret": SECRET},
                "type_criterion": {"match": "order.placed"},
                "ordered": True,
            },
        )
        self.story.check("contract", status == 201, "contract notify-warehouse is active")

    def _order(self, number: int, commit: bool = True) -> None:
        connection = sqlite3.connect(self.database, timeout=10)
        self.outbox.prepare(connection)
        connection.execute("INSERT INTO orders (id, item) VALUES (?, 'kelp')", (number,))
        self.outbox.publish(connection, "order.placed", {"id": number}, stream="orders", dedup=f"order-{number}")
        (connection.commit if commit else connection.rollback)()
        connection.close()

    def _place_orders(self) -> None:
        self.story.print(f"3. {ORDERS} orders, each in one transaction with its event; one more is rolled back.")
        for number in range(1, ORDERS // 2 + 1):
            self._order(number)
        self._order(999, commit=False)
        self._wait("the first delivery", lambda: len(self.sink.received) >= 2)
        self.story.check("retried", self.sink.requests > 2, "the receiver failed twice, and the delivery was retried")
        self.story.print("4. The daemon is killed (SIGKILL) while it delivers; the shop keeps taking orders.")
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()
        for number in range(ORDERS // 2 + 1, ORDERS + 1):
            self._order(number)
        began = time.monotonic()
        self._start()
        self._wait("every order", lambda: {seq for _, seq in self.sink.received} >= set(range(1, ORDERS + 1)))
        self.story.print(f"     (restarted; all delivered {time.monotonic() - began:.1f} s later)")
        firsts = list(dict.fromkeys(seq for _, seq in self.sink.received))
        self.story.check("nothing_lost", set(firsts) == set(range(1, ORDERS + 1)), f"all {ORDERS} orders arrived")
        self.story.check("in_order", firsts == sorted(firsts), "in order, despite the failures and the kill")
        self.story.check("rollback", 999 not in firsts and max(firsts) == ORDERS, "the rolled-back order left no event")
        self.story.check("signed", self.sink.forged == 0, "every request had two valid signatures")
        repeated = len(self.sink.received) - len(firsts)
        self.story.print(f"     ({repeated} arrived twice: at-least-once delivery, with a stable id for deduplication)")
        self._wait("the handler", lambda: self._count("packed") == ORDERS)
        self.story.check("handler", self._count("packed") == ORDERS, "the handler `pack` ran for each order")

    def _poison(self) -> None:
        self.story.print("5. An event that its handler rejects becomes a dead letter; after a fix it is requeued.")
        with sqlite3.connect(self.database) as connection:
            self.outbox.publish(connection, "coupon.used", {"code": "KELP10", "currency": "shells"})
        self._wait("the dead letter", lambda: self._call("GET", "/api/dlq/count")[1]["count"] == 1)
        letter = self._call("GET", "/api/dlq")[1]["items"][0]
        self.story.check("dead_letter", letter["reason"] == "rejected", f"dead letter: {letter['last_error']}")
        (self.folder / "fixed").touch()
        again = self._call("POST", "/api/dlq/reprocess", {"ids": [letter["id"]]})[1]
        path = f"/api/deliveries/{letter['id']}"
        self._wait("the requeued delivery", lambda: self._call("GET", path)[1]["state"] == "delivered")
        self.story.check("reprocessed", again["reprocessed"] == 1, "fixed, requeued, delivered")

    def _verify(self) -> None:
        self.story.print("6. Every transition left a receipt, linked by hashes.")
        answer = self._call("GET", "/api/receipts/verify")[1]
        text = f"{answer['transitions']} transitions in {answer['links']} links on {answer['chains']} chain(s) verify"
        self.story.check("receipts", answer["ok"] and answer["transitions"] > ORDERS, text)
        status = self._call("GET", "/api/status")[1]
        self.story.check("settled", status["pending"] == 0 and status["dead"] == 0, "nothing pending, nothing dead")

    def _stop(self) -> None:
        assert self.daemon is not None
        self.daemon.terminate()
        self.story.check("clean_stop", self.daemon.wait(timeout=TIMEOUT_S) == 0, "the daemon stopped cleanly")

    def close(self) -> None:
        self.sink.shutdown()
        self.sink.server_close()
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()

    def _count(self, table: str) -> int:
        with sqlite3.connect(self.database) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def _call(self, method: str, path: str, body: object = None) -> tuple[int, KnownJson]:
        request = urllib.request.Request(
            (self.home / "address").read_text().strip() + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {(self.home / 'token').read_text().strip()}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + TIMEOUT_S
        while not condition():
            if self.daemon is not None and self.daemon.poll() is not None:
                raise DemoFailed(f"the daemon ended while the demo waited for {what}: {self._daemon_log()}")
            if time.monotonic() > until:
                raise DemoFailed(f"timed out after {TIMEOUT_S:g} s waiting for {what}")
            time.sleep(0.02)

    def _daemon_log(self) -> str:
        return (self.folder / "daemon.log").read_text(errors="replace")[-2000:]


class DemoFailed(Exception):
    pass


def main(json_output: bool) -> int:
    story = Story(quiet=json_output)
    began = time.monotonic()
    error = None
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        demo = Demo(Path(folder), story)
        try:
            demo.run()
        except DemoFailed as failure:
            error = str(failure)
        finally:
            demo.close()
    ok = error is None and all(story.checks.values())
    seconds = round(time.monotonic() - began, 1)
    if json_output:
        print(json.dumps({"ok": ok, "seconds": seconds, "checks": story.checks, "error": error}, indent=2))
    else:
        passed = f"{sum(story.checks.values())} of {len(story.checks)} checks passed"
        print(f"holdfast demo: {error}" if error else f"Done in {seconds} s: {passed}.")
    return 0 if ok else 1
