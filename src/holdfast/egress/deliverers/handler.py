"""Deliveries to `handler:` addresses: functions of this process, durable like everything else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.domain.delivery import Claim, Dead, Delivered, Outcome, Retry
from holdfast.domain.errors import BadInput, Reject, RetryAfter
from holdfast.domain.states import Reason

Function = Callable[..., Any]


class Handler(NamedTuple):
    """A function and how to call it: with the event alone or with the delivery too, awaited or in a thread."""

    function: Function
    wants_delivery: bool
    is_async: bool


def make_handler(function: Function) -> Handler:
    try:
        parameters = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        parameters = []
    if not 1 <= len(parameters) <= 2:
        raise BadInput(f"a handler takes (event) or (event, delivery); {function!r} takes {len(parameters)} arguments")
    call = function if inspect.isfunction(function) or inspect.ismethod(function) else type(function).__call__
    return Handler(function, len(parameters) == 2, inspect.iscoroutinefunction(call))


class HandlerDeliverer:
    """Serves the handlers it was given, and nothing else: others' deliveries stay for whoever has them."""

    kind = "handler"

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._addresses: frozenset[str] = frozenset()

    def add(self, name: str, function: Function) -> None:
        self._handlers[f"handler:{name}"] = make_handler(function)
        self._addresses = frozenset(self._handlers)

    def serves(self) -> frozenset[str] | None:
        return self._addresses

    async def deliver(self, claim: Claim) -> Outcome:
        function, wants_delivery, is_async = self._handlers[claim.delivery.address]
        arguments = (claim.event, claim.delivery) if wants_delivery else (claim.event,)
        try:
            if is_async:
                await function(*arguments)
            else:
                await asyncio.to_thread(function, *arguments)
        except Reject as error:
            return Dead(Reason.REJECTED, str(error) or "the handler rejected it")
        except RetryAfter as error:
            return Retry(str(error), after_s=max(0.0, error.seconds))
        return _DELIVERED

    async def close(self) -> None:
        pass


_DELIVERED = Delivered()
