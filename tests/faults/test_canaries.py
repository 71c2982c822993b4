"""Secrets as canaries: after a full scenario no output, file or answer contains one, except in allowed places.

A secret may be in two places: the administrator's token in `token`, and a contract's signing secret in the store and in
copies of it (the receiver needs the signature, so the text itself is kept). Both are readable by their owner alone. The
text of a token that was created is kept nowhere; the store has its hash. Passwords of a database and variables of the
environment are written nowhere at all.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from daemon import Daemon, run_cli, shop, wait_until
from rawhttp import exchange, head, post
from sink import Sink

TOKEN, SECRET, PASSWORD, VARIABLE = (f"canary{word}" for word in ("TOKEN", "SECRET", "PASSWORD", "VARIABLE"))
QUERY, PATH = "canaryQUERY", "canaryPATH"
TOKEN = "hf_" + TOKEN + "0" * 50
PATHS = (
    "/api/events", "/api/streams", "/api/deliveries", "/api/dlq", "/api/dlq/count", "/hooks/contracts",
    "/hooks/contracts/signed", "/hooks/properties", "/api/receipts", "/api/receipts/verify", "/api/status",
    "/openapi.json", "/healthz", "/readyz", "/nowhere",
)  # fmt: skip


class Collector:
    """Collects all output, and searches it for canaries."""

    def __init__(self) -> None:
        self.collected: list[tuple[str, bytes]] = []
        self.created = ""

    def cli(self, daemon: Daemon, *arguments: str, input: str | None = None) -> str:
        said = daemon.cli(*arguments, input=input)
        self.note("holdfast " + " ".join(arguments), (said.out + said.err).encode())
        return said.out

    def note(self, what: str, raw: bytes) -> None:
        self.collected.append((what, raw))

    @property
    def canaries(self) -> list[str]:
        return [TOKEN, SECRET, PASSWORD, VARIABLE, QUERY, PATH, *filter(None, [self.created])]

    def leaks(self) -> list[str]:
        return [
            f"{canary} in {what}" for what, raw in self.collected for canary in self.canaries if canary.encode() in raw
        ]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "token").write_text(TOKEN + "\n")
    (home / "token").chmod(0o600)
    return home


def listen_to_commands(collector: Collector, daemon: Daemon) -> None:
    collector.created = collector.cli(daemon, "token", "create", "ci", "--scope", "operate").strip()
    collector.collected.pop()  # the token is shown once, when it is created
    for words in (
        ("token", "list"), ("status",), ("events", "list", "--json"), ("deliveries", "list"),
        ("dlq", "inspect", "--json"),
        ("contracts", "list", "--json"), ("contracts", "list"), ("contracts", "show", "signed"), ("dlq", "count"),
        ("deliveries", "list", "--json"), ("dlq", "inspect"),
        ("receipts", "verify"), ("emit", "order.cli"), ("token", "revoke", "tok_none"),
        ("contracts", "remove", "none"), ("events", "show", "evt_none"), ("--help",),
        ("db", "backup", str(daemon.home / "copy.db"), "--json"),
    ):  # fmt: skip
        collector.cli(daemon, *words)


def listen_to_answers(collector: Collector, daemon: Daemon) -> None:
    for path in PATHS:
        for token in (daemon.token, collector.created, "wrong", None):
            answer = exchange(daemon.url, head("GET", path, token, connection="close"))
            collector.note(f"GET {path}", repr(answer.headers).encode() + answer.body)
    bad = [
        {"id": "c", "target": {"handler": "h", "secret": SECRET, "sekret": 1}},
        {"id": "c", "target": {"secret": SECRET}},
        {"id": "c", "secret": SECRET, "target": {"handler": "h"}},
        {"id": "c", "target": {"handler": "h", "secret": [SECRET]}},
        {"id": "c", "target": {"handler": "h", "secret": "whsec_" + SECRET + "!"}},
        {"id": "c", "target": {"handler": "h", "secret": SECRET}, "policy": "none"},
    ]
    for body in bad:
        status, answer = daemon.request("POST", "/hooks/contracts", body)
        assert status == 422
        collector.note("POST /hooks/contracts", str(answer).encode())
    broken = exchange(daemon.url, post("/hooks/contracts", TOKEN, b'{"target":{"secret":"' + SECRET.encode() + b'"'))
    collector.note("broken JSON", broken.body)
    collector.note(
        "broken head", exchange(daemon.url, f"GET / HTTP/1.1\r\nAuthorization : Bearer {TOKEN}\r\n\r\n".encode()).body
    )


def listen_to_an_end(collector: Collector, daemon: Daemon) -> None:
    """Kill the daemon, start it again, and stop it in order."""
    daemon.kill9()
    collector.cli(daemon, "emit", "order.spooled")
    collector.cli(daemon, "status")
    daemon.start()
    collector.note("its arguments", Path(f"/proc/{daemon.pid}/cmdline").read_bytes())
    assert daemon.stop() == 0
    collector.note("the daemon's log", daemon.log.encode())


def has_given_up_or_waits(daemon: Daemon) -> bool:
    return "Waiting for the store" in daemon.log or "holdfast: " in daemon.log


def listen_to_failed_starts(collector: Collector, folder: Path) -> None:
    urls = (
        f"postgresl://app:{PASSWORD}@127.0.0.1:1/shop", f"postgresql://app:{PASSWORD}@127.0.0.1:1/shop",
        f"postgresql://127.0.0.1:1/shop?user=app&password={PASSWORD}", f"sqlite://app:{PASSWORD}@x",
    )  # fmt: skip
    for number, url in enumerate(urls):
        for words in (("db", "migrate", "--store", url), ("token", "list", "--store", url)):
            said = run_cli(folder / "other", *words, env={"HOLDFAST_STORE": url})
            assert said.code != 0
            collector.note(f"holdfast {words[0]}", (said.out + said.err).encode())
        with Daemon(folder / f"other-{number}", env={"HOLDFAST_STORE": url}).launch() as daemon:
            wait_until(partial(has_given_up_or_waits, daemon), 60, lambda: "holdfast up says nothing")
        collector.note("holdfast up", daemon.log.encode())
    for text in ("server: {port: '${A_VARIABLE}'}", "store: '${A_VARIABLE}'", "server: '${A_VARIABLE}"):
        (folder / "bad.yml").write_text(text)
        env = {"HOLDFAST_CONFIG": str(folder / "bad.yml"), "A_VARIABLE": VARIABLE}
        said = run_cli(folder / "other", "up", "--port", "0", env=env)
        assert said.code != 0
        collector.note("holdfast up", (said.out + said.err).encode())


def files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


@pytest.mark.slow
async def test_no_secret_is_found_outside_its_allowed_places(tmp_path: Path, home: Path) -> None:
    collector, shop_folder = Collector(), tmp_path / "shop"
    shop_folder.mkdir()
    config = 'egress: {allow: [127.0.0.0/8]}\nserver: {hosts: ["${A_VARIABLE}"]}\n'
    async with Sink([500, (400, {}, f"no: {SECRET}".encode())]) as sink:
        with shop(shop_folder, home=home, config=config, env={"A_VARIABLE": VARIABLE}) as daemon:
            contract = {
                "id": "signed",
                "target": {"url": f"{sink.url}/services/T0/B0/{PATH}?key={QUERY}", "secret": SECRET},
                "type_criterion": {"pattern": "order.*"},
            }
            assert daemon.request("POST", "/hooks/contracts", contract)[0] == 201
            daemon.request("POST", "/api/events", {"type": "order.one"})
            direct = {"type": "plain.one", "to": f"http://127.0.0.1:1/bot1:{PATH}/send?key={QUERY}"}
            collector.note("an event", str(daemon.request("POST", "/api/events", direct)).encode())
            daemon.request("POST", "/api/events", {"type": "bad.one"})
            await sink.wait_for(2)
            for listen in (listen_to_commands, listen_to_answers, listen_to_an_end):
                await asyncio.to_thread(listen, collector, daemon)
    await asyncio.to_thread(listen_to_failed_starts, collector, tmp_path)
    assert collector.created.startswith("hf_")
    assert collector.leaks() == []

    store = {"holdfast.db", "holdfast.db-wal", "copy.db"}
    allowed = {(TOKEN, "token"), *((canary, name) for name in store for canary in (SECRET, QUERY, PATH))}
    found = {
        (canary, path.name) for path, raw in files(tmp_path) for canary in collector.canaries if canary.encode() in raw
    }
    assert found - allowed == set()
    assert {(TOKEN, "token"), (SECRET, "holdfast.db")} <= found, "the scene is set wrong: no canary was ever kept"
    for path, _ in files(home):
        if path.name != "holdfast.yml":  # the user's own file
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
