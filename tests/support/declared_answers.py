"""Checks that an answer of the REST surface is as its OpenAPI document declares it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
from starlette.routing import compile_path

from holdfast.domain.retry import POLICIES
from holdfast.surfaces.rest.openapi import describe
from holdfast.surfaces.rest.routes import OPERATIONS


def check_answer(method: str, path: str, status: int, content_type: str, answer: Any) -> None:
    """Assert that the status is declared for the operation, and that the answer fits its schema."""
    operation = _find(method, path.partition("?")[0])
    if operation is None:
        return
    template = operation.replace(":path}", "}")
    responses = _document()["paths"][template][method.lower()]["responses"]
    assert str(status) in responses, f"{method} {template} answered {status}, which it does not declare"
    schema = responses[str(status)]["content"][content_type]["schema"]
    validator = jsonschema_rs.validator_for({**schema, "components": _document()["components"]})
    validator.validate(answer)


@cache
def _document() -> dict[str, Any]:
    return describe((), POLICIES)


def _find(method: str, path: str) -> str | None:
    fitting = [one.path for one in OPERATIONS if one.method == method and compile_path(one.path)[0].match(path)]
    return min(fitting, key=lambda template: "{" in template, default=None)
