"""Every route of the REST surface, with its description. It is slow to load: `app.py` does it on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from holdfast.domain.errors import HoldfastError
from holdfast.ingress.webhook import InboundSource
from holdfast.surfaces.rest.fast_routes import FAST_ROUTES
from holdfast.surfaces.rest.inbound import describe_inbound
from holdfast.surfaces.rest.problem import on_holdfast_error, on_surprise, problem
from holdfast.surfaces.rest.routes import router
from holdfast.surfaces.rest.schemas import EVENT, PROBLEM, body, problems
from holdfast.version import __version__


def build_api(state: State, inbound: Sequence[InboundSource], inbound_routes: Sequence[Route]) -> FastAPI:
    """All routes, the fast ones too: a wrong method on their paths gets its 405 here."""
    api = FastAPI(title="Holdfast", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    api.state = state
    for (method, path), endpoint in FAST_ROUTES.items():
        api.router.routes.insert(0, Route(path, endpoint, methods=[method]))
    api.include_router(router)
    api.router.routes.extend(inbound_routes)
    api.add_exception_handler(HoldfastError, on_holdfast_error)
    api.add_exception_handler(RequestValidationError, _on_bad_parameters)
    api.add_exception_handler(HTTPException, _on_http_error)
    api.add_exception_handler(Exception, on_surprise)
    api.openapi_schema = _describe(api)
    api.openapi_schema["paths"].update(describe_inbound(inbound))
    return api


async def _on_bad_parameters(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return problem(422, "Not acceptable input", f"{where}: {first['msg']}")


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = "there is nothing at this path" if error.status_code == 404 else str(error.detail)
    return problem(error.status_code, str(error.detail), detail, dict(error.headers or {}))


def _describe(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the endpoints that are not FastAPI's own."""
    schema = api.openapi()
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
