"""Deliveries to `handler:` addresses: functions of this process, durable like everything else."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from holdfast.domain.delivery import Claim, Dead, Delivered, Delivery, Outcome, Retry
from holdfast.domain.errors import BadInput, Reject, RetryAfter
from holdfast.domain.event import Event
from holdfast.domain.states import Reason
from holdfast.egress.deliverer import UNTIMED, Attempt
from holdfast.egress.handler.threads import HandlerThreads

Function = Callable[..., Any]
Take = Callable[[Claim], Any]

FAULTS_MAX = 5


class Handler(NamedTuple):
    """A function and how to call it: what each of its parameters is given, awaited or in a thread."""

    function: Function
    takes: tuple[Take, ...]
    is_async: bool


def make_handler(function: Function) -> Handler:
    """Read a handler's signature: `(event)`, `(event, delivery)`, or with a pydantic model in the event's place."""
    parameters = _parameters(function)
    if not 1 <= len(parameters) <= 3:
        raise BadInput(f"a handler takes (event) or (event, delivery); {function!r} takes {len(parameters)} arguments")
    plain = inspect.isfunction(function) or inspect.ismethod(function) or isinstance(function, partial)
    call = function if plain else type(function).__call__
    takes = tuple(_take(function, place, parameter) for place, parameter in enumerate(parameters))
    return Handler(function, takes, inspect.iscoroutinefunction(call))


class HandlerDeliverer:
    """Serves the handlers it was given. Deliveries to other handlers stay for the processes that have them.

    A coroutine function is awaited, a plain function runs in a thread. It may return an outcome: `Delivered(effects)`
    appends its events in the transaction that settles the delivery. Any other return value means delivered.
    """

    kind = "handler"

    def __init__(self, threads: HandlerThreads | None = None) -> None:
        self._threads = threads or HandlerThreads()
        self._handlers: dict[str, Handler] = {}
        self._addresses: frozenset[str] = frozenset()

    def add(self, name: str, function: Function) -> None:
        self._handlers[f"handler:{name}"] = make_handler(function)
        self._addresses = frozenset(self._handlers)

    def serves(self) -> frozenset[str] | None:
        return self._addresses

    async def deliver(self, claim: Claim, attempt: Attempt = UNTIMED) -> Outcome:
        function, takes, is_async = self._handlers[claim.delivery.address]
        try:
            arguments = [take(claim) for take in takes]
            if is_async:
                answer = await function(*arguments)
            else:
                attempt.pause_timeout()
                answer = await self._threads.run(
                    claim.delivery.address,
                    partial(function, *arguments),
                    begin=lambda: attempt.start_timeout(in_thread=True),
                    end=attempt.leave_thread,
                )
        except (Reject, RetryAfter) as error:
            return ended_by(error)
        return answer if answer is not None and isinstance(answer, Outcome) else _DELIVERED

    async def close(self) -> None:
        pass


def ended_by(error: Reject | RetryAfter) -> Outcome:
    """The outcome that a handler asked for by raising one of these."""
    if isinstance(error, RetryAfter):
        return Retry(str(error), after_s=max(0.0, error.seconds))
    return Dead(Reason.REJECTED, str(error) or "the handler rejected it")


def _parameters(function: Function) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _take(function: Function, place: int, parameter: inspect.Parameter) -> Take:
    """What one parameter is given: by its annotation where that says, otherwise by its place."""
    wanted = _annotation(function, parameter)
    if wanted is Event:
        return _event
    if wanted is Delivery:
        return _delivery
    if isinstance(wanted, type) and hasattr(wanted, "model_validate_json"):
        return _model(wanted)
    if place < len(_BY_PLACE):
        return _BY_PLACE[place]
    raise BadInput(f"{function!r} does not say what {parameter.name} is: annotate it as Event, Delivery or a model")


def _annotation(function: Function, parameter: inspect.Parameter) -> Any:
    """The annotation itself; one that is text is looked up where the function was written."""
    wanted = parameter.annotation
    if not isinstance(wanted, str):
        return wanted
    while isinstance(function, partial):
        function = function.func
    scope = getattr(inspect.unwrap(function), "__globals__", None) or vars(sys.modules[function.__module__])
    try:
        return eval(wanted, scope)  # noqa: S307 - the application's own source, as typing.get_type_hints does
    except Exception:
        by_name = {"Event": Event, "Delivery": Delivery, "Any": Any}.get(wanted.rpartition(".")[2])
        if by_name is not None:  # imported for type checkers only
            return by_name
        raise BadInput(
            f"the annotation {wanted!r} of {function!r} cannot be looked up; define the model at the top of its module"
        ) from None


def _event(claim: Claim) -> Event:
    return claim.event


def _delivery(claim: Claim) -> Delivery:
    return claim.delivery


def _model(model: Any) -> Take:
    """The payload as a pydantic model. One that does not fit can never be handled."""
    from pydantic import ValidationError

    def take(claim: Claim) -> Any:
        try:
            return model.model_validate_json(claim.event.payload_json)
        except ValidationError as error:
            raise Reject(f"the payload is no {model.__name__}: {_faults(error.errors(include_url=False))}") from error

    return take


def _faults(errors: Any) -> str:
    told = [f"{'.'.join(str(part) for part in each['loc']) or 'payload'}: {each['msg']}" for each in errors]
    more = f"; and {len(told) - FAULTS_MAX} more" if len(told) > FAULTS_MAX else ""
    return "; ".join(told[:FAULTS_MAX]) + more


_BY_PLACE = (_event, _delivery)
_DELIVERED = Delivered()
