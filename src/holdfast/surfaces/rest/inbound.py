"""Inbound webhooks of platforms: read the body within limits, verify, store, respond. Routing happens later."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from holdfast.domain.errors import BadInput, DedupConflict, TooLarge, Unverified
from holdfast.domain.event import NewEvent
from holdfast.ingress.webhook import InboundSource, conflict_event, raw_event
from holdfast.ingress.webhook.headers import Headers
from holdfast.ingress.webhook.verifiers import verify
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.logs import LogThrottle
from holdfast.surfaces.rest.answers import EmptyAnswer, JsonAnswer
from holdfast.surfaces.rest.body import read_body
from holdfast.surfaces.rest.problem import error_problem, problem, problem_responses

log = logging.getLogger("holdfast.inbound")

RETRY_AFTER_S = 5
REFUSALS_PER_PERIOD = 3
GREETING = "Holdfast receives webhooks at this address. They are sent with POST.\n"

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


def inbound_endpoints(sources: Iterable[InboundSource]) -> dict[tuple[str, str], Endpoint]:
    """The endpoints by method and path."""
    endpoints = {source.path: _endpoint(source) for source in sources}
    return {(method, path): endpoint for path, endpoint in endpoints.items() for method in ("GET", "HEAD", "POST")}


def _endpoint(source: InboundSource) -> Endpoint:
    refusals = LogThrottle(log, burst=REFUSALS_PER_PERIOD)  # a sender of refused requests must not fill the log

    async def inbound(request: Request) -> ASGIApp:
        if request.method == "POST":
            return await _receive(source, request, refusals)
        return _challenge(source.verify_token, request) if _is_challenge(request) else _greeting()

    return inbound


def _is_challenge(request: Request) -> bool:
    """Whether a GET is a platform's challenge, and not a person or a platform that tests the URL."""
    return any(name.startswith("hub.") for name in request.query_params)


def _greeting() -> Response:
    """For a person who opens the URL, and for Trello, which needs 200 for HEAD. Reveals nothing about the source."""
    return PlainTextResponse(GREETING, headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"})


def _challenge(token: str | None, request: Request) -> Response:
    """Confirm the endpoint to the platform: with the right token, its challenge is returned."""
    if token is None:
        return problem(403, "Verification failed", "this source has no verify_token; set it in hooks.inbound")
    query = request.query_params
    same = hmac.compare_digest(token.encode("utf-8"), query.get("hub.verify_token", "").encode("utf-8", "replace"))
    challenge = query.get("hub.challenge", "")
    if same and query.get("hub.mode") == "subscribe" and 0 < len(challenge) <= 1000:
        return PlainTextResponse(challenge, headers={"X-Content-Type-Options": "nosniff"})
    return problem(403, "Verification failed", "hub.mode, hub.verify_token or hub.challenge is missing or wrong")


async def _receive(source: InboundSource, request: Request, refusals: LogThrottle) -> ASGIApp:
    """Check limits, signature and format, store the event, and only then respond."""
    headers = Headers(request.scope["headers"])
    try:
        if (headers.get("content-encoding") or "identity").lower() != "identity":
            raise BadInput("compressed bodies are not accepted; send the body without Content-Encoding")
        body = await read_body(request, source.body_max_bytes)
        secret = None
        if source.check is not None:
            secret = verify(source.check, _as_signed(request, headers, body), int(time.time()))
        event, value = raw_event(source, headers, body)
    except Unverified as error:
        refusals.log(logging.WARNING, source.path, "a request to %s was refused: %s", source.path, error.message)
        return error_problem(error)
    except TooLarge as error:
        return problem(413, "Too large", error.message, {"Connection": "close"})
    except BadInput as error:
        return problem(400, "Malformed", error.message)
    if not await _store(source, event, request):
        return problem(
            503,
            "Not stored",
            "the request could not be stored; send it again later",
            {"Retry-After": str(RETRY_AFTER_S)},
        )
    answer = source.platform.reply(value, secret)
    return EmptyAnswer(source.platform.empty_status) if answer is None else JsonAnswer(answer)


def _as_signed(request: Request, headers: Headers, body: bytes) -> InboundRequest:
    scope = request.scope
    path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    return InboundRequest(
        headers, body, request.method, path.decode("latin-1"), scope["query_string"].decode("latin-1")
    )


async def _store(source: InboundSource, event: NewEvent, request: Request) -> bool:
    """Store the event. True if it is stored, now or before.

    A different body under a known delivery id is stored as a conflict event and not processed further.
    """
    append = request.app.state.operations.events.append
    try:
        try:
            await append(event, "inbound")
        except DedupConflict:
            log.warning("%s sent the id %s again with another body; see the events of type inbound.%s.conflict",
                        source.path, event.dedup_key, source.name)  # fmt: skip
            await append(conflict_event(source, event), "inbound")
    except Exception:
        log.exception("a request to %s could not be stored", source.path)
        return False
    return True


def describe_inbound(sources: Iterable[InboundSource]) -> dict[str, dict[str, object]]:
    """The paths for the OpenAPI document."""
    return {source.path: {"get": _describe_get(source), "post": _describe_post(source)} for source in sources}


def _describe_post(source: InboundSource) -> dict[str, object]:
    any_content: dict[str, object] = {
        "application/json": {"schema": {}},
        "application/x-www-form-urlencoded": {"schema": {}},
    }
    is_silent = source.platform.empty_status == 204
    success: dict[str, object] = {"description": "Stored. Some platforms expect a JSON response."}
    if is_silent:
        success["content"] = {"application/json": {"schema": {}}}
    return {
        "tags": ["inbound"],
        "summary": f"Webhooks of {source.name}",
        "operationId": f"inbound_{source.name}",
        "security": [],
        "requestBody": {"required": True, "content": any_content},
        "responses": {
            "200": success,
            **({"204": {"description": "Stored."}} if is_silent else {}),
            **problem_responses((401, 405, 413)),
        },
    }


def _describe_get(source: InboundSource) -> dict[str, object]:
    success = {
        "description": "A short text, or the challenge.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    return {
        "tags": ["inbound"],
        "summary": f"Challenge of {source.name}",
        "operationId": f"inbound_{source.name}_challenge",
        "security": [],
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
            for name in ("hub.mode", "hub.verify_token", "hub.challenge")
        ],
        "responses": {"200": success, **problem_responses((403, 405))},
    }
