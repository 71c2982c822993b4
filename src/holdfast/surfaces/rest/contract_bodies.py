"""Schemas of a contract as clients send it. `holdfast.config.contract_form` reads it."""

from __future__ import annotations

from holdfast.config.contract_form import RETRY_ON_MAX, TTL_MAX_S
from holdfast.domain.address import KINDS
from holdfast.domain.contract import (
    FORMATS,
    HEADER_VALUE_MAX,
    HEADERS_MAX,
    HEADERS_OWNED,
    ID_PATTERN,
    SECRET_MAX,
    TEMPLATE_MAX,
    VALUE_MAX,
    VALUES_MAX,
)
from holdfast.domain.event import NAME_MAX, PROPERTIES_MAX
from holdfast.domain.senders import IDS_MAX, KEYS, ORIGINS_MAX
from holdfast.operations.answers.schema import JsonSchema
from holdfast.surfaces.rest.value_schemas import (
    FLAG_OR_NULL,
    HANDLER,
    NAME,
    NO_NUL,
    SESSION,
    TEXT,
    TIME,
    URL,
    URL_WITH_CHAT,
    or_null,
)

POLICY_NAME = "PolicyName"
"""The component with the names of the policies in force, which the configuration can extend."""

PATTERN_MAX = 200
TIMEOUT_MAX_S = 3600
RATE_PATTERN = (
    "^(?:0{0,6}[1-9]|0{0,5}[1-9][0-9]|0{0,4}[1-9][0-9]{2}|0{0,3}[1-9][0-9]{3}"
    "|0{0,2}[1-9][0-9]{4}|0?[1-9][0-9]{5}|1000000)/[smh]$"
)
_NONE: JsonSchema = {"type": "null"}
_WHOLE_1000: JsonSchema = {"type": ["integer", "null"], "minimum": 1, "maximum": 1000}
_MATCH_VALUE: JsonSchema = {
    "anyOf": [{"type": ["boolean", "number"]}, {"type": "string", "maxLength": VALUE_MAX, "pattern": NO_NUL}]
}
_MATCH: JsonSchema = {
    "anyOf": [_NONE, _MATCH_VALUE, {"type": "array", "items": _MATCH_VALUE, "minItems": 1, "maxItems": VALUES_MAX}]
}
_CRITERION_OBJECT: JsonSchema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "match": _MATCH,
        "pattern": {"type": ["string", "null"], "minLength": 1, "maxLength": PATTERN_MAX, "pattern": NO_NUL},
        "required": {"type": "boolean"},
    },
}
CRITERION: JsonSchema = {
    "description": "A value or a list of values to match, or an object with match, pattern (a wildcard) and required.",
    "anyOf": [
        _MATCH_VALUE,
        {"type": "array", "items": _MATCH_VALUE, "minItems": 1, "maxItems": VALUES_MAX},
        _CRITERION_OBJECT,
    ],
}
CRITERION_NAME = "Criterion"
_CRITERION: JsonSchema = {"$ref": f"#/components/schemas/{CRITERION_NAME}"}
SECRET: JsonSchema = {
    "type": "string",
    "minLength": 1,
    "maxLength": SECRET_MAX,
    "pattern": r"^(?:(?!wh(?:pk|sk|sec)_)[^\u0000]*|whsk_[A-Za-z0-9+/]{43}=?"
    r"|whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?|[A-Za-z0-9+/]{4}))$",
    "description": "Any text, whsec_ and base64, or whsk_ and an Ed25519 key in base64.",
}


def _any_case(word: str) -> str:
    """A pattern for a word in upper and lower case; inline flags are not part of JSON Schema's patterns."""
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in word)


