"""Checks of the store: library or server, integrity, and deliveries or contracts that need attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from holdfast.config.promote_at import PromoteAt
from holdfast.domain.contract import Contract
from holdfast.domain.errors import HoldfastError
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.retry import Policy
from holdfast.domain.store_url import is_postgres
from holdfast.operations.contract_health import find_faults
from holdfast.operations.doctor.finding import Finding, fail, mib, ok, warn
from holdfast.operations.doctor.machine import judge_clock
from holdfast.operations.doctor.queue import check_queue
from holdfast.operations.elapsed import span
from holdfast.store.open import Library, open_store, several_hosts, sqlite_libraries, sqlite_path
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.maintenance import Replication
from holdfast.store.roles.operator import StoreFigures
from holdfast.store.roles.owners import WorkingOwner
from holdfast.store.roles.store import Store

CHECK_BYTES_MAX = 1 << 30  # a larger file is checked only by the daemon, after an unclean stop
LOG_BYTES_MAX = 1 << 28
OLD_S = 3600.0
CONTRACTS_MAX = 5
STANDBYS_MAX = 5
OWNERS_MAX = 100
PIDS_SHOWN = 5
CONTRACTS_COUNTED_MAX = 10_000


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


async def check_store(
    url: str,
    now_ms: int,
    policies: Mapping[str, Policy] | None = None,
    driver: str = "apsw",
    promote_at: PromoteAt | None = None,
) -> list[Finding]:
    """Open the store, which another process may be using. Nothing is created. With `policies`, also check contracts."""
    if not is_postgres(url) and not sqlite_path(url).exists():
        return [warn("store.reached", f"{sqlite_path(url)} does not exist yet", "run: holdfast up")]
    try:
        store = open_store(url, create=False, driver=driver)
    except HoldfastError as error:
        return [fail("store.reached", error.message)]
    try:
        findings = await _check_contents(store, url, now_ms)
        findings += await check_queue(store, promote_at, now_ms)
        contracts = await store.contracts.all(inactive=True)
        parked = await store.operator.count_pending(CONTRACTS_COUNTED_MAX)
        findings += [*judge_disabled(contracts, parked), *judge_senders(contracts)]
        owners = await store.owners.working(OWNERS_MAX)
        findings += judge_leases(owners)
        if policies is not None:
            findings += judge_contracts(await _find_faults(store, policies, owners, now_ms))
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
    found += judge_replication(await store.maintenance.replication(), several_hosts(url))
    newest = await store.events.find(EventFilter(), None, 1)
    return [
        *found,
        *_judge_log((await store.maintenance.sizes()).write_ahead_log),
        _judge_dead(figures),
        _judge_pending(figures, now_ms),
        judge_clock(newest.items[0].accepted_at_ms if newest.items else None, now_ms),
    ]


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


def judge_replication(state: Replication | None, several_hosts: bool) -> list[Finding]:
    """Whether a failover of the database server can lose what was accepted."""
    if state is None:
        return []
    id, page = "store.replication", "see docs/operate/postgres.md"
    if state.synchronous:
        names = ", ".join(sorted(state.synchronous)[:STANDBYS_MAX])
        return [ok(id, f"replication is synchronous (standby {names}): a failover loses nothing that was accepted")]
    if state.wanted and state.hidden:
        text = "replication should be synchronous, but this role may not see whether a standby is connected"
        return [warn(id, text, "run in the database: GRANT pg_monitor TO the role of the store")]
    if state.wanted:
        text = "replication should be synchronous, but no such standby is connected: every commit waits for one"
        return [fail(id, text, "start the standby, or change synchronous_standby_names on the server")]
    if state.asynchronous:
        text = "replication is asynchronous: a failover may lose what was accepted shortly before"
        return [warn(id, text, f"set synchronous_standby_names on the server; {page}")]
    if several_hosts:
        return [warn(id, "the store's URL names several servers, but no standby is connected to this one", page)]
    return [ok(id, "no standby is connected to the server")]


def _judge_dead(figures: StoreFigures) -> Finding:
    dead = figures.dead
    if not dead:
        return ok("store.dead", "no dead letters")
    text = "1 dead letter" if dead == 1 else f"{dead:,} dead letters"
    return warn("store.dead", text, "run: holdfast dlq inspect")


def _judge_pending(figures: StoreFigures, now_ms: int) -> Finding:
    oldest = figures.oldest_pending_ms
    if oldest is None:
        return ok("store.pending", "no pending deliveries")
    age_s = (now_ms - oldest) / 1000
    text = f"{figures.pending:,} pending, the oldest for {span(age_s)}"
    if age_s > OLD_S:
        return warn("store.pending", text, "run: holdfast deliveries list --state pending")
    return ok("store.pending", text)


def _judge_log(size: int | None) -> list[Finding]:
    """SQLite's write-ahead log grows without end while another process holds a read transaction open."""
    if size is None:
        return []
    text = f"the write-ahead log has {mib(size)}"
    if size > LOG_BYTES_MAX:
        return [warn("store.log", text, "end the process that keeps a read transaction open; then: holdfast up")]
    return [ok("store.log", text)]


