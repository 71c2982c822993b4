"""Reading a request's body: bounded while it streams, and strict JSON."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from holdfast.domain.canonical import parse_json
from holdfast.domain.errors import BadInput, TooLarge


async def read_body(request: Request, limit: int) -> bytes:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise BadInput("compressed bodies are not accepted; send it as it is")
    declared = request.headers.get("content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise TooLarge(f"the body is {int(declared):,} bytes; the limit is {limit:,}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLarge(f"the body is larger than the limit of {limit:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def read_json(request: Request) -> Any:
    limit = request.app.state.body_max_bytes
    return parse_json(await read_body(request, limit), "the body", limit)
