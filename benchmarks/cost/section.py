"""The cost of an event on the page: the sum that a user pays, and the profile of where it goes."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Results
from benchmarks.server import CONNECTIONS as SERVER
from benchmarks.tables import amount, cell, table

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
LAST = ("all", "rate", "written")


def cost(results: Results) -> str:
    names = [name.removeprefix("cost.postgres.") for name in results.figures if name.startswith("cost.postgres.")]
    processes = [name for name in names if name not in LAST] or ["this process"]
    rows = [
        (shown, *(cell(results, f"cost.{store}.{name}") for name in (*processes, *LAST)))
        for store, shown in STORES.items()
    ]
    if all(row[1] == "–" for row in rows):
        return ""
    return (
        "### What one event costs\n\nCPU time per event of 1 KB, as counted by the kernel, over the whole path: "
        "accepted in batches of 200, routed, handled and settled with a receipt, all at the same time. *written*: to "
        "the log of PostgreSQL, or by the process on SQLite to the log and the file.\n\n"
        + table(("store", *processes, "all processes", "rate", "written per event"), rows)
    )


def profile(results: Results) -> str:
    facts = results.facts.get("cost", {})
    parts = [_profile(results, store, facts[store]) for store in STORES if store in facts]
    return "### Where the CPU goes\n\n" + INTRO + "\n\n" + "\n\n".join(parts) if parts else ""


INTRO = (
    "From a run of its own, by samples: the share of each module of Holdfast in the CPU time of the process, with the "
    "library it had called, all threads together. For the server: the statements that were active, by samples of "
    "`pg_stat_activity`; *running* is the share of that time without waits for the disk or a lock, and the CPU time "
    "of the connections is divided by it."
)


def _profile(results: Results, store: str, facts: dict[str, list[Sequence[float | str]]]) -> str:
    cpu = results.median(f"cost.{store}.this process") or 0.0
    found = [(str(place), float(share)) for place, share in facts["profile"]]
    rows = [(place, f"{share:.0%}", f"{amount(share * cpu)} µs") for place, share in found]
    text = table((f"process on {STORES[store]}", "share", "per event"), rows)
    if not (statements := facts.get("statements")):
        return text
    lines = [(str(name), float(share), float(running)) for name, share, running in statements]
    each = (results.median(f"cost.{store}.{SERVER}") or 0.0) / (sum(share * run for _, share, run in lines) or 1.0)
    cells = [
        (f"`{name}`", f"{share:.0%}", f"{run:.0%}", f"{amount(share * run * each)} µs") for name, share, run in lines
    ]
    return text + "\n\n" + table(("statement on the server", "share of active time", "running", "per event"), cells)
