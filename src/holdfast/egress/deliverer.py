"""The deliverer protocol: what brings an event to one kind of address. CONTRIBUTING.md shows how to add one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from holdfast.domain.address import KINDS
from holdfast.domain.delivery import Claim, Outcome
from holdfast.net.guard import Guard
from holdfast.ports import Clock


class Attempt(Protocol):
    """One attempt, as its deliverer sees it.

    Its timeout runs from the call of `deliver` on, unless the deliverer pauses it and starts it later.
    """

    def pause_timeout(self) -> None:
        """Stop the timeout: the attempt waits for a free place in this process, which is not the receiver's time."""

    def start_timeout(self, in_thread: bool = False) -> None:
        """Start the timeout from zero. `in_thread`: a plain function runs now, which cannot be cancelled."""

    def leave_thread(self) -> None:
        """Note that the function has returned and its thread is free."""


class Deliverer(Protocol):
    """Delivers to the addresses of one kind.

    `kind` is the name of that kind in `holdfast.domain.address.KINDS`.
    """

    kind: str

    def serves(self) -> frozenset[str] | None:
        """The addresses that this process can deliver to; None: every address of the kind."""

    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        """Make one attempt. An exception counts as a failed attempt and is retried."""

    async def close(self) -> None:
        """Release connections and threads. No attempt begins after this."""


class Untimed:
    """An attempt outside the engine, without a timeout."""

    def pause_timeout(self) -> None:
        pass

    def start_timeout(self, in_thread: bool = False) -> None:
        pass

    def leave_thread(self) -> None:
        pass


UNTIMED = Untimed()


class DelivererContext(NamedTuple):
    """What the daemon gives to a deliverer that it loads. The guard decides which hosts may be reached."""

    clock: Clock
    guard: Guard


def load_deliverers(created: Iterable[Deliverer], context: DelivererContext) -> dict[str, Deliverer]:
    """A deliverer for every kind in `KINDS` that names one.

    The daemon has `created` those that need more than a context. The others are imported and created here.
    """
    deliverers = {deliverer.kind: deliverer for deliverer in created}
    for kind in KINDS.values():
        if kind.deliverer is not None and kind.name not in deliverers:
            module, _, name = kind.deliverer.partition(":")
            create = cast(Callable[[DelivererContext], Deliverer], getattr(import_module(module), name))
            deliverers[kind.name] = create(context)
    return deliverers
