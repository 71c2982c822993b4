"""Operator verbs on a store URL, for commands that work without a daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.config.settings_file import load_store
from holdfast.domain.errors import NotFound
from holdfast.domain.store_url import PGMQ_PREFIX
from holdfast.home import find_home, masked_url, store_url
from holdfast.ingress.spool import sync_folder
from holdfast.ledger.export import Export
from holdfast.ledger.export import export_receipts as export
from holdfast.ledger.signed_heads import KEY_BYTES, SignedHeads, check_heads, read_heads
from holdfast.ledger.verifier import Progress as Report
from holdfast.ledger.verifier import Range, Verification
from holdfast.ledger.verifier import verify_receipts as verify
from holdfast.operations.answers.page import Page
from holdfast.operations.answers.receipts import ExportedReceipts, ReceiptKeys, VerifiedReceipts, verified_receipts
from holdfast.operations.answers.store_files import (
    CopiedStore,
    MigratedStore,
    PromotedQueue,
    RestoredStore,
    StoreBackup,
)
from holdfast.operations.answers.tokens import CreatedToken, RevokedToken, TokenAnswer
from holdfast.operations.local_operations import local_actor
from holdfast.operations.registration import register
from holdfast.operations.restore import restore_file, sync_file
from holdfast.operations.tokens import TokenVerbs
from holdfast.ports import Application, SystemChance, SystemClock
from holdfast.progress import QUIET, Progress, file_growth
from holdfast.store.open import check_copy, migrate_store, open_store, print_schema, sqlite_path
from holdfast.store.roles.queue_admin import QueueKind, QueueMove

if TYPE_CHECKING:
    from holdfast.store.roles.store import Store

T = TypeVar("T")
CopyProgress = Callable[[str, int, int], None]
"""Called with what is being done, how many rows of it are done, and how many there are."""


def configured_store() -> str:
    """The store that a daemon of this home would use. The home is created if the store lies in it."""
    home = find_home()
    url = os.environ.get("HOLDFAST_STORE") or load_store(home.config)
    if not url:
        home.make()
    return url or store_url(home)


def migrate(store: str | None, app: Application | None) -> MigratedStore:
    """Create or update the tables, and register the contracts of the application's code."""
    url = store or (configured_store() if app is None else app.url)
    # The compatibility views are created only in the daemon's own database, never in a file of the user.
    own = app is None and (store is None or store == configured_store())
    before, after = migrate_store(url, own=own, driver="apsw" if app is None else "sqlite3")
    registered = [] if app is None else asyncio.run(_register(url, app))
    return MigratedStore(masked_url(url), before, after, registered)


def schema(store: str | None, *, application: bool) -> str:
    """The SQL that `migrate` would run on an empty database."""
    return print_schema(not application, store or configured_store())


def backup(store: str | None, path: Path, progress: Progress = QUIET) -> StoreBackup:
    """Write a complete copy of the store to `path`. Other processes may keep using the store."""
    if not path.parent.is_dir():
        raise NotFound(f"the folder {path.parent} does not exist; create it, or choose another path")
    url = store or configured_store()
    if url.startswith("sqlite:"):
        progress.measure = file_growth(path.with_name(path.name + ".partial"), sqlite_path(url))
    os.umask(0o077)  # the copy holds every payload of the store
    _with_store(url, lambda opened: opened.maintenance.backup(path))
    sync_file(path)
    sync_folder(path.parent)
    return StoreBackup(masked_url(url), str(path), path.stat().st_size)


def restore(store: str | None, path: Path, progress: Progress = QUIET) -> RestoredStore:
    """Replace the store by the backup at `path`. The old file is kept."""
    url = store or configured_store()
    os.umask(0o077)
    kept = restore_file(url, path, progress)
    return RestoredStore(masked_url(url), str(path), None if kept is None else str(kept))


def copy(source: str, target: str, progress: CopyProgress) -> CopiedStore:
    """Copy a SQLite store to an empty PostgreSQL database, and mark the old one as moved."""
    check_copy(source, target)
    from holdfast.store.copy import copy_store

    report = asyncio.run(copy_store(source, target, progress))
    return CopiedStore(masked_url(source), masked_url(target), report.resumed, report.rows)


