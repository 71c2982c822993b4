"""What every operator verb works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.domain.retry import Policy
from holdfast.net.guard import Guard
from holdfast.ports import Chance, Clock
from holdfast.store.roles.maintenance import Retention
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.store import Store


@dataclass(frozen=True, slots=True)
class OperationsContext:
    """A store, the rules in force, and callables that report what the running process knows.

    `health`: the state of each background duty. `spooled`: files in the spool. `served`: handler addresses of this
    process. `warnings`: lines for `status`. `hooks`: counts of agent hooks that were not appended. `faults`: why
    contracts are misconfigured, by contract id. A process without a daemon keeps the defaults.
    """

    store: Store
    owner: Owner
    guard: Guard
    policies: Mapping[str, Policy]
    retention: Retention
    clock: Clock
    chance: Chance
    health: Callable[[], dict[str, str]] = dict
    spooled: Callable[[], int] = int
    served: Callable[[], frozenset[str]] = frozenset
    warnings: Callable[[], list[str]] = list
    hooks: Callable[[], dict[str, int]] = dict
    faults: Callable[[], Mapping[str, str]] = dict
