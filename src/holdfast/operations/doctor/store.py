"""Checks of the store: library or server, integrity, and deliveries or contracts that need attention."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from holdfast.domain.errors import HoldfastError
from holdfast.domain.json_value import Json
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.retry import Policy
from holdfast.operations.doctor.finding import Finding, fail, mib, ok, warn
from holdfast.operations.elapsed import span
from holdfast.store.open import Library, is_postgres, open_store, sqlite_libraries, sqlite_path
from holdfast.store.roles.store import Store

CHECK_BYTES_MAX = 1 << 30  # a larger file is checked only by the daemon, after an unclean stop
OLD_S = 3600.0
CONTRACTS_MAX = 5


def check_library(url: str) -> list[Finding]:
    """SQLite below 3.51.3 may lose a commit that is made while another connection checkpoints."""
    if is_postgres(url):
        return []
    own, python = sqlite_libraries()
    if not own.has_wal_reset_fix:
        todo = "install a newer apsw: pip install --upgrade apsw"
        return [fail("store.library", f"{_name_of(own)} may lose commits; 3.51.3 or later is required", todo)]
    text = f"the daemon uses {_name_of(own)}, applications in this Python use {_name_of(python)}"
    if not python.has_wal_reset_fix:
        text += "; they must leave checkpoints to the daemon, which outbox.prepare() does"
    return [ok("store.library", text)]


async def check_store(url: str, now_ms: int, policies: Mapping[str, Policy] | None = None) -> list[Finding]:
    """Open the store, which another process may be using. Nothing is created. With `policies`, also check contracts."""
    if not is_postgres(url) and not sqlite_path(url).exists():
        return [warn("store.reached", f"{sqlite_path(url)} does not exist yet", "run: holdfast up")]
    try:
        store = open_store(url, create=False)
    except HoldfastError as error:
        return [fail("store.reached", error.message)]
    try:
        findings = await _check_contents(store, url, now_ms)
        if policies is not None:
            faults = {contract.id: misconfiguration(contract, policies) for contract in await store.contracts.all()}
            findings += judge_contracts({id: fault for id, fault in faults.items() if fault is not None})
        return findings
    except HoldfastError as error:
        return [fail("store.reached", error.message)]
    finally:
        await store.close()


def judge_contracts(faults: Mapping[str, str]) -> list[Finding]:
    if not faults:
        return [ok("contracts", "no contract is misconfigured")]
    found = [
        warn("contracts", f"contract {id} is misconfigured: {why}", f"run: holdfast contracts show {id}")
        for id, why in islice(faults.items(), CONTRACTS_MAX)
    ]
    if len(faults) > CONTRACTS_MAX:
        more = len(faults) - CONTRACTS_MAX
        found.append(warn("contracts", f"{more:,} more contracts are misconfigured", "run: holdfast contracts list"))
    return found


async def _check_contents(store: Store, url: str, now_ms: int) -> list[Finding]:
    found = [ok("store.reached", f"the store is {await store.maintenance.about()}")]
    figures = await store.operator.figures()
    found += await _check_whole(store, url)
    found += [warn("store.pooler", note, "see docs/operate/postgres.md") for note in store.maintenance.notes()]
    return [*found, _judge_dead(figures), _judge_pending(figures, now_ms)]


async def _check_whole(store: Store, url: str) -> list[Finding]:
    if not is_postgres(url):
        size = sqlite_path(url).stat().st_size
        if size > CHECK_BYTES_MAX:
            return [ok("store.whole", f"not checked: {mib(size)} are too large for a quick check")]
    faults = await store.maintenance.check()
    if not faults:
        text = "no server setting weakens commits" if is_postgres(url) else "SQLite finds no fault in the file"
        return [ok("store.whole", text)]
    todo = "fix the server's settings" if is_postgres(url) else "stop the daemon, then: holdfast db restore BACKUP"
    return [fail("store.whole", fault, todo) for fault in faults]


def _judge_dead(figures: Mapping[str, Json]) -> Finding:
    dead = figures["dead"]
    if not dead:
        return ok("store.dead", "no dead letters")
    text = "1 dead letter" if dead == 1 else f"{dead:,} dead letters"
    return warn("store.dead", text, "run: holdfast dlq inspect")


def _judge_pending(figures: Mapping[str, Json], now_ms: int) -> Finding:
    oldest = figures["oldest_pending_ms"]
    if oldest is None:
        return ok("store.pending", "no pending deliveries")
    age_s = (now_ms - oldest) / 1000
    text = f"{figures['pending']:,} pending, the oldest for {span(age_s)}"
    if age_s > OLD_S:
        return warn("store.pending", text, "run: holdfast deliveries list --state pending")
    return ok("store.pending", text)


def _name_of(library: Library) -> str:
    return f"SQLite {library.version}"
