"""The store: which library or server, whether it is whole, and what in it wants an operator."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from holdfast.domain.errors import HoldfastError
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.retry import Policy
from holdfast.operations.doctor.finding import Finding, fail, mib, ok, warn
from holdfast.operations.elapsed import span
from holdfast.store.open import Library, is_postgres, open_store, sqlite_libraries, sqlite_path
from holdfast.store.roles.store import Store

CHECK_BYTES_MAX = 1 << 30  # a larger file is read through only by the daemon, after an unclean stop
OLD_S = 3600.0
CONTRACTS_MAX = 5


def check_library(url: str) -> list[Finding]:
    """SQLite below 3.51.3 may lose a commit that is made while another connection checkpoints."""
    if is_postgres(url):
        return []
    own, python = sqlite_libraries()
    if not own.mended:
        todo = "install a newer apsw: pip install --upgrade apsw"
        return [fail("store.library", f"{_named(own)} may lose commits; 3.51.3 or later is needed", todo)]
    text = f"the daemon has {_named(own)}, applications in this Python {_named(python)}"
    if not python.mended:
        text += ": they must leave checkpoints to the daemon, as outbox.prepare() does"
    return [ok("store.library", text)]


async def check_store(url: str, now_ms: int, policies: Mapping[str, Policy] | None = None) -> list[Finding]:
    """Open it beside the process that works on it. Nothing is created. With `policies`, contracts are checked too."""
    if not is_postgres(url) and not sqlite_path(url).exists():
        return [warn("store.reached", f"{sqlite_path(url)} is not there yet", "run: holdfast up")]
    try:
        store = open_store(url, create=False)
    except HoldfastError as error:
        return [fail("store.reached", error.message)]
    try:
        found = await _look(store, url, now_ms)
        if policies is not None:
            faults = {one.id: misconfiguration(one, policies) for one in await store.contracts.all()}
            found += judge_contracts({id: fault for id, fault in faults.items() if fault is not None})
        return found
    except HoldfastError as error:
        return [fail("store.reached", error.message)]
    finally:
        await store.close()


def judge_contracts(faults: Mapping[str, str]) -> list[Finding]:
    if not faults:
        return [ok("contracts", "no contract is misconfigured")]
    found = [
        warn("contracts", f"contract {id} is misconfigured: {why}", f"look: holdfast contracts show {id}")
        for id, why in islice(faults.items(), CONTRACTS_MAX)
    ]
    if len(faults) > CONTRACTS_MAX:
        more = len(faults) - CONTRACTS_MAX
        found.append(warn("contracts", f"{more:,} more contracts are misconfigured", "look: holdfast contracts list"))
    return found


async def _look(store: Store, url: str, now_ms: int) -> list[Finding]:
    found = [ok("store.reached", f"the store is {await store.maintenance.about()}")]
    figures = await store.operator.figures()
    found += await _check_whole(store, url)
    found += [warn("store.pooler", note, "see docs/operate/postgres.md") for note in store.maintenance.notes()]
    return [*found, _judge_dead(figures), _judge_pending(figures, now_ms)]


async def _check_whole(store: Store, url: str) -> list[Finding]:
    if not is_postgres(url):
        size = sqlite_path(url).stat().st_size
        if size > CHECK_BYTES_MAX:
            return [ok("store.whole", f"not read through: {mib(size)} are too much for a quick look")]
    faults = await store.maintenance.check()
    if not faults:
        said = "no setting of the server weakens a commit" if is_postgres(url) else "SQLite finds no fault in the file"
        return [ok("store.whole", said)]
    todo = "correct the server's settings" if is_postgres(url) else "stop the daemon, then: holdfast db restore BACKUP"
    return [fail("store.whole", fault, todo) for fault in faults]


def _judge_dead(figures: dict[str, Any]) -> Finding:
    dead = figures["dead"]
    if not dead:
        return ok("store.dead", "no delivery is dead")
    text = "1 delivery is dead" if dead == 1 else f"{dead:,} deliveries are dead"
    return warn("store.dead", text, "look: holdfast dlq inspect")


def _judge_pending(figures: dict[str, Any], now_ms: int) -> Finding:
    oldest = figures["oldest_pending_ms"]
    if oldest is None:
        return ok("store.pending", "no delivery waits")
    age_s = (now_ms - oldest) / 1000
    text = f"{figures['pending']:,} pending, the oldest for {span(age_s)}"
    if age_s > OLD_S:
        return warn("store.pending", text, "look: holdfast deliveries list --state pending")
    return ok("store.pending", text)


def _named(library: Library) -> str:
    return f"SQLite {library.version}"
