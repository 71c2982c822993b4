"""Reading a request's body: bounded while it streams, and strict JSON."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request

from holdfast.domain.canonical import parse_json
from holdfast.domain.errors import BadInput, TooLarge
from holdfast.surfaces.rest.problem import TooSlow

BODY_S = 30.0


async def read_body(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise TooLarge(f"the body is {declared[:20]} bytes; the limit is {limit:,}")
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise TooLarge(f"the body is larger than the limit of {limit:,} bytes")
                parts.append(part)
    except TimeoutError:
        raise TooSlow(f"the body was not complete after {BODY_S:g} s, so nothing was accepted; send it again") from None
    except ClientDisconnect:
        raise BadInput("the sender hung up before the body was complete; nothing was accepted") from None
    return b"".join(parts)


async def read_json(request: Request) -> Any:
    limit = request.app.state.body_max_bytes
    return parse_json(await read_body(request, limit), "the body", limit)
