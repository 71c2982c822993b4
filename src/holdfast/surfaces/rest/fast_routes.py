"""Routes that must be fast: appending an event, and the health probes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from holdfast.domain.errors import HoldfastError
from holdfast.domain.event import check_name
from holdfast.ingress.accept import parse_event
from holdfast.operations.answers.encode import encode
from holdfast.surfaces.rest.answers import JsonAnswer
from holdfast.surfaces.rest.body import read_json
from holdfast.surfaces.rest.gate import require
from holdfast.surfaces.rest.problem import error_problem, problem

Endpoint = Callable[[Request], Awaitable[ASGIApp]]

_may_append = require("operate")


async def append_event(request: Request) -> ASGIApp:
    """`POST /api/events`: the busiest route."""
    try:
        _may_append(request)
        event = parse_event(await read_json(request), _idempotency_key(request))
        answer = await request.app.state.operations.events.append(event)
    except HoldfastError as error:
        return error_problem(error)
    return JsonAnswer(encode(answer), 200 if answer.duplicate else 201)


async def healthz(request: Request) -> ASGIApp:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> ASGIApp:
    """200 if the store answers and every duty is healthy, otherwise 503 with the reason."""
    try:
        status = await request.app.state.operations.status.show()
    except HoldfastError as error:
        return error_problem(error)
    if status.healthy:
        return PlainTextResponse("ready\n")
    if status.not_accepting is not None:
        return problem(503, "Not ready", status.not_accepting, {"Retry-After": "1"})
    failing = ", ".join(name for name, state in status.duties.items() if state != "ok")
    return problem(503, "Not ready", f"these duties are failing and being retried: {failing}", {"Retry-After": "1"})


def _idempotency_key(request: Request) -> str | None:
    """The header's value. It is checked even if the body has a dedup_key, which then takes precedence."""
    for name, value in request.scope["headers"]:
        if name == b"idempotency-key":
            return check_name(value.decode("latin-1"), "the header Idempotency-Key")
    return None


FAST_ROUTES: dict[tuple[str, str], Endpoint] = {
    ("GET", "/readyz"): readyz,
    ("HEAD", "/readyz"): readyz,
    ("GET", "/healthz"): healthz,
    ("HEAD", "/healthz"): healthz,
    ("POST", "/api/events"): append_event,
}
