"""The OpenAPI document, made from the operations, the types of their answers and the schemas of their requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import get_type_hints

from holdfast.ingress.webhook import InboundSource
from holdfast.operations.answers.schema import JsonSchema, Schemas
from holdfast.streams.live import View
from holdfast.surfaces.rest.contract_bodies import CRITERION, CRITERION_NAME, POLICY_NAME
from holdfast.surfaces.rest.fast_routes import METRICS_PATH
from holdfast.surfaces.rest.inbound import describe_inbound
from holdfast.surfaces.rest.parameters import describe_parameters
from holdfast.surfaces.rest.problem import PROBLEM, problem_responses
from holdfast.surfaces.rest.routes import OPERATIONS, Operation
from holdfast.surfaces.rest.value_schemas import ANY_JSON, JSON_NAME, NAME_COMPONENT, name_schema
from holdfast.version import __version__

GATE_STATUSES = (401, 403, 405, 421)
PROBE_STATUSES = (403, 405, 421, 503)
PROBES = (("/healthz", "The process answers."), ("/readyz", "The store answers and every duty is healthy."))
_LINK = {"Link": {"description": "The next page, with rel=next.", "schema": {"type": "string"}}}
_OK = "Success."
_EVENT_STREAM = {
    "description": "Server-sent events. The data of each is an event as JSON, its id the position to resume from.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


def describe(inbound: Iterable[InboundSource], policies: Collection[str]) -> dict[str, object]:
    """The whole document. `policies`: the names of the policies in force."""
    schemas = Schemas()
    paths: dict[str, dict[str, object]] = {}
    for operation in OPERATIONS:
        path = operation.path.replace(":path}", "}")
        paths.setdefault(path, {})[operation.method.lower()] = _describe(operation, schemas)
    for path, summary in PROBES:
        paths[path] = {"get": _describe_probe(path, summary)}
    paths[METRICS_PATH] = {"get": _describe_metrics()}
    paths.update(describe_inbound(inbound))
    schemas.by_name |= {
        "Problem": PROBLEM,
        JSON_NAME: ANY_JSON,
        NAME_COMPONENT: name_schema(),
        CRITERION_NAME: CRITERION,
        POLICY_NAME: {"type": "string", "enum": sorted(policies)},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.by_name,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(operation: Operation, schemas: Schemas) -> dict[str, object]:
    described: dict[str, object] = {
        "tags": [operation.group.replace("_", " ")],
        "summary": operation.summary.partition(". ")[0].rstrip("."),
        "description": f"{operation.summary} Needs a token with scope {operation.needs}.",
        "operationId": operation.id,
        "responses": _responses(operation, schemas),
    }
    if operation.parameters:
        described["parameters"] = describe_parameters(operation.parameters)
    if operation.raw:
        described["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    if operation.body is not None:
        content = {"application/json": {"schema": operation.body.schema}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _responses(operation: Operation, schemas: Schemas) -> dict[str, object]:
    hint = get_type_hints(operation.verb, include_extras=True)["return"]
    if hint is View:
        return {"200": _EVENT_STREAM, **problem_responses(error_statuses(operation))}
    schema = schemas.of(hint)
    success: dict[str, object] = {"description": _OK, "content": {"application/json": {"schema": schema}}}
    if "$ref" not in schema:
        success["headers"] = _LINK
    created = {str(status): success for status in operation.statuses if status < 300}
    # An appended event is 201 or 200, a contract always 201: it is created or replaced. A message is always 202.
    known = {} if created and operation.group in ("contracts", "messages") else {"200": success}
    return {**known, **created, **problem_responses(error_statuses(operation))}


def error_statuses(operation: Operation) -> set[int]:
    """The errors that an operation can answer with."""
    statuses = {*GATE_STATUSES, *(status for status in operation.statuses if status >= 400)}
    if operation.method == "POST":
        statuses.add(415)
    if operation.body is not None:
        statuses.add(413)
    if operation.parameters or operation.body is not None:
        statuses.add(422)
    if any(parameter.where == "path" for parameter in operation.parameters):
        statuses.add(404)
    return statuses


def _describe_metrics() -> dict[str, object]:
    success = {"description": _OK, "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {
        "tags": ["probes"],
        "summary": "Figures and counters for Prometheus",
        "description": "Needs a token with scope read, unless server.open_metrics is set and the client is local.",
        "operationId": "metrics",
        "responses": {"200": success, **problem_responses((*GATE_STATUSES, 503))},
    }


def _describe_probe(path: str, summary: str) -> dict[str, object]:
    text: JsonSchema = {"type": "string"}
    success = {"description": _OK, "content": {"text/plain": {"schema": text}}}
    return {
        "tags": ["probes"],
        "summary": summary.rstrip("."),
        "operationId": path.removeprefix("/"),
        "security": [],
        "responses": {"200": success, **problem_responses(PROBE_STATUSES)},
    }
