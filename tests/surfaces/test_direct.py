"""`--store` and `--app`: every command that reads or repairs works on a store itself, without a daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from cli_reference import leaves
from daemon import Daemon, Said, clean_env, run_cli, shop
from holdfast.__main__ import holdfast
from postgres import Server

pytest_plugins = ("postgres",)

WITHOUT = {
    # They start, prove or receive something themselves, or are about files of this machine.
    "up", "demo", "prove", "listen", "hook", "completion", "config path", "config show", "config check",
    "hooks install", "hooks uninstall", "hooks status", "service install", "service uninstall", "service status",
    "mcp", "mcp install", "mcp uninstall", "receipts keys", "db print", "db copy",
    # They append; without a daemon they use the spool. The page and its links are the daemon's.
    "emit", "send", "open",
}  # fmt: skip

APPLICATION = """
import asyncio, os, sqlite3, sys
from holdfast import Outbox, Reject

outbox = Outbox("sqlite:///" + os.environ["SHOP"] + "/app.db")


@outbox.on("order.*")
def ship(event):
    pass


@outbox.on("bad.*")
def refuse(event):
    raise Reject("no such customer")


async def main():
    outbox.migrate()
    async with outbox.lifespan():
        connection = sqlite3.connect(os.environ["SHOP"] + "/app.db")
        outbox.prepare(connection)
        with connection:
            outbox.publish(connection, "order.placed", {"id": 1}, stream="order:1")
            outbox.publish(connection, "bad.order", {"id": 2})
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
"""


def test_every_read_and_repair_command_has_the_options() -> None:
    for path, command in leaves(holdfast):
        names = {name for param in command.params if isinstance(param, click.Option) for name in param.opts}
        if path not in WITHOUT:
            assert {"--store", "--app"} <= names, path


class Application:
    """An application that delivers by itself. It has no daemon and no home."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        (folder / "shop.py").write_text(APPLICATION, encoding="utf-8")
        self.env = {**clean_env(self.home), "SHOP": str(folder), "PYTHONPATH": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, str(folder / "shop.py")], env=self.env, cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def cli(self, *arguments: str) -> Said:
        return run_cli(self.home, *arguments, env=self.env, cwd=self.folder)

    def json(self, *arguments: str, option: str = "--store") -> Any:
        value = f"sqlite:///{self.folder}/app.db" if option == "--store" else "shop:outbox"
        said = self.cli(*arguments, option, value, "--json")
        assert said.code == 0, said
        return json.loads(said.out)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    one = Application(tmp_path_factory.mktemp("app"))
    yield one
    one.close()


def wait_for_dead(application: Application) -> int:
    while not (items := application.json("dlq", "list")["items"]):
        pass
    return int(items[0]["id"])


@pytest.mark.parametrize("option", ["--store", "--app"])
def test_an_application_that_delivers_is_inspected(application: Application, option: str) -> None:
    id = wait_for_dead(application)
    status = application.json("status", option=option)
    assert (status["healthy"], status["uptime_seconds"], status["spooled"]) == (None, None, None), "unknown, not 0"
    assert status["dead"] == status["dead_by_reason"]["rejected"] == 1
    assert [daemon["pid"] for daemon in status["daemons"]] == [application.process.pid]
    assert {one["id"] for one in application.json("contracts", "list", option=option)} == {"ship", "refuse"}
    assert application.json("contracts", "show", "ship", option=option)["unserved"] is False
    events = application.json("events", "list", option=option)["items"]
    assert application.json("events", "show", events[0]["id"][:20], option=option)["id"] == events[0]["id"]
    assert application.json("explain", events[0]["id"], option=option)["deliveries"]
    assert application.json("deliveries", "show", str(id), option=option)["state"] == "dead"
    assert application.json("dlq", "count", option=option)["count"] == 1
    assert application.json("dlq", "inspect", option=option)["items"][0]["payload"] == {"id": 2}
    assert application.json("streams", "list", option=option)["items"][0]["id"] == "order:1"
    assert application.json("streams", "events", "order:1", option=option)["items"]
    assert application.json("streams", "readers", option=option)["items"] == []
    assert application.json("sessions", "list", option=option)["items"] == []
    assert application.json("sessions", option=option)["items"] == []
    assert application.json("receipts", "heads", option=option)["items"]
    assert application.json("receipts", "list", option=option)["items"]
    assert application.json("receipts", "verify", option=option)["ok"]
    assert application.json("token", "list", option=option)["items"] == []


