"""From a request to the operation that answers it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping

from starlette.requests import Request
from starlette.routing import compile_path
from starlette.types import ASGIApp

from holdfast.agents.messages.message_files import BLOB_MAX
from holdfast.domain.errors import HoldfastError
from holdfast.operations.answers.encode import encode, json_field
from holdfast.operations.verbs import Operations
from holdfast.streams.live import View
from holdfast.surfaces.rest.answers import JsonAnswer
from holdfast.surfaces.rest.body import read_body, read_json
from holdfast.surfaces.rest.event_stream import EventStream
from holdfast.surfaces.rest.parameters import read_all
from holdfast.surfaces.rest.problem import error_problem, problem
from holdfast.surfaces.rest.request_filter import require
from holdfast.surfaces.rest.routes import Operation


class Router:
    """Finds operations by path. A path without parameters comes before one with parameters that fits too."""

    def __init__(self, operations: Iterable[Operation], others: Mapping[str, Iterable[str]]) -> None:
        """`others`: methods of paths that are answered elsewhere, for the 405 to a wrong method."""
        self._paths: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            self._paths.setdefault(operation.path, {})[operation.method] = operation
        self._patterns: list[tuple[re.Pattern[str], str]] = [
            (compile_path(path)[0], path) for path in sorted(self._paths, key=lambda path: "{" in path)
        ]
        self._others = {path: sorted(methods) for path, methods in others.items()}

    async def answer(self, request: Request, operations: Operations) -> ASGIApp:
        method, path = request.method, request.scope["path"]
        allowed: list[str] = []
        for pattern, template in self._patterns:
            match = pattern.match(path)
            if match is None:
                continue
            by_method = self._paths[template]
            if method in by_method:
                return await self._call(by_method[method], request, match.groupdict(), operations)
            allowed = allowed or self.allowed(template)
        allowed = allowed or self._others.get(path, [])
        if not allowed:
            return problem(404, "Not Found", "there is nothing at this path")
        detail = f"this path takes {', '.join(allowed)}, not {method}"
        return problem(405, "Method Not Allowed", detail, {"Allow": ", ".join(allowed)})

    def allowed(self, template: str) -> list[str]:
        """The methods of a path. HEAD is answered only where GET is a probe."""
        return sorted(self._paths.get(template, {}).keys() | set(self._others.get(template, ())))

    async def _call(
        self, operation: Operation, request: Request, path: Mapping[str, str], operations: Operations
    ) -> ASGIApp:
        try:
            actor = require(operation.needs)(request)
            arguments = {
                **operation.fixed,
                **read_all(operation.parameters, path, request.query_params, request.headers),
            }
            if operation.body is not None:
                arguments |= operation.body.read(await read_json(request))
            if operation.raw:
                arguments[operation.raw] = await read_body(request, BLOB_MAX)
            if takes_actor(operation):
                arguments["actor"] = actor
            verb = getattr(getattr(operations, operation.group), operation.verb.__name__)
            answer = await verb(**arguments)
        except HoldfastError as error:
            return error_problem(error)
        if isinstance(answer, View):
            return EventStream(answer)
        return JsonAnswer(encode(answer), success_status(operation), _link(request, answer))


def success_status(operation: Operation) -> int:
    return next((status for status in operation.statuses if status < 300), 200)


def takes_actor(operation: Operation) -> bool:
    """Whether the verb records who called it."""
    return "actor" in inspect.signature(operation.verb).parameters


def _link(request: Request, answer: object) -> dict[str, str]:
    """The address of the next page, for answers whose JSON has no place for it (RFC 8288)."""
    after = getattr(answer, "next", None) if json_field(type(answer)) is not None else None
    if after is None:
        return {}
    url = request.url.include_query_params(after=after)
    return {"Link": f'<{url.path}?{url.query}>; rel="next"'}
