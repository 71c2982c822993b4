"""Deliveries to `handler:` addresses: functions of this process."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.domain.delivery import Claim, Dead, Delivered, Delivery, Outcome, Retry
from holdfast.domain.errors import BadInput, Reject, RetryAfter
from holdfast.domain.event import Event
from holdfast.domain.states import Reason
from holdfast.domain.text import clip_text
from holdfast.egress.deliverer import UNTIMED, Attempt
from holdfast.egress.handler.payload_type import UNTYPED, Misfit, Unreadable, is_payload_type, reader_of
from holdfast.egress.handler.threads import HandlerThreads

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

Function = Callable[..., Any]
Argument = Callable[[Claim], object]  # makes one argument of a handler from a claim

ERRORS_MAX = 5
MISFIT_MAX = 500


class Handler(NamedTuple):
    """A function and how to call it: its arguments, and whether it is awaited or runs in a thread."""

    function: Function
    arguments: tuple[Argument, ...]
    is_async: bool


def make_handler(function: Function) -> Handler:
    """Read a handler's signature: `(event)`, `(event, delivery)`, or with the payload instead of the event."""
    parameters = _parameters(function)
    if not 1 <= len(parameters) <= 3:
        raise BadInput(
            f"a handler takes (event) or (event, delivery); {_name(function)} takes {len(parameters)} arguments"
        )
    plain = inspect.isfunction(function) or inspect.ismethod(function) or isinstance(function, partial)
    call = function if plain else type(function).__call__
    arguments = tuple(_argument(function, index, parameter) for index, parameter in enumerate(parameters))
    return Handler(function, arguments, inspect.iscoroutinefunction(call))


class HandlerDeliverer:
    """Calls the handlers that were added. Deliveries to other handlers are left to the processes that have those.

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
        function, make_arguments, is_async = self._handlers[claim.delivery.address]
        try:
            arguments = [make(claim) for make in make_arguments]
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
    """The outcome of a handler that raised `Reject` or `RetryAfter`."""
    if isinstance(error, RetryAfter):
        return Retry(str(error), after_s=max(0.0, error.seconds))
    return Dead(Reason.REJECTED, str(error) or "rejected by the handler")


def _parameters(function: Function) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _argument(function: Function, index: int, parameter: inspect.Parameter) -> Argument:
    """The argument for one parameter: by its annotation if that decides it, otherwise by its position."""
    annotation = _annotation(function, parameter)
    if annotation is Event:
        return _event
    if annotation is Delivery:
        return _delivery
    if isinstance(annotation, type) and hasattr(annotation, "model_validate_json"):
        return _model(annotation)
    if is_payload_type(annotation):
        return _payload(function, parameter, annotation)
    if annotation not in (parameter.empty, *UNTYPED):
        raise _unserved(function, parameter, annotation)
    if index < len(_BY_POSITION):
        return _BY_POSITION[index]
    raise BadInput(f"{_name(function)}: annotate the parameter {parameter.name} as Event, Delivery or a pydantic model")


def _payload(function: Function, parameter: inspect.Parameter, annotation: object) -> Argument:
    """The payload as a dict, TypedDict or dataclass. One that does not fit is rejected: a retry would fail too."""
    try:
        read = reader_of(annotation)
    except Unreadable as error:
        raise _unserved(function, parameter, error) from None
    name = getattr(annotation, "__name__", "payload")

    def parse(claim: Claim) -> object:
        try:
            return read(claim.event.payload, "")
        except Misfit as error:
            raise Reject(f"the payload is not a valid {name}: {clip_text(str(error), MISFIT_MAX)}") from error

    return parse


def _name(function: Function) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _unserved(function: Function, parameter: inspect.Parameter, annotation: object) -> BadInput:
    shown = getattr(annotation, "__name__", None) or str(annotation)
    return BadInput(
        f"the parameter {parameter.name} of {_name(function)} is annotated as {shown}, which a handler cannot get: use "
        "Event, Delivery, or for the payload dict, a TypedDict, a dataclass or a pydantic model"
    )


def _annotation(function: Function, parameter: inspect.Parameter) -> object:
    """The annotation; one that is text is evaluated in the module that defines the function."""
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    while isinstance(function, partial):
        function = function.func
    scope = getattr(inspect.unwrap(function), "__globals__", None) or vars(sys.modules[function.__module__])
    try:
        return eval(annotation, scope)  # noqa: S307 - the application's own source, as typing.get_type_hints does
    except Exception:
        by_name = {"Event": Event, "Delivery": Delivery, "Any": object}.get(annotation.rpartition(".")[2])
        if by_name is not None:  # imported for type checkers only
            return by_name
        raise BadInput(
            f"the annotation {annotation!r} of {_name(function)} cannot be resolved; define the model at module level"
        ) from None


def _event(claim: Claim) -> Event:
    return claim.event


def _delivery(claim: Claim) -> Delivery:
    return claim.delivery


def _model(model: type[BaseModel]) -> Argument:
    """The payload as a pydantic model. A payload that does not validate is rejected: a retry would fail too."""
    from pydantic import ValidationError

    def parse(claim: Claim) -> object:
        try:
            return model.model_validate_json(claim.event.payload_json)
        except ValidationError as error:
            raise Reject(
                f"the payload is not a valid {model.__name__}: {_first_errors(error.errors(include_url=False))}"
            ) from error

    return parse


def _first_errors(errors: list[ErrorDetails]) -> str:
    lines = [f"{'.'.join(str(part) for part in each['loc']) or 'payload'}: {each['msg']}" for each in errors]
    more = f"; and {len(lines) - ERRORS_MAX} more" if len(lines) > ERRORS_MAX else ""
    return "; ".join(lines[:ERRORS_MAX]) + more


_BY_POSITION = (_event, _delivery)
_DELIVERED = Delivered()
