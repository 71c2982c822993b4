"""One verb, one answer: the command line, REST and Python say the same, and no verb is missing from any of them."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import click
import pytest

from daemon import Daemon, shop
from holdfast.__main__ import holdfast
from holdfast.config.config import load_config
from holdfast.domain.event import new_event
from holdfast.net.guard import Guard
from holdfast.operations.answers.encode import encode
from holdfast.operations.context import OperationsContext
from holdfast.operations.verbs import Operations
from holdfast.ports import SystemChance, SystemClock
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens
from hooks import claude, write_hook

# verb -> (command, route); None: said beside it why there is none.
VERBS: dict[str, tuple[str, str | None]] = {
    "events.append": ("emit", "POST /api/events"),
    "events.find": ("events list", "GET /api/events"),
    "events.show": ("events show", "GET /api/events/{id}"),
    "events.explain": ("explain", "GET /api/events/{id}/explain"),
    "events.route": ("events route", "POST /api/events/route"),
    "streams.find": ("streams list", "GET /api/streams"),
    "streams.show": ("streams show", "GET /api/streams/{id}"),
    "archives.find": ("archive list", "GET /api/archives"),
    "archives.verify": ("archive verify", "GET /api/archives/verify"),
    "replays.run": ("replay", "POST /api/streams/{id}/replay"),
    "readers.find": ("streams readers", "GET /api/readers"),
    "streams.events": ("streams events", "GET /api/streams/{id}/events"),
    "live.tail": ("tail", "GET /api/streams/{id}/tail"),
    "live.feed": ("tail", "GET /api/feed"),
    "deliveries.find": ("deliveries list", "GET /api/deliveries"),
    "deliveries.show": ("deliveries show", "GET /api/deliveries/{id}"),
    "deliveries.retry": ("deliveries retry", "POST /api/deliveries/{id}/retry"),
    "deliveries.cancel": ("deliveries cancel", "POST /api/deliveries/{id}/cancel"),
    "dead_letters.count": ("dlq count", "GET /api/dlq/count"),
    "dead_letters.inspect": ("dlq inspect", "GET /api/dlq"),
    "dead_letters.reprocess": ("dlq reprocess", "POST /api/dlq/reprocess"),
    "dead_letters.discard": ("dlq discard", "POST /api/dlq/discard"),
    "contracts.find": ("contracts list", "GET /hooks/contracts"),
    "contracts.show": ("contracts show", "GET /hooks/contracts/{id}"),
    "contracts.add": ("contracts add", "POST /hooks/contracts"),
    "contracts.statistics": ("contracts statistics", "GET /hooks/contracts/{id}/statistics"),
    "contracts.enable": ("contracts enable", "POST /hooks/contracts/{id}/enable"),
    "contracts.rotate": ("contracts rotate", "POST /hooks/contracts/{id}/rotate"),
    "contracts.remove": ("contracts remove", "DELETE /hooks/contracts/{id}"),
    "contracts.ping": ("contracts ping", "POST /hooks/contracts/{id}/ping"),
    "contracts.rebuild": ("contracts rebuild", "POST /hooks/contracts/{id}/rebuild"),
    "contracts.test": ("contracts test", "POST /hooks/contracts/test"),
    "contracts.properties": ("contracts properties", "GET /hooks/properties"),
    "sessions.find": ("sessions list", "GET /api/sessions"),
    "sessions.show": ("sessions show", "GET /api/sessions/{id}"),
    "sessions.close": ("sessions close", "POST /api/sessions/{id}/close"),
    "sessions.rebuild": ("sessions rebuild", "POST /api/sessions/rebuild"),
    "sessions.name": ("sessions name", "POST /api/sessions/{id}/name"),
    "sessions.bind": ("sessions bind", "POST /api/sessions/{id}/bind"),
    "sessions.attach": ("sessions attach", "POST /api/sessions/{id}/attach"),
    "messages.send": ("send", "POST /api/messages"),
    "blobs.put": ("send", "PUT /api/blobs"),  # by --file
    # A status is shown by `send --wait` and, for all messages of a session, by `sessions show`.
    "messages.show": ("sessions show", "GET /api/messages/{id}"),
    "receipts.find": ("receipts list", "GET /api/receipts"),
    "receipts.heads": ("receipts heads", "GET /api/receipts/heads"),
    "receipts.append": ("receipts append", "POST /api/substrate/receipts"),
    "receipts.find_appended": ("receipts appended", "GET /api/substrate/receipts"),
    "receipts.verify": ("receipts verify", "GET /api/receipts/verify"),
    "status.show": ("status", "GET /api/status"),
    "fleet.show": ("fleet", "GET /api/fleet"),
    "history.show": (None, "GET /api/history"),  # the charts of the web page
    "login.create": ("open", "POST /api/login-links"),
    "maintenance.pause": ("pause", "POST /api/pause"),
    "maintenance.resume": ("resume", "POST /api/resume"),
    "maintenance.prune": ("prune", "POST /api/prune"),
    # Who may ask is not to be changed by asking: tokens are made on the machine itself.
    "tokens.create": ("token create", None),
    "tokens.find": ("token list", None),
    "tokens.revoke": ("token revoke", None),
}
NO_VERBS = {
    "contracts.parse",
    "contracts.statistics_of",
    "status.queues",
    "events.states",
    "tokens.scope_of",
    "metrics.show",
}  # parts of other verbs; /metrics is no JSON
# The other half of `enable`; dead letters as `deliveries list --state dead` shows them; the probes, which look at the
# process; the commands about files and processes.
OTHER_ROUTES = {
    "GET /healthz", "GET /readyz", "GET /metrics", "POST /hooks/contracts/{id}/disable",
    "GET /api/substrate/receipts/verify",
}  # fmt: skip
OTHER_COMMANDS = {
    "contracts disable", "sessions", "receipts export", "receipts keys", "dlq list", "listen", "completion",
    "config path", "config show", "config check", "mcp", "up", "demo", "prove", "hook", "doctor",
    "db migrate", "db print", "db promote", "db backup", "db restore", "db copy",
    "mcp install", "mcp uninstall",
    "hooks install", "hooks uninstall", "hooks status", "service install", "service uninstall", "service status",
}  # fmt: skip

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with shop(tmp_path_factory.mktemp("shop")) as running:
        yield running


@asynccontextmanager
async def python(daemon: Daemon) -> AsyncIterator[Operations]:
    """Python's verbs, on a copy of the daemon's store as it is once nothing moves."""
    daemon.wait_for("/api/status", lambda answer: answer["in_flight"] == answer["unrouted"] == 0)
    path = daemon.home.parent / f"copy-{next(_numbers)}.db"
    assert daemon.cli("db", "backup", str(path)).code == 0
    store = open_store(f"sqlite:///{path}", keep=True)
    try:
        yield await operations_on(store)
    finally:
        await store.close()


async def operations_on(store: Any) -> Operations:
    config = load_config(None)
    owner = await store.owners.register()
    guard = Guard(("127.0.0.0/8",))
    return Operations(
        OperationsContext(store, owner, guard, config.policies, config.retention, SystemClock(), SystemChance())
    )


def cli(daemon: Daemon, *arguments: str) -> Any:
    said = daemon.cli(*arguments, "--json")
    assert said.code == 0, said
    return said.json


def rest(daemon: Daemon, method: str, path: str, body: Any = None) -> Any:
    status, answer = daemon.request(method, path, body)
    assert status in (200, 201), answer
    return answer


def plain(value: Any, *names: str) -> Any:
    """An answer without what must differ between two calls: times, and the named ids."""
    if isinstance(value, list):
        return [plain(item, *names) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: bool(item) if key in names or key.endswith("_at") else plain(item, *names) for key, item in value.items()
    }


def dead_letter(daemon: Daemon) -> dict[str, Any]:
    body = {"type": "bad.order", "stream": f"dead:{next(_numbers)}", "payload": {"n": 1}}
    event = rest(daemon, "POST", "/api/events", body)["id"]
    page = daemon.wait_for(
        f"/api/deliveries?event={event}", lambda answer: any(item["state"] == "dead" for item in answer["items"])
    )
    return dict(page["items"][0])


@contextmanager
def paused(daemon: Daemon, contract: str) -> Iterator[None]:
    """What is waiting for this contract stays as it is, so that a new life does not end while answers are compared."""
    rest(daemon, "POST", "/api/pause", {"scope": "contract", "name": contract})
    yield
    rest(daemon, "POST", "/api/resume", {"scope": "contract", "name": contract})


def verbs_of(kind: type) -> set[str]:
    return {name for name, value in vars(kind).items() if inspect.isfunction(value) and not name.startswith("_")}


def test_every_verb_is_in_the_table() -> None:
    homes = inspect.getsource(Operations.__init__)
    found = {
        f"{name}.{verb}"
        for name, kind in re.findall(r"self\.(\w+) = (\w+)\(", homes)
        for verb in verbs_of(inspect.getmodule(Operations).__dict__[kind])
    }
    assert found == VERBS.keys() | NO_VERBS


def test_every_verb_answers_with_a_frozen_dataclass() -> None:
    for name in VERBS:
        group, verb = name.split(".")
        answer = get_type_hints(getattr(kind_of(group), verb))["return"]
        kind = get_origin(answer) or answer
        assert is_dataclass(kind), name
        assert kind.__dataclass_params__.frozen, name
        assert "__slots__" in vars(kind), name


def kind_of(group: str) -> type:
    """The class of `Operations.<group>`."""
    homes = dict(re.findall(r"self\.(\w+) = (\w+)\(", inspect.getsource(Operations.__init__)))
    return inspect.getmodule(Operations).__dict__[homes[group]]


def test_every_verb_has_its_command_and_no_command_is_left_over() -> None:
    assert {command for command, _ in VERBS.values() if command} | OTHER_COMMANDS == set(commands(holdfast, ""))


def commands(group: click.Group, prefix: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        if not isinstance(command, click.Group) or command.params:
            yield f"{prefix}{name}"


async def test_every_verb_has_its_route_and_no_route_is_left_over(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/any.db")
    try:
        app = build_app(await operations_on(store), BearerTokens("x", _nobody), (), 1000)
    finally:
        await store.close()
    paths = app.openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert {route for _, route in VERBS.values() if route is not None} | OTHER_ROUTES == routes


async def _nobody(text: str) -> str | None:
    return None


async def test_looking_at_events_and_streams(daemon: Daemon) -> None:
    stream = f"look:{next(_numbers)}"
    id = rest(daemon, "POST", "/api/events", {"type": "nobody.cares", "stream": stream, "payload": {"ü": [1.5]}})["id"]
    async with python(daemon) as ops:
        for arguments, path, answer in (
            (("events", "list", "--stream", stream), f"/api/events?stream={stream}", ops.events.find(stream=stream)),
            (("events", "list", "--unmatched"), "/api/events?unmatched=true", ops.events.find(unmatched=True)),
            (("events", "show", id), f"/api/events/{id}", ops.events.show(id)),
            (("explain", id), f"/api/events/{id}/explain", ops.events.explain(id)),
            (("streams", "list"), "/api/streams", ops.streams.find()),
            (("streams", "show", stream), f"/api/streams/{stream}", ops.streams.show(stream)),
            (("streams", "events", stream), f"/api/streams/{stream}/events", ops.streams.events(stream)),
        ):
            assert cli(daemon, *arguments) == rest(daemon, "GET", path) == encode(await answer)


async def test_looking_at_sessions(daemon: Daemon) -> None:
    native_id = f"n{next(_numbers)}"
    write_hook(daemon.home / "spool", next(_numbers), "claude", claude("Stop", native_id, last_assistant_message="Hi"))
    id = f"claude-{native_id}"
    daemon.wait_for("/api/sessions", lambda page: any(item["id"] == id for item in page["items"]))
    async with python(daemon) as ops:
        for arguments, path, answer in (
            (("sessions", "list"), "/api/sessions", ops.sessions.find()),
            (("sessions", "list", "--state", "ended"), "/api/sessions?state=ended", ops.sessions.find(state="ended")),
            (("sessions", "show", id), f"/api/sessions/{id}", ops.sessions.show(id)),
            (("sessions", "show", native_id), f"/api/sessions/{native_id}", ops.sessions.show(native_id)),
        ):
            assert cli(daemon, *arguments) == rest(daemon, "GET", path) == encode(await answer)
    assert cli(daemon, "sessions", "close", native_id)["state"] == "closed"
    assert cli(daemon, "sessions", "close", id) == rest(daemon, "POST", f"/api/sessions/{id}/close")
    assert daemon.cli("sessions").out.splitlines()[1].startswith(id)


async def test_looking_at_deliveries_and_dead_letters(daemon: Daemon) -> None:
    one = dead_letter(daemon)
    id, stream = one["id"], one["stream"]
    async with python(daemon) as ops:
        for arguments, path, answer in (
            (("deliveries", "list"), "/api/deliveries", ops.deliveries.find()),
            (("deliveries", "show", str(id)), f"/api/deliveries/{id}", ops.deliveries.show(id)),
            (("dlq", "count"), "/api/dlq/count", ops.dead_letters.count()),
            (
                ("dlq", "inspect", "--stream", stream),
                f"/api/dlq?stream={stream}",
                ops.dead_letters.inspect(stream=stream),
            ),
        ):
            assert cli(daemon, *arguments) == rest(daemon, "GET", path) == encode(await answer)


async def test_looking_at_contracts_and_receipts(daemon: Daemon) -> None:
    dead_letter(daemon)
    async with python(daemon) as ops:
        for arguments, path, answer in (
            (("contracts", "list"), "/hooks/contracts", ops.contracts.find()),
            (("contracts", "show", "ship"), "/hooks/contracts/ship", ops.contracts.show("ship")),
            (("contracts", "properties"), "/hooks/properties", ops.contracts.properties()),
            (("receipts", "list"), "/api/receipts", ops.receipts.find()),
        ):
            assert cli(daemon, *arguments) == rest(daemon, "GET", path) == encode(await answer)
        # The copy has one more chain: that of the process that opened it.
        whole = cli(daemon, "receipts", "verify")
        assert whole == rest(daemon, "GET", "/api/receipts/verify")
        assert {**whole, "chains": 0} == {**encode(await ops.receipts.verify()), "chains": 0}


async def test_status(daemon: Daemon) -> None:
    def still(answer: dict[str, Any]) -> dict[str, Any]:
        moving = ("store", "uptime_seconds", "oldest_pending_seconds", "duties", "hooks", "daemons")
        return {name: value for name, value in answer.items() if name not in moving}

    async with python(daemon) as ops:
        shown, asked = cli(daemon, "status"), rest(daemon, "GET", "/api/status")
        assert shown.keys() == asked.keys()
        assert still(shown) == still(asked) == still(encode(await ops.status.show()))


async def test_appending(daemon: Daemon) -> None:
    async with python(daemon) as ops:
        answers = [
            cli(daemon, "emit", "order.placed", "--dedup", "parity-1"),
            rest(daemon, "POST", "/api/events", {"type": "order.placed", "dedup_key": "parity-2"}),
            encode(await ops.events.append(new_event("order.placed", dedup_key="parity-3"))),
        ]
    same = [plain(answer, "id", "stream") for answer in answers]
    assert same[0] == same[1] == same[2] == {"id": True, "stream": True, "seq": 1, "duplicate": False}


async def test_routing_again(daemon: Daemon) -> None:
    ids = [rest(daemon, "POST", "/api/events", {"type": "nobody.cares"})["id"] for _ in range(2)]
    async with python(daemon) as ops:
        answers = [cli(daemon, "events", "route", ids[0]), rest(daemon, "POST", "/api/events/route", {"ids": ids[1:]})]
        assert answers == [{"routed": 1}, encode(await ops.events.route(ids[:1]))]


async def test_retrying_and_cancelling(daemon: Daemon) -> None:
    one, two = dead_letter(daemon), dead_letter(daemon)
    with paused(daemon, "refuse"):
        await _retry_and_cancel(daemon, one, two)


async def _retry_and_cancel(daemon: Daemon, one: dict[str, Any], two: dict[str, Any]) -> None:
    async with python(daemon) as ops:
        for verb in ("retry", "cancel"):
            shown = cli(daemon, "deliveries", verb, str(one["id"]))
            asked = rest(daemon, "POST", f"/api/deliveries/{two['id']}/{verb}", {})
            called = encode(await getattr(ops.deliveries, verb)(one["id"], "api:admin"))
            assert plain(shown) == plain(called)
            assert plain(shown, "id", "event_id", "stream") == plain(asked, "id", "event_id", "stream")
            assert shown["state"] == {"retry": "pending", "cancel": "dropped"}[verb]


@pytest.mark.parametrize(("verb", "done"), [("reprocess", "reprocessed"), ("discard", "discarded")])
async def test_reprocessing_and_discarding(verb: str, done: str, daemon: Daemon) -> None:
    letters = [dead_letter(daemon) for _ in range(2)]
    with paused(daemon, "refuse"):
        await _end_letters(verb, done, daemon, letters)


async def _end_letters(verb: str, done: str, daemon: Daemon, letters: list[dict[str, Any]]) -> None:
    async with python(daemon) as ops:
        call = getattr(ops.dead_letters, verb)
        for dry in (True, False):
            flags = ("--dry-run",) if dry else ("--yes",)
            shown = cli(daemon, "dlq", verb, "--stream", letters[0]["stream"], *flags)
            body = {"filter": {"stream": letters[1]["stream"]}, "dry_run": dry}
            asked = rest(daemon, "POST", f"/api/dlq/{verb}", body)
            called = encode(await call(filter={"stream": letters[0]["stream"]}, dry_run=dry, actor="api:admin"))
            assert shown == called
            expected = {done: 1, "ids": 1, "remaining": 0, **({"dry_run": True} if dry else {})}
            assert {**shown, "ids": 1} == {**asked, "ids": 1} == expected


async def test_making_trying_and_removing_contracts(daemon: Daemon) -> None:
    body = {
        "id": "parity", "type_criterion": {"pattern": "none.*"}, "properties": {"a": {"match": "b"}},
        "target": {"url": "http://127.0.0.1:9/hook"}, "attempts": 3,
    }  # fmt: skip
    wish = ("--type", "none.*", "--property", "a=b", "--url", "http://127.0.0.1:9/hook", "--attempts", "3")
    async with python(daemon) as ops:
        tried = cli(daemon, "contracts", "test", "--id", "parity", *wish)
        assert tried == rest(daemon, "POST", "/hooks/contracts/test", body) == encode(await ops.contracts.test(body))
        made = cli(daemon, "contracts", "add", "--id", "parity", *wish)
        assert plain(made) == plain(rest(daemon, "POST", "/hooks/contracts", body))
        assert plain(made) == plain(encode(await ops.contracts.add(body)))
        removed = cli(daemon, "contracts", "remove", "parity")
        rest(daemon, "POST", "/hooks/contracts", body)
        assert (
            removed == rest(daemon, "DELETE", "/hooks/contracts/parity") == encode(await ops.contracts.remove("parity"))
        )


async def test_pausing_and_resuming(daemon: Daemon) -> None:
    lanes = [f"lane:{next(_numbers)}" for _ in range(2)]
    async with python(daemon) as ops:
        for verb in ("pause", "resume"):
            shown = cli(daemon, verb, "--lane", lanes[0])
            asked = rest(daemon, "POST", f"/api/{verb}", {"scope": "lane", "name": lanes[1]})
            assert shown == encode(await getattr(ops.maintenance, verb)("lane", lanes[0]))
            assert plain(shown, "name") == plain(asked, "name")


async def test_pruning(daemon: Daemon) -> None:
    async with python(daemon) as ops:
        answers = [
            cli(daemon, "prune"),
            rest(daemon, "POST", "/api/prune", {}),
            encode(await ops.maintenance.prune("operator")),
        ]
    assert answers[0].keys() == answers[1].keys() == answers[2].keys()


async def test_tokens(daemon: Daemon) -> None:
    made = cli(daemon, "token", "create", "parity", "--scope", "read")
    async with python(daemon) as ops:
        assert cli(daemon, "token", "list") == encode(await ops.tokens.find())
        assert cli(daemon, "token", "revoke", made["id"]) == encode(await ops.tokens.revoke(made["id"]))
        other = encode(await ops.tokens.create("parity", "read"))
        assert plain(made, "id", "token") == plain(other, "id", "token")
