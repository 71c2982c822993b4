"""The few endpoints that must answer at once: plain ones, which need nothing that is slow to load."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from holdfast.domain.errors import HoldfastError
from holdfast.ingress.accept import parse_event
from holdfast.surfaces.rest.body import read_json
from holdfast.surfaces.rest.gate import require
from holdfast.surfaces.rest.problem import error_problem, problem

Endpoint = Callable[[Request], Awaitable[Response]]

_may_append = require("operate")


async def append_event(request: Request) -> Response:
    """`POST /api/events`: the way in that must be fast, also a moment after the start."""
    try:
        _may_append(request)
        event = parse_event(await read_json(request), request.headers.get("idempotency-key"))
        answer = await request.app.state.operations.events.append(event)
    except HoldfastError as error:
        return error_problem(error)
    return JSONResponse(answer, 200 if answer["duplicate"] else 201)


async def healthz(request: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """The store answers and every duty is well; 503 and which is not otherwise."""
    try:
        status = await request.app.state.operations.care.status()
    except HoldfastError as error:
        return error_problem(error)
    if status["healthy"]:
        return PlainTextResponse("ready\n")
    if status["not_accepting"] is not None:
        return problem(503, "Not ready", status["not_accepting"], {"Retry-After": "1"})
    failing = ", ".join(name for name, state in status["duties"].items() if state != "ok")
    return problem(503, "Not ready", f"these duties are failing and being retried: {failing}", {"Retry-After": "1"})


SWIFT: dict[tuple[str, str], Endpoint] = {
    ("GET", "/readyz"): readyz,
    ("GET", "/healthz"): healthz,
    ("POST", "/api/events"): append_event,
}
