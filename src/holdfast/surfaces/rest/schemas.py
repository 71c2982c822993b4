"""The request bodies as JSON Schema, for `/openapi.json`. They are checked by our own strict reader, not from here."""

from __future__ import annotations

from typing import Any

from holdfast.domain.address import KINDS
from holdfast.domain.contract import ID_PATTERN, SECRET_MAX

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_CRITERION = {
    "oneOf": [
        {"type": "null"},
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "match": {
                    "oneOf": [
                        {"type": "null"},
                        _TEXT,
                        {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 100},
                    ]
                },
                "pattern": {"type": ["string", "null"], "minLength": 1, "maxLength": 200},
                "required": {"type": "boolean"},
            },
            "additionalProperties": False,
        },
    ]
}

EVENT = {
    "type": "object",
    "required": ["type"],
    "additionalProperties": False,
    "properties": {
        "type": {"type": "string", "minLength": 1, "maxLength": 255, "examples": ["order.placed"]},
        "source": _TEXT_OR_NULL,
        "stream": _TEXT_OR_NULL,
        "timestamp": {"type": ["string", "null"], "format": "date-time"},
        "properties": {"type": ["object", "null"]},
        "payload": {},
        "dedup_key": _TEXT_OR_NULL,
        "to": _TEXT_OR_NULL,
    },
}

CONTRACT = {
    "type": "object",
    "required": ["id", "target"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": f"^{ID_PATTERN}$", "examples": ["notify-on-error"]},
        "target": {
            "type": "object",
            "additionalProperties": False,
            "description": "exactly one of url and handler",
            "properties": {
                **{kind.key: _TEXT_OR_NULL for kind in KINDS.values()},
                "url": {"type": ["string", "null"], "format": "uri", "maxLength": 2048},
                "handler": {"type": ["string", "null"], "pattern": "^[A-Za-z_][A-Za-z0-9_.:<>-]{0,199}$"},
                "secret": {"type": ["string", "null"], "minLength": 1, "maxLength": SECRET_MAX},
            },
        },
        "source_criterion": _CRITERION,
        "type_criterion": _CRITERION,
        "properties": {"type": ["object", "null"], "additionalProperties": _CRITERION},
        "ttl_seconds": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "policy": _TEXT_OR_NULL,
        "attempts": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000},
        "ordered": {"type": ["boolean", "null"]},
        "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 3600},
        "concurrency": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000},
        "active": {"type": ["boolean", "null"]},
        "expires_at": {"type": ["string", "null"], "format": "date-time"},
        "rate": {"type": ["string", "null"], "pattern": "^[0-9]{1,7}/[smh]$", "examples": ["10/s"]},
        "headers": {"type": ["object", "null"], "additionalProperties": _TEXT, "maxProperties": 20},
        "format": {"enum": [None, "raw", "cloudevents", "slack", "discord", "telegram", "ntfy", "template"]},
        "template": {"type": ["string", "null"], "maxLength": 4000},
        "retry_on": {
            "type": ["array", "null"],
            "items": {"type": "integer", "minimum": 400, "maximum": 499},
            "maxItems": 50,
        },
    },
}
TRIAL = {name: part for name, part in CONTRACT.items() if name != "required"}
ROTATION = {
    "type": "object",
    "required": ["secret"],
    "additionalProperties": False,
    "properties": {
        "secret": {"type": "string", "minLength": 1, "maxLength": SECRET_MAX},
        "overlap_seconds": {"type": "number", "minimum": 0, "maximum": 2592000},
    },
}

IDS = {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 1000}
CHOICE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "ids": IDS,
        "filter": {"type": "object"},
        "all": {"type": "boolean"},
        "dry_run": {"type": "boolean"},
    },
}
EVENT_IDS = {
    "type": "object",
    "required": ["ids"],
    "additionalProperties": False,
    "properties": {"ids": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 1000}},
}
HOLD = {
    "type": "object",
    "required": ["scope", "name"],
    "additionalProperties": False,
    "properties": {"scope": {"enum": ["contract", "address", "lane"]}, "name": {"type": "string", "minLength": 1}},
}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
}


def body(schema: dict[str, Any]) -> dict[str, Any]:
    """The `openapi_extra` of a route that reads its body itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Answers that are errors: these, or those of the API, and beside them what a connection itself may be told."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    common = (401, 403, 404, 405, 409, 413, 415, 421, 422)
    told = sorted({*(statuses or common), 400, 408, 431, 503})
    return {status: {"description": "an error, as RFC 9457", "content": content} for status in told}
