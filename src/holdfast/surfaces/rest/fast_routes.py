"""Routes that must be fast: appending an event, and the health probes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from holdfast.domain.errors import HoldfastError
from holdfast.domain.event import check_name
from holdfast.domain.message import needs_message_scope
from holdfast.ingress.accept import parse_event
from holdfast.ingress.trace_context import with_traceparent
from holdfast.operations.answers.encode import encode
from holdfast.surfaces.rest.answers import JsonAnswer
from holdfast.surfaces.rest.body import read_json
from holdfast.surfaces.rest.problem import error_problem, problem
from holdfast.surfaces.rest.request_filter import OPENED, require

Endpoint = Callable[[Request], Awaitable[ASGIApp]]

METRICS_PATH = "/metrics"

_may_append, _may_read, _may_message = require("append"), require("read"), require("message")


async def append_event(request: Request) -> ASGIApp:
    """`POST /api/events`: the busiest route."""
    try:
        _may_append(request)
        body = await read_json(request)
        if isinstance(body, dict) and (traceparent := _header(request, b"traceparent")) is not None:
            body = with_traceparent(body, traceparent)
        event = parse_event(body, _idempotency_key(request))
        if needs_message_scope(event):
            _may_message(request)
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
    if status.healthy is not False:
        return PlainTextResponse("ready\n")
    if status.not_accepting is not None:
        return problem(503, "Not ready", status.not_accepting, {"Retry-After": "1"})
    failing = ", ".join(name for name, state in status.duties.items() if state != "ok")
    return problem(503, "Not ready", f"these duties are failing and being retried: {failing}", {"Retry-After": "1"})


async def metrics(request: Request) -> ASGIApp:
    """`GET /metrics`. The library is imported with the first scrape."""
    try:
        if not request.scope.get(OPENED):
            _may_read(request)
        figures = await request.app.state.operations.metrics.show()
    except HoldfastError as error:
        return error_problem(error)
    from holdfast.surfaces.rest.metrics import render

    text, content_type = render(figures, request.headers.get("accept", ""))
    return Response(text, media_type=None, headers={"Content-Type": content_type})


def _header(request: Request, wanted: bytes) -> str | None:
    for name, value in request.scope["headers"]:
        if name == wanted:
            return bytes(value).decode("latin-1")
    return None


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
    ("GET", METRICS_PATH): metrics,
    ("POST", "/api/events"): append_event,
}
