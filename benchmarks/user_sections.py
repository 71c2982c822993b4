"""The sections of the page about what a user sees: whole paths, from the call to the end."""

from __future__ import annotations

from pathlib import Path

from benchmarks import daemons
from benchmarks.cost import section as cost_section
from benchmarks.measure import Results
from benchmarks.sizes import PEERS
from benchmarks.soak import section as soak_section
from benchmarks.tables import bars, cell, plain, table
from benchmarks.web import SCREENS
from benchmarks.world import LIBRARIES

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
WAYS = ("in process", "REST", "another process")
ROUTED = "pg.drain.holdfast, routed on the way"


def write_all(results: Results, plots: Path) -> list[str]:
    return [
        _world(results, plots),
        _peers(results, plots),
        _sqlite(results, plots),
        _latency(results),
        _publish(results),
        _daemons(results),
        cost_section.cost(results),
        _restart(results),
        _hanging(results),
        _http(results),
        _idle(results),
        _tails(results),
        _web(results),
        soak_section.write(results, plots),
        _agents(results),
    ]


def _world(results: Results, plots: Path) -> str:
    columns = ("rate", "p50", "p99", "CPU publisher", "CPU worker", "CPU server", "CPU")
    rows = []
    for name in LIBRARIES:
        label = "**holdfast**" if name == "holdfast" else f"{name} {results.facts['peers'][name]}"
        if why := results.missing.get(f"world.{name}"):
            rows.append((label, why, *[""] * len(columns)))
        else:
            lines = results.median(f"world.{name}.lines")
            cells = (cell(results, f"world.{name}.{column}") for column in columns)
            rows.append((label, *cells, "–" if lines is None else f"{lines:.0f}"))
    if all(row[1] == "–" for row in rows):
        return ""
    head = ("", "events/s", "publish → received p50", "p99", "CPU per event: publisher", "worker", "PostgreSQL", "all",
            "lines of user code")  # fmt: skip
    return (
        "### The same job with other libraries\n\nAn application stores an order and publishes it in one transaction "
        "on PostgreSQL; a worker in another process sends it as a signed webhook to a local nginx, with retries. With "
        "the other libraries the request and its signature are code of the user, in the handler. *events/s*: 16 "
        "callers publish without a pause; from the first call until the last webhook arrived. *publish → received*: "
        "one caller, 100 events per second. The CPU of the receiver is not included. The programs are in "
        "`benchmarks/world`.\n\n"
        + table(head, rows)
        + "\n\n"
        + bars(results, plots, "world", "Published in a transaction → webhook received", "world.", suffix=".rate")
        + "\n\n"
        + table(("library", "settings"), list(results.facts.get("world", {}).items()))
    )


def _peers(results: Results, plots: Path) -> str:
    if not any(name.startswith("pg.") for name in results.figures):
        return ""
    columns = (
        "latency from commit, p50",
        "latency from commit, p99",
        "latency from call, p50",
        "drain memory",
    )
    rows = []
    for peer in ("holdfast", *PEERS):
        label = "**holdfast**" if peer == "holdfast" else f"{peer} {results.facts['peers'][peer]}"
        if why := results.missing.get(f"pg.{peer}"):
            rows.append((label, why, *[""] * (len(columns) + 3)))
            continue
        handled = ROUTED if peer == "holdfast" else f"pg.drain.{peer}"
        names = (f"pg.single.{peer}", f"pg.batch.{peer}", handled, *(f"pg.{column}.{peer}" for column in columns))
        ours, theirs = results.median(ROUTED), results.median(handled)
        ratio = f"{ours / theirs:.2f}" if ours and theirs else "–"
        rows.append((label, *(cell(results, name) for name in names), ratio))
    head = ("", "publish one", "publish 1,000", "published → settled", "commit → handler p50", "p99",
            "call → handler p50", "memory", "Holdfast ÷ this, published → settled")  # fmt: skip
    pictures = [
        bars(results, plots, "pg-single", "PostgreSQL: publish one at a time, one caller", "pg.single."),
        bars(results, plots, "pg-batch", "PostgreSQL: publish in batches of 1,000", "pg.batch."),
        bars(results, plots, "pg-handled", "PostgreSQL: published to settled, no-op handler", "pg.drain.",
             without=("holdfast", "pgmq, archived")),
    ]  # fmt: skip
    settings = [(peer, text) for peer, text in results.facts.get("settings", {}).items()]
    return (
        "### Jobs on PostgreSQL compared with peers\n\n1 KB payloads, the same server for all, every job counted by "
        "the handler and by the database. *Published → settled*: the jobs are published first, then a worker starts "
        "and calls a no-op handler for each; Holdfast also matches each event with the contracts (routing), keeps it "
        "and writes a receipt. pgmq is bare SQL without worker, retries or receipts.\n\n"
        + table(head, rows)
        + "\n\n"
        + "\n\n".join(pictures)
        + "\n\n"
        + table(("peer", "settings"), settings)
    )


