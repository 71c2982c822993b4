"""The sections of the page about single parts in isolation: prepared input, one step of the path, or a growing size."""

from __future__ import annotations

from pathlib import Path

from benchmarks import svg
from benchmarks.cost import section as cost_section
from benchmarks.goals import series
from benchmarks.measure import Results
from benchmarks.tables import bars, cell, plot, table
from benchmarks.user_sections import STORES


def write_all(results: Results, plots: Path) -> list[str]:
    return [
        _drain(results, plots),
        _webhooks(results),
        cost_section.profile(results),
        _matching(results),
        _backlog(results, plots),
        _paths(results, "streams", "Streams", "streams"),
        _paths(results, "payload", "Payload", "bytes"),
    ]


def _drain(results: Results, plots: Path) -> str:
    """Only claiming, handling and settling. What each side writes is in the table."""
    rows = [
        (shown, cell(results, name), writes)
        for name, shown, writes in (
            ("pg.drain.holdfast", "PostgreSQL: holdfast",
             "the claim updates a row; the end updates the delivery, removes that row and appends to a receipt"),
            ("pg.drain.pgmq", "PostgreSQL: pgmq, deleted", "the read updates a row; the end removes it"),
            ("pg.drain.pgmq, archived", "PostgreSQL: pgmq, archived",
             "the read updates a row; the end moves it to another table"),
            ("sqlite.drain.holdfast", "SQLite: holdfast", "as on PostgreSQL"),
            ("sqlite.drain.persist-queue", "SQLite: persist-queue", "each get and each ack commits an update"),
        )
    ]  # fmt: skip
    if all(row[1] == "–" for row in rows):
        return ""
    return (
        "### Drain of a backlog that was routed beforehand\n\nOnly claiming, calling a no-op handler and settling: "
        "matching the events with the contracts is not included. A user sees *published → settled* above.\n\n"
        + table(("", "drain", "written per job"), rows)
        + "\n\n"
        + bars(results, plots, "pg-drain", "PostgreSQL: drain of a routed backlog", "pg.drain.",
               without=("holdfast, routed on the way",))
    )  # fmt: skip


def _webhooks(results: Results) -> str:
    names = ("webhooks.bare client", "webhooks.own client, bare", "webhooks.holdfast")
    if not any(name in results.figures for name in names):
        return ""
    return (
        "### Outgoing webhooks\n\nSigned 1 KB requests to a local nginx, 64 at a time, from a routed backlog on SQLite "
        "until settled, compared with aiohttp alone and Holdfast's client alone.\n\n"
        + table(("what", "figure"), [(name.replace(".", ": ", 1), cell(results, name)) for name in names])
    )


def _matching(results: Results) -> str:
    shapes = [
        name.removeprefix("matching.").removesuffix(".grows") for name in results.figures if name.endswith(".grows")
    ]
    if not shapes:
        return ""
    counts = [size for size, _ in series(results, f"matching.{shapes[0]}.", "")]
    columns = ("each", *map(str, counts), "grows")
    head = ("contracts", f"without index, {counts[0]:,}", *(f"index, {count:,}" for count in counts), "grows")
    return (
        "### Matching\n\nCPU time to find the contracts that match one event, as the number of contracts grows and the "
        "number of matches stays the same. "
        f"Replacing one contract of {counts[-1]:,}: {cell(results, 'matching.change of one')}.\n\n"
        + table(
            head, [(shape, *(cell(results, f"matching.{shape}.{column}") for column in columns)) for shape in shapes]
        )
    )


def _backlog(results: Results, plots: Path) -> str:
    rows, drains, claims = [], [], []
    for store, shown in STORES.items():
        sizes = [size for size, _ in series(results, f"backlog.{store}.", ".drain")]
        for size in sizes:
            names = [f"backlog.{store}.{size}.{what}" for what in ("drain", "CPU", "memory")]
            rows.append(
                (shown, f"{size:,}", cell(results, f"claim.{store}.{size}"), *[cell(results, name) for name in names])
            )
        if sizes:
            drains.append(svg.Line(shown, series(results, f"backlog.{store}.", ".drain")))
            claims.append(svg.Line(shown, series(results, f"claim.{store}.", "")))
    if not rows:
        return ""
    text = (
        "### Backlog\n\nThe same work at each backlog size: claims of 100, and the first deliveries to a no-op "
        "handler. CPU is the time of the delivering process per delivery; memory is its peak.\n\n"
    )
    text += table(("store", "pending", "claim of 100", "drain", "CPU", "memory"), rows)
    plot(plots / "backlog.svg", svg.lines("Drain, by backlog", "pending deliveries", "/s", drains))
    plot(plots / "claims.svg", svg.lines("A claim of 100, by backlog", "pending deliveries", "ms", claims))
    return text + f"\n\n![Drain, by backlog]({plots.name}/backlog.svg)\n\n![Claim, by backlog]({plots.name}/claims.svg)"


def _paths(results: Results, part: str, title: str, unit: str) -> str:
    columns = ("accept", "route", "drain", "CPU", "CPU of the server", "memory")
    rows = []
    for store, shown in STORES.items():
        for size, _ in series(results, f"{part}.{store}.", ".accept"):
            cells = [cell(results, f"{part}.{store}.{size}.{column}") for column in columns]
            rows.append((shown, f"{size:,}", *cells))
    if not rows:
        return ""
    text = (
        "Accepted in batches, then routed, then delivered. CPU is the time per event over all three steps; memory is "
        "the peak of the process.\n\n"
    )
    return f"### {title}\n\n{text}" + table(("store", unit, *columns), rows)