def test_an_application_that_delivers_is_repaired(application: Application) -> None:
    id = wait_for_dead(application)
    assert application.json("pause", "--contract", "refuse")["paused"]
    assert application.json("dlq", "reprocess", str(id))["reprocessed"] == 1
    assert application.json("deliveries", "show", str(id))["waits_for"] == "paused"
    assert application.json("resume", "--contract", "refuse")["changed"]
    while application.json("deliveries", "show", str(id))["state"] == "pending":
        pass
    assert application.json("contracts", "disable", "refuse")["active"] is False
    assert application.json("contracts", "enable", "refuse")["active"]
    assert set(application.json("prune").values()) <= {0, 1, 2}
    assert application.json("contracts", "ping", "ship")["delivered"]
    chains = [row["chain"] for row in application.json("receipts", "list")["items"]]
    assert len(set(chains)) > 1, "a repair is written on a chain of its own"


def test_where_an_application_keeps_the_file_the_message_names_the_option(application: Application) -> None:
    url = f"sqlite:///{application.folder}/app.db"
    said = run_cli(application.home, "up", "--port", "0", env={**application.env, "HOLDFAST_STORE": url})
    assert said.code == 1
    assert f"--store {url}" in said.err
    said = application.cli("dlq", "inspect")
    assert said.code == 4
    assert "--store URL" in said.err
    assert "--app MODULE:NAME" in said.err


def test_a_store_that_is_missing_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    said = run_cli(tmp_path, "status", "--store", f"sqlite:///{tmp_path}/no.db")
    assert said.code == 1
    assert f"holdfast db migrate --store sqlite:///{tmp_path}/no.db" in said.err
    assert not (tmp_path / "no.db").exists()


def test_store_and_app_exclude_each_other(tmp_path: Path) -> None:
    for command in (["status"], ["receipts", "verify"], ["token", "list"], ["dlq", "count"]):
        said = run_cli(tmp_path, *command, "--store", "sqlite:///a.db", "--app", "shop:outbox")
        assert (said.code, "cannot be combined" in said.err) == (2, True), said


def test_a_store_answers_as_its_daemon_does(tmp_path: Path) -> None:
    with shop(tmp_path) as daemon:
        daemon.request("POST", "/api/events", {"type": "order.placed", "stream": "a/b c"})
        daemon.request("POST", "/api/events", {"type": "bad.order"})
        daemon.wait_for("/api/dlq/count", lambda answer: answer["count"] == 1)
        for command in (
            ["events", "list"], ["deliveries", "list"], ["contracts", "list"], ["streams", "show", "a/b c"],
            ["streams", "events", "a/b c"], ["dlq", "inspect"], ["receipts", "heads"], ["contracts", "properties"],
        ):  # fmt: skip
            served = daemon.cli(*command, "--json")
            direct = daemon.cli(*command, "--json", "--store", f"sqlite:///{daemon.home}/holdfast.db")
            assert served.out == direct.out, command
        first = daemon.cli("contracts", "list", "--limit", "1", "--store", f"sqlite:///{daemon.home}/holdfast.db")
        assert "--after later" in first.err


def test_a_postgresql_store_is_inspected_and_repaired(server: Server, schema: str, tmp_path: Path) -> None:
    postgres_url = server.url(schema)
    assert run_cli(tmp_path, "db", "migrate", "--store", postgres_url).code == 0
    for command in (
        ["status"],
        ["events", "list"],
        ["contracts", "list"],
        ["sessions", "list"],
        ["receipts", "verify"],
    ):
        said = run_cli(tmp_path, *command, "--store", postgres_url, "--json")
        assert said.code == 0, said
    said = run_cli(tmp_path, "contracts", "add", "--id", "x", "--handler", "h", "--store", postgres_url)
    assert said.out == "Contract x created.\n"
    assert "served by no process" in said.err
    assert run_cli(tmp_path, "contracts", "remove", "x", "--store", postgres_url).code == 0


def test_a_stream_is_followed_on_a_store(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        for number in range(3):
            daemon.request("POST", "/api/events", {"type": "step", "stream": "run", "payload": number})
        said = daemon.cli("tail", "run", "--limit", "3", "--json", "--store", f"sqlite:///{daemon.home}/holdfast.db")
        assert [json.loads(line)["payload"] for line in said.out.splitlines()] == [0, 1, 2]
        missing = daemon.cli("tail", "other", "--store", f"sqlite:///{daemon.home}/holdfast.db")
        assert missing.code == 3
