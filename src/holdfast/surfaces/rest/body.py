"""Reads a request's body: limited in size while it arrives, and strict JSON. The connection limits its time."""

from __future__ import annotations

from starlette.requests import Request

from holdfast.domain.canonical import parse_json
from holdfast.domain.errors import BadInput, TooLarge


async def read_body(request: Request, limit: int) -> bytes:
    for name, value in request.scope["headers"]:
        if name == b"content-length" and value.isdigit() and (len(value) > 15 or int(value) > limit):
            raise TooLarge(f"the body is {value[:20].decode()} bytes; the limit is {limit:,}")
    receive = request.receive
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadInput("the sender hung up before the body was complete; nothing was accepted")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise TooLarge(f"the body is larger than the limit of {limit:,} bytes")
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_json(request: Request) -> object:
    limit = request.app.state.body_max_bytes
    return parse_json(await read_body(request, limit), "the body", limit)
