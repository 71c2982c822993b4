"""The REST application: routes behind the gate, one error shape, and the hot way in as a plain endpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast import __version__
from holdfast.domain.errors import HoldfastError
from holdfast.ingress.accept import parse_event
from holdfast.ingress.webhook import InboundSource
from holdfast.operations.verbs import Operations
from holdfast.surfaces.rest.body import read_json
from holdfast.surfaces.rest.gate import Gate, Tokens, require
from holdfast.surfaces.rest.inbound import describe_inbound, inbound_routes
from holdfast.surfaces.rest.problem import error_problem, on_holdfast_error, problem
from holdfast.surfaces.rest.routes import router
from holdfast.surfaces.rest.schemas import EVENT, PROBLEM, body, problems

log = logging.getLogger("holdfast.rest")
_may_append = require("operate")


async def append_event(request: Request) -> Response:
    """`POST /api/events`: a plain endpoint, since this is the way in that must be fast."""
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
    failing = ", ".join(name for name, state in status["duties"].items() if state != "ok")
    return problem(503, "Not ready", f"these duties are failing and being retried: {failing}", {"Retry-After": "1"})


def build_app(
    operations: Operations,
    tokens: Tokens,
    hosts: Iterable[str],
    body_max_bytes: int,
    inbound: Sequence[InboundSource] = (),
) -> FastAPI:
    app = FastAPI(title="Holdfast", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.operations, app.state.body_max_bytes = operations, body_max_bytes
    app.router.routes.insert(0, Route("/api/events", append_event, methods=["POST"]))
    app.router.routes.insert(0, Route("/healthz", healthz, methods=["GET"]))
    app.router.routes.insert(0, Route("/readyz", readyz, methods=["GET"]))
    app.include_router(router)
    app.router.routes.extend(inbound_routes(inbound))
    app.add_middleware(Gate, tokens=tokens, hosts=hosts, open_paths=[source.path for source in inbound])
    app.add_exception_handler(HoldfastError, on_holdfast_error)
    app.add_exception_handler(RequestValidationError, _on_bad_parameters)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_surprise)
    app.openapi_schema = _describe(app)
    app.openapi_schema["paths"].update(describe_inbound(inbound))
    return app


async def _on_bad_parameters(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return problem(422, "Not acceptable input", f"{where}: {first['msg']}")


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = "there is nothing at this path" if error.status_code == 404 else str(error.detail)
    return problem(error.status_code, str(error.detail), detail, dict(error.headers or {}))


async def _on_surprise(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "Failed", "an unexpected error; the daemon's log says more")


def _describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the endpoints that are not FastAPI's own."""
    schema = app.openapi()
    created = {"description": "accepted", "content": {"application/json": {"schema": {"type": "object"}}}}
    schema["paths"].setdefault("/api/events", {})["post"] = {
        "tags": ["events"],
        "summary": "Append an event",
        "description": "Accepted means stored. The same dedup_key (or Idempotency-Key) again answers the first event.",
        "operationId": "append_event",
        "parameters": [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}],
        **body(EVENT),
        "responses": {
            "201": created,
            "200": {**created, "description": "known already: the first event of this key"},
            **{str(status): text for status, text in problems().items()},
        },
    }
    for path, summary in (("/healthz", "The process answers"), ("/readyz", "The store answers, every duty is well")):
        schema["paths"][path] = {
            "get": {
                "tags": ["care"],
                "summary": summary,
                "security": [],
                "responses": {
                    "200": {"description": "yes", "content": {"text/plain": {"schema": {"type": "string"}}}},
                    **{str(status): text for status, text in problems(405, 421, 403, 503).items()},
                },
            }
        }
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    return schema