def _sqlite(results: Results, plots: Path) -> str:
    names = [name for name in results.figures if name.startswith(("sqlite.accept.", "sqlite.whole."))]
    if not names:
        return ""
    return (
        "### SQLite\n\nEvery commit is flushed. *accept*: 1 KB events or jobs, stored one by one. *whole*: accepted, "
        "routed, handled and settled with a receipt, all at the same time. The log is reused, as in a database that "
        "has been in use for a while, except in the row that says otherwise.\n\n"
        + table(("what", "rate"), [(name.removeprefix("sqlite."), cell(results, name)) for name in names])
        + "\n\n"
        + bars(results, plots, "sqlite-accept", "SQLite, every commit flushed: accept", "sqlite.accept.")
    )


def _latency(results: Results) -> str:
    rows = [
        (shown, way, cell(results, f"latency.{store}.{way}.p50"), cell(results, f"latency.{store}.{way}.p99"))
        for store, shown in STORES.items()
        for way in WAYS
    ]
    if all(row[2] == "–" for row in rows):
        return ""
    text = (
        "Light load: one event every 20 ms. Over REST the time starts at the request, which is before the commit; "
        "otherwise it starts when the commit returns.\n\n"
    )
    return "### Commit to handler\n\n" + text + table(("store", "published from", "p50", "p99"), rows)


def _daemons(results: Results) -> str:
    rows = [
        (
            handler,
            number,
            *(cell(results, f"daemons.{handler}.{number}.{what}") for what in ("rate", "log", "dead rows")),
        )
        for handler in daemons.HANDLERS
        for number in daemons.NUMBERS
    ]
    if all(row[2] == "–" for row in rows):
        return ""
    head = ("handler", "processes", "published → settled", "write-ahead log per event", "dead rows, of the events")
    return (
        "### Several processes on one PostgreSQL store\n\nEvents of 300 bytes are published in batches of 500 while so "
        "many processes work. The server, the publisher and all workers share the processors of this machine, so a "
        "handler that only computes gains little from a second process; one that waits gains until the processors are "
        "busy. *Dead rows*: row versions that vacuum had not removed when the last event was settled.\n\n"
        + table(head, rows)
    )


def _publish(results: Results) -> str:
    rows = [
        (driver, *[cell(results, f"publish.{driver}.{what}") for what in ("bare", "with", "adds", "an insert adds")])
        for driver in ("sqlite3", "psycopg", "asyncpg")
    ]
    if all(row[1] == "–" for row in rows):
        return ""
    return (
        "### What publish adds to a transaction\n\nA transaction with one insert, alternately with and without a "
        "publish: medians, and the difference of the medians. For comparison, what one more plain insert into a table "
        "with one index adds: the least an outbox can cost.\n\n"
        + table(("driver", "without", "with", "publish adds", "an insert adds"), rows)
    )