async def _find_faults(
    store: Store, policies: Mapping[str, Policy], owners: Sequence[WorkingOwner], now_ms: int
) -> dict[str, str]:
    """Contracts that cannot be delivered. Whether a handler is served can be said only while some process works."""
    if any(owner.alive for owner in owners):
        return await find_faults(store.contracts, policies, (), now_ms)
    faults = {contract.id: misconfiguration(contract, policies) for contract in await store.contracts.all()}
    return {id: fault for id, fault in faults.items() if fault is not None}


def judge_leases(owners: Sequence[WorkingOwner]) -> list[Finding]:
    """Leases of processes that are gone: the next start of a daemon, or its sweeper, frees them."""
    gone = [owner for owner in owners if not owner.alive and owner.deliveries]
    if gone:
        count, pids = sum(owner.deliveries for owner in gone), ", ".join(str(owner.pid) for owner in gone[:PIDS_SHOWN])
        text = f"{_deliveries(count)} still leased by processes that are gone (pid {pids})"
        return [warn("store.leases", text, "a daemon frees them; run: holdfast up")]
    held = sum(owner.deliveries for owner in owners)
    return [ok("store.leases", f"{_deliveries(held)} leased by processes that run")] if held else []


def judge_senders(contracts: Sequence[Contract]) -> list[Finding]:
    """Contracts through which every sender of a platform can write to an agent session."""
    return [
        warn(
            "contracts.senders",
            f'contract {contract.id} has senders: "*", so every sender of its events can make the agent of '
            f"session {contract.session} run tools",
            "list the ids of the senders in the configuration file",
        )
        for contract in contracts
        if contract.active and contract.senders is not None and contract.senders.everyone
    ][:CONTRACTS_MAX]


def judge_disabled(contracts: Sequence[Contract], pending: Mapping[str, int]) -> list[Finding]:
    """Disabled contracts: their deliveries are parked until they are enabled or removed."""
    disabled = [contract for contract in contracts if not contract.active]
    found = [
        warn(
            "contracts.disabled",
            f"contract {contract.id} is disabled, and {_parked(pending.get(contract.id, 0))}",
            f"run: holdfast contracts enable {contract.id}, or: holdfast contracts remove {contract.id}",
        )
        for contract in disabled[:CONTRACTS_MAX]
    ]
    if len(disabled) > CONTRACTS_MAX:
        more = len(disabled) - CONTRACTS_MAX
        text = f"{more:,} more contracts are disabled"
        found.append(warn("contracts.disabled", text, "run: holdfast contracts list --inactive"))
    return found


def _parked(count: int) -> str:
    return f"{_deliveries(count)} parked" if count else "nothing waits for it"


def _deliveries(count: int) -> str:
    return "1 delivery is" if count == 1 else f"{count:,} deliveries are"


def _name_of(library: Library) -> str:
    return f"SQLite {library.version}"