_HEADERS: JsonSchema = {
    "type": ["object", "null"],
    "description": "Headers that the protocol or the signature owns are refused.",
    "maxProperties": HEADERS_MAX,
    "propertyNames": {
        "pattern": f"^(?!(?:{'|'.join(_any_case(name) for name in sorted(HEADERS_OWNED))})$)(?!{_any_case('webhook-')})"
        r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"
    },
    "additionalProperties": {"type": "string", "maxLength": HEADER_VALUE_MAX, "pattern": "^[ -~]+$"},
}
_STATUSES: JsonSchema = {
    "anyOf": [
        {"type": "integer", "minimum": 400, "maximum": 409},
        {"type": "integer", "minimum": 411, "maximum": 499},
    ]
}
_IDS: JsonSchema = {
    "type": "array",
    "minItems": 1,
    "maxItems": IDS_MAX,
    "items": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1, "maxLength": NAME_MAX}]},
}
_SENDERS: JsonSchema = {
    "type": "object",
    "description": "Who may write to the session: for each source ids of actors, or actors, associations and channels.",
    "minProperties": 1,
    "maxProperties": ORIGINS_MAX,
    "propertyNames": NAME,
    "additionalProperties": {
        "anyOf": [
            _IDS,
            {
                "type": "object",
                "additionalProperties": False,
                "minProperties": 1,
                "properties": dict.fromkeys(KEYS, _IDS),
            },
        ]
    },
}
_PROPERTIES: dict[str, object] = {
    "id": {"type": "string", "pattern": f"^{ID_PATTERN}$", "examples": ["notify-on-error"]},
    "target": {"type": "object", "description": "Exactly one of url, handler and session, and perhaps a secret."},
    "source_criterion": or_null(_CRITERION),
    "type_criterion": or_null(_CRITERION),
    "properties": {
        "type": ["object", "null"],
        "maxProperties": PROPERTIES_MAX,
        "propertyNames": NAME,
        "additionalProperties": _CRITERION,
    },
    "ttl_seconds": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": TTL_MAX_S},
    "expires_at": or_null({**TIME, "description": "A time in the future."}),
    "policy": or_null({"$ref": f"#/components/schemas/{POLICY_NAME}"}),
    "attempts": _WHOLE_1000,
    "ordered": FLAG_OR_NULL,
    "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": TIMEOUT_MAX_S},
    "concurrency": _WHOLE_1000,
    "active": FLAG_OR_NULL,
    "rate": {"type": ["string", "null"], "pattern": RATE_PATTERN, "examples": ["10/s"]},
    "headers": _HEADERS,
    "format": {"enum": [None, *FORMATS]},
    "template": {"type": ["string", "null"], "minLength": 1, "maxLength": TEMPLATE_MAX, "pattern": NO_NUL},
    "retry_on": {"type": ["array", "null"], "items": _STATUSES, "maxItems": RETRY_ON_MAX},
    "senders": or_null(_SENDERS),
}


def _target(**properties: JsonSchema) -> JsonSchema:
    others = {kind.key: _NONE for kind in KINDS.values() if kind.key not in properties}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": {**properties, **others, "secret": or_null(SECRET)},
    }


def _to_url(url: JsonSchema, format: JsonSchema, template: JsonSchema) -> JsonSchema:
    properties = {"target": _target(url=url), "format": format, "template": template, "senders": _NONE}
    return {"required": ["target"], "properties": properties}


_NAMES = {"handler": HANDLER}
_OTHER_TARGETS = [
    _target(**{kind.key: _NAMES.get(kind.name, TEXT)})
    for kind in KINDS.values()
    if kind.name not in ("https", "session")
]
_PLAIN: JsonSchema = {"enum": [None, *(word for word in FORMATS if word not in ("telegram", "template"))]}
_RULES: list[JsonSchema] = [
    {
        "description": "ttl_seconds or expires_at, not both.",
        "anyOf": [{"properties": {"ttl_seconds": _NONE}}, {"properties": {"expires_at": _NONE}}],
    },
    {
        "description": "Options of requests need a url, a session needs senders, telegram needs a chat_id.",
        "anyOf": [
            {
                "properties": {
                    "target": {"anyOf": _OTHER_TARGETS},
                    **dict.fromkeys(("rate", "headers", "format", "template", "retry_on", "senders"), _NONE),
                }
            },
            {
                "required": ["target", "senders"],
                "properties": {
                    "target": _target(session=SESSION),
                    "senders": _SENDERS,
                    **dict.fromkeys(("headers", "format", "retry_on"), _NONE),
                },
            },
            _to_url(URL, _PLAIN, _NONE),
            _to_url(URL_WITH_CHAT, {"const": "telegram"}, _NONE),
            {"allOf": [{"required": ["format", "template"]}, _to_url(URL, {"const": "template"}, {"type": "string"})]},
        ],
    },
]


def _contract(*required: str) -> JsonSchema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": _PROPERTIES,
        "allOf": _RULES,
    }


CONTRACT = _contract("id", "target")
TRIAL = _contract()