def _restart(results: Results) -> str:
    rows = [(shown, cell(results, f"restart.{store}")) for store, shown in STORES.items()]
    if all(row[1] == "–" for row in rows):
        return ""
    return (
        "### Start with a backlog\n\nFrom process start to the first delivery, alternately after kills and clean "
        f"stops, with {results.facts.get('sizes', {}).get('restart', 0):,} pending.\n\n"
        + table(("store", "first delivery"), rows)
    )


def _hanging(results: Results) -> str:
    return plain(
        results,
        "webhooks.p99 of others",
        "### A receiver that hangs\n\nOne event for each of 100 receivers every 200 ms: the time from accepted to "
        "settled at 99 of them, while the hundredth answers and while it hangs.",
    )


def _http(results: Results) -> str:
    return plain(
        results,
        "http.",
        "### Incoming requests\n\n1 KB of JSON over kept-alive connections, sent by `wrk` from a separate process. "
        "Events and signed webhooks are on disk before they are answered; webhooks are normalized in parallel. The "
        "bare Starlette endpoint parses the same JSON and stores nothing.",
    )


def _idle(results: Results) -> str:
    return plain(
        results,
        "idle.",
        "### Idle daemon\n\nAs counted by the kernel: CPU time of one core, wake-ups of all threads, and resident "
        "memory.",
    )


def _web(results: Results) -> str:
    """Each screen of the web page over a large store."""
    sizes = results.facts.get("sizes", {}).get("web_events", {})
    columns = [f"{shown}{f', {sizes[store]:,} events' if store in sizes else ''}" for store, shown in STORES.items()]
    rows = [
        (
            screen,
            *(cell(results, f"web.{store}.{screen}") for store in STORES),
            cell(results, f"web.sqlite.{screen}, again"),
            cell(results, f"web.sqlite.{screen}, bytes"),
        )
        for screen in (*SCREENS, "first request")
    ]
    if all(row[1] == "–" for row in rows):
        return ""
    return (
        "### The web page\n\nThe time of each screen over a store whose events have ended, for the first request after "
        "a pause of two seconds, and again. *Bytes*: what a browser with an empty cache loads: page, stylesheet, "
        "modules, icon. *first request*: of a daemon that has just started, which loads the templates.\n\n"
        + table(("screen", *columns, "SQLite, again", "bytes"), rows)
    )


def _tails(results: Results) -> str:
    return plain(
        results,
        "tails.",
        "### Live tails\n\nServer-sent events: 1,000 clients on one stream, ten events a second. Time from append "
        "until a client has read the event, and CPU time of the daemon. All clients run in one process.",
    )


def _agents(results: Results) -> str:
    """What a hook costs the agent, and how soon its session shows it."""
    states, forms = ("up", "down", "busy"), ("true", "bare", "python", "fast")
    rows = [(f"daemon {state}, {part}", *[cell(results, f"receiver.{state}.{form}.{part}") for form in forms])
            for state in states for part in ("p50", "p99")]  # fmt: skip
    rows.append(("many at once, in total", *[cell(results, f"receiver.crowd.{form}") for form in forms]))
    hooks = [(name, *[cell(results, f"hooks.{name}.{part}") for part in ("p50", "p99", "count")])
             for name in ("alone", "beside noise elsewhere", "beside noise")]  # fmt: skip
    if all(text == "–" for row in (*rows, *hooks) for text in row[1:]):
        return ""
    return (
        "### Agent hooks\n\nA receiver from start to exit, alternating with minimal programs. Then the time from its "
        "exit until the session row shows the event, in 20 quiet sessions: alone; while an agent sends tool events "
        "without a pause to another home that has no daemon (`beside noise elsewhere`); and while it sends them to "
        "this one (`beside noise`).\n\n"
        + table(("", "/bin/true", "bare interpreter", "receiver in Python", "fast path"), rows)
        + "\n\n"
        + table(("exit to row", "p50", "p99", "hooks"), hooks)
    )