def cancel_copy(source: str, target: str) -> None:
    """Let the old store be used again."""
    check_copy(source, target)
    from holdfast.store.copy import cancel_copy as cancel

    cancel(source)


def promote(store: str | None, to: str) -> PromotedQueue:
    """Move the queue of a PostgreSQL store into pgmq, or back into the store's own table, while daemons run."""
    url = (store or configured_store()).removeprefix(PGMQ_PREFIX)  # opened whatever the queue is now

    async def run(opened: Store) -> QueueMove:
        owner = await opened.owners.register()
        try:
            return await opened.queue_admin.move(QueueKind(to), owner.acting(local_actor()))
        finally:
            await opened.owners.retire(owner)

    moved = _with_store(url, run)
    return PromotedQueue(masked_url(url), moved.before, moved.after, moved.rows)


def create_token(store: str | None, name: str, scope: str) -> CreatedToken:
    return _with_tokens(store, lambda tokens: tokens.create(name, scope))


def list_tokens(store: str | None, after: str | None, limit: int) -> Page[TokenAnswer]:
    return _with_tokens(store, lambda tokens: tokens.find(after=after, limit=limit))


def revoke_token(store: str | None, id: str) -> RevokedToken:
    return _with_tokens(store, lambda tokens: tokens.revoke(id))


def verify_receipts(
    store: str,
    links: tuple[str | None, int, int | None],
    rows: bool,
    heads: Path | None,
    keys: Sequence[str],
    progress: Report = lambda done, total: None,
) -> VerifiedReceipts:
    """Verify the receipts of a store that no daemon may be serving.

    `links`: the chain, and its first and last link to check. `heads`: a file of signed heads; by default those of the
    home folder, if they are of this store. `keys`: the public keys that may have signed them; by default those of the
    home folder.
    """
    files = SignedHeads(find_home().receipts)

    async def run(opened: Store) -> Verification:
        known = list(keys) or files.public_keys()
        kept = check_heads(files.of(opened.url) if heads is None else read_heads(heads), known)
        found = await verify(opened.receipts, kept.anchors, wanted=Range(*links), rows=rows, progress=progress)
        found.add(kept.faults)
        return found

    return verified_receipts(_with_store(store, run))


def export_receipts(store: str | None, folder: Path) -> ExportedReceipts:
    """Write all receipts into a new folder that is verified without Holdfast."""
    files = SignedHeads(find_home().receipts)
    clock = SystemClock()

    async def run(opened: Store) -> Export:
        return await export(opened, folder, files.of(opened.url), files.public_keys(), clock.now_ms())

    done = _with_store(store or configured_store(), run)
    return ExportedReceipts(str(folder), done.chains, done.links, done.heads)


def receipt_keys(rotate: bool) -> ReceiptKeys:
    """The public keys that sign heads, the newest last. `rotate`: with a new one."""
    files = SignedHeads(find_home().receipts)
    if rotate:
        files.rotate(SystemChance().entropy(KEY_BYTES))
    return ReceiptKeys(files.public_keys())


def _with_store(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Open an existing store, which another process may be using, for one piece of work."""

    async def run() -> T:
        opened = open_store(url, create=False)
        try:
            return await work(opened)
        finally:
            await opened.close()

    return asyncio.run(run())


def _with_tokens(url: str | None, work: Callable[[TokenVerbs], Awaitable[T]]) -> T:
    async def run(opened: Store) -> T:
        owner = await opened.owners.register()
        try:
            by = owner.acting(local_actor())
            return await work(TokenVerbs(opened.tokens, SystemClock(), SystemChance(), by))
        finally:
            await opened.owners.retire(owner)

    return _with_store(url or configured_store(), run)


async def _register(url: str, app: Application) -> list[str]:
    opened = open_store(url, driver="sqlite3", own=False)
    try:
        owner = await opened.owners.register()
        await register(opened.contracts, app.modules(), app.contracts.all(), by=owner.acting(local_actor()))
        await opened.owners.retire(owner)
    finally:
        await opened.close()
    return [contract.id for contract in app.contracts.all()]
