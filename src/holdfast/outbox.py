"""The facade users import: publish inside your own transaction, and handle events durably.

    from holdfast import Outbox

    outbox = Outbox("sqlite:///app.db")

    with connection:                                # your sqlite3 connection, your transaction
        connection.execute("insert into orders …")
        outbox.publish(connection, "order.placed", {"id": 42}, stream="order:42")

    @outbox.on("order.*")
    async def ship(event, delivery): ...

Then `holdfast up --app module:outbox` delivers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion, check_contract_id, parse_criteria, parse_criterion
from holdfast.domain.errors import BadInput
from holdfast.domain.event import SOURCE_DEFAULT, new_event
from holdfast.domain.retry import POLICIES

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.ingress.publish import Published

F = TypeVar("F", bound=Callable[..., Any])


class ContractBook:
    """The contracts an application registers in code. They are put into the store when its daemon starts."""

    def __init__(self) -> None:
        self._contracts: dict[str, Contract] = {}

    def register(self, contract: Contract) -> None:
        self._contracts[contract.id] = contract

    def all(self) -> list[Contract]:
        return list(self._contracts.values())


class Outbox:
    """An outbox in your database. Creating one opens nothing and costs nothing."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.handlers: dict[str, Callable[..., Any]] = {}
        self.contracts = ContractBook()

    def publish(
        self,
        connection: Any,
        type: str,
        payload: Any = None,
        *,
        stream: str | None = None,
        dedup: str | None = None,
        source: str = SOURCE_DEFAULT,
        properties: Mapping[str, Any] | None = None,
        timestamp: str | datetime | None = None,
        to: str | None = None,
        at: datetime | None = None,
    ) -> Published:
        """Append an event in the caller's transaction: one statement, never a commit.

        `stream` orders it after what is there; `dedup` makes a repetition return the first; `at` delays it.
        """
        from holdfast.ingress.publish import publish

        event = new_event(
            type, payload, stream=stream, dedup_key=dedup, source=source, properties=properties, timestamp=timestamp,
            to=to, at=at,
        )  # fmt: skip
        return publish(connection, event)

    def on(
        self,
        pattern: str,
        *,
        name: str | None = None,
        source: Any = None,
        properties: Mapping[str, Any] | None = None,
        policy: str | None = None,
        attempts: int | None = None,
        ordered: bool = False,
        timeout: float | None = None,
        concurrency: int | None = None,
    ) -> Callable[[F], F]:
        """Register a durable handler: a function, and the contract that says which events it wants."""
        if policy is not None and policy not in POLICIES:
            raise BadInput(f"policy {policy!r} is unknown; use one of {', '.join(POLICIES)}")

        def register(function: F) -> F:
            from holdfast.egress.deliverers.handler import make_handler

            make_handler(function)
            key = name or function.__name__
            if key in self.handlers:
                raise BadInput(f"a handler named {key!r} is registered already; give this one another name=")
            contract = Contract(
                id=check_contract_id(key),
                address=parse_address(f"handler:{key}"),
                type_criterion=Criterion(pattern=pattern),
                source_criterion=None if source is None else parse_criterion(source, "source"),
                properties=parse_criteria(properties or {}, "properties"),
                source="programmatic",
                policy=policy,
                attempts=attempts,
                ordered=ordered,
                timeout_s=timeout,
                concurrency=concurrency,
            )
            self.handlers[key] = function
            self.contracts.register(contract)
            return function

        return register

    def migrate(self) -> None:
        """Make or update Holdfast's tables in your database. Harmless to call again."""
        from holdfast.store.open import migrate_store

        migrate_store(self.url, own=False, driver="sqlite3")

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Set what the promise needs on your own connection: the log, full syncs, and no checkpoints of its own."""
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")

    def check(self, connection: sqlite3.Connection) -> list[str]:
        """What on your connection weakens the promise; empty when nothing does."""
        faults = []
        if connection.execute("PRAGMA journal_mode").fetchone()[0].lower() != "wal":
            faults.append("journal_mode is not WAL: the daemon and your application will wait for each other")
        if connection.execute("PRAGMA synchronous").fetchone()[0] < 2:
            faults.append("synchronous is below FULL: a power cut may lose what you committed last")
        if connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0] != 0:
            faults.append(
                "wal_autocheckpoint is on: leave checkpoints to the daemon (SQLite before 3.51.3 can lose commits)"
            )
        return faults
