"""Errors as problem details (RFC 9457), the one shape of every error."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse

from holdfast.domain.errors import (
    Ambiguous,
    BadInput,
    BadJson,
    ChainContention,
    Conflict,
    Denied,
    HoldfastError,
    NotFound,
    PositionPruned,
    StoreError,
    TooLarge,
    TooMany,
    Unverified,
)

CONNECTION_STATUSES = (400, 408, 431, 503)
"""Errors that any request can get, before a route is reached."""
RETRY_AFTER_S = {429: "60", 503: "1"}
PROBLEM: dict[str, object] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error": {"type": "string", "description": "The name of the error in Python."},
        "first_seq": {"type": "integer", "description": "The first stored event of the stream."},
        "archived": {"type": "boolean", "description": "Whether an archive holds the events before it."},
        "candidates": {"type": "array", "items": {"type": "string"}, "description": "The ids that fit a name."},
    },
}

log = logging.getLogger("holdfast.rest")


STATUS: tuple[tuple[type[HoldfastError], int, str], ...] = (
    (BadJson, 400, "Bad JSON"),
    (TooLarge, 413, "Too large"),
    (BadInput, 422, "Not acceptable input"),
    (ChainContention, 409, "chain_contention"),
    (Conflict, 409, "Conflict"),
    (TooMany, 429, "Too many"),
    (NotFound, 404, "Not found"),
    (PositionPruned, 410, "position_pruned"),
    (TooMany, 429, "Too many"),
    (Unverified, 401, "Not verified"),
    (Denied, 403, "Not allowed"),
    (StoreError, 503, "Store unavailable"),
    (HoldfastError, 500, "Failed"),
)


def problem(
    status: int, title: str, detail: str, headers: dict[str, str] | None = None, **more: object
) -> JSONResponse:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, headers=headers, media_type="application/problem+json")


def error_problem(error: HoldfastError) -> JSONResponse:
    for kind, status, title in STATUS:
        if isinstance(error, kind):
            headers = {"Retry-After": RETRY_AFTER_S[status]} if status in RETRY_AFTER_S else None
            return problem(status, title, error.message, headers, error=type(error).__name__, **_more(error))
    raise error


def _more(error: HoldfastError) -> dict[str, object]:
    """Members that only errors of some kinds have."""
    if isinstance(error, Ambiguous):
        return {"candidates": list(error.candidates)}
    return {"first_seq": error.first_seq, "archived": error.archived} if isinstance(error, PositionPruned) else {}


def problem_responses(statuses: Iterable[int]) -> dict[str, object]:
    """These errors and those of `CONNECTION_STATUSES`, as an OpenAPI document describes them."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    described = sorted({*statuses, *CONNECTION_STATUSES})
    return {str(status): {"description": HTTPStatus(status).phrase, "content": content} for status in described}


async def on_surprise(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "Failed", "an unexpected error; see the daemon's log")
