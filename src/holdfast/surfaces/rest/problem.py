"""One error shape for every answer: RFC 9457 problem details."""

from __future__ import annotations

import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from holdfast.domain.errors import (
    BadInput,
    BadJson,
    Conflict,
    Denied,
    HoldfastError,
    NotFound,
    StoreError,
    TooLarge,
    Unverified,
)

log = logging.getLogger("holdfast.rest")


STATUS: tuple[tuple[type[HoldfastError], int, str], ...] = (
    (BadJson, 400, "Bad JSON"),
    (TooLarge, 413, "Too large"),
    (BadInput, 422, "Not acceptable input"),
    (Conflict, 409, "Conflict"),
    (NotFound, 404, "Not found"),
    (Unverified, 401, "Not verified"),
    (Denied, 403, "Not allowed"),
    (StoreError, 503, "Store unavailable"),
    (HoldfastError, 500, "Failed"),
)


def problem(status: int, title: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, headers=headers, media_type="application/problem+json")


def error_problem(error: HoldfastError) -> JSONResponse:
    for kind, status, title in STATUS:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if status == 503 else None
            return problem(status, title, error.message, headers, error=type(error).__name__)
    raise error


async def on_holdfast_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HoldfastError)
    return error_problem(error)


async def on_surprise(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "Failed", "an unexpected error; the daemon's log says more")
