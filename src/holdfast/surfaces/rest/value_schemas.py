"""JSON Schemas of values that requests share. Each allows what the code accepts; exceptions are noted."""

from __future__ import annotations

import sys

from holdfast.domain.address import ADDRESS_MAX, KINDS, one_of
from holdfast.domain.event import NAME_MAX
from holdfast.operations.answers.schema import JsonSchema

NUL = r"\u0000"
NO_NUL = f"^[^{NUL}]*$"
"""U+0000 is refused everywhere: databases and terminals cut or refuse it."""

_HANDLER = r"[A-Za-z_][A-Za-z0-9_.:<>-]{0,199}"
_PORT = r"(?::(?:0*(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?"
_HOST = r"[!-\"$-.0-9;->A-Z^-~]+"
_IPV6 = (
    r"\[(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|(?:[0-9A-Fa-f]{1,4}:){1,6}:[0-9A-Fa-f]{1,4}"
    r"|(?:[0-9A-Fa-f]{1,4}:){1,7}:|::(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{1,4}|::)\]"
)
_QUERY = r"[!-\"$-\[\]-~]"
_URL = rf"https?://(?:{_HOST}|{_IPV6}){_PORT}(?:[/?]{_QUERY}*)?#?"

# The hosts that the outbound guard accepts in a contract. It also reads other spellings of an IP address, such as
# 0x7f.1 or %31, which no client should send; a pattern cannot express their ranges.
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NOT_A_NUMBER = r"(?!(?:[0-9]+|0[Xx][0-9A-Fa-f]*)\.?(?:[:/?#]|$))"
_GUARDED_HOST = (
    rf"(?:(?:{_OCTET}\.){{3}}{_OCTET}\.?"
    rf"|(?=[^:/?#]{{1,254}}(?:[:/?#]|$))(?:{_LABEL}\.)*{_NOT_A_NUMBER}{_LABEL}\.?|{_IPV6})"
)
_GUARDED_SITE = f"https?://{_GUARDED_HOST}{_PORT}"

_SESSION = r"[A-Za-z0-9][A-Za-z0-9_.:@/+-]{0,199}"
_FORMS = {"https": _URL, "handler": f"handler:{_HANDLER}", "session": f"session:{_SESSION}"}

TEXT: JsonSchema = {"type": "string", "pattern": NO_NUL}
TEXT_OR_NULL: JsonSchema = {"type": ["string", "null"], "pattern": NO_NUL}
FLAG_OR_NULL: JsonSchema = {"type": ["boolean", "null"]}
NAME_COMPONENT = "Name"
NAME: JsonSchema = {"$ref": f"#/components/schemas/{NAME_COMPONENT}"}
URL: JsonSchema = {
    "type": "string",
    "maxLength": ADDRESS_MAX,
    "pattern": f"^{_GUARDED_SITE}(?:[/?]{_QUERY}*)?#?$",
    "description": "The egress rules in force must allow it; if they do not, the answer is 422.",
}
URL_WITH_CHAT: JsonSchema = {
    "type": "string",
    "maxLength": ADDRESS_MAX,
    "pattern": rf"^{_GUARDED_SITE}(?:/[!-\"$->@-\[\]-~]*)?\?(?:{_QUERY}*&)?chat_id=[!-\"$%'-\[\]-~]+(?:&{_QUERY}*)?#?$",
}
HANDLER: JsonSchema = {"type": "string", "pattern": f"^{_HANDLER}$"}
SESSION: JsonSchema = {"type": "string", "pattern": f"^{_SESSION}$"}
ADDRESS: JsonSchema = {
    "type": "string",
    "maxLength": ADDRESS_MAX,
    "pattern": f"^(?:{'|'.join(_FORMS.get(kind, f'{kind}:[^{NUL}]+') for kind in KINDS)})$",
    "description": one_of(kind.example for kind in KINDS.values()),
    "examples": ["handler:ship"],
}
TIME: JsonSchema = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$",
}
JSON_NAME = "Json"
"""The component that holds the schema of any JSON value."""
JSON: JsonSchema = {"$ref": f"#/components/schemas/{JSON_NAME}"}
ANY_JSON: JsonSchema = {
    "description": "Any JSON value in which no text holds U+0000, at most 64 levels deep.",
    "anyOf": [
        {"type": ["null", "boolean", "number"]},
        TEXT,
        {"type": "array", "items": JSON},
        {"type": "object", "propertyNames": {"pattern": NO_NUL}, "additionalProperties": JSON},
    ],
}


def or_null(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [{"type": "null"}, schema]}


def name_schema() -> JsonSchema:
    """What `holdfast.domain.event.check_name` accepts, in the version of Unicode that this Python knows.

    Slow: it looks at every character. `\\p{C}` would be shorter, but several tools do not know it.
    """
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": NAME_MAX,
        "pattern": f"^(?! )(?!.* $)[^{_unprintable()}]+$",
        "description": "Printable text without outer spaces.",
    }


def _unprintable() -> str:
    """The ranges of all characters that are not printable. Surrogates are left out: they cannot occur in JSON."""
    ranges, start = [], None
    for code in range(sys.maxunicode + 2):
        hidden = code <= sys.maxunicode and not chr(code).isprintable() and not 0xD800 <= code <= 0xDFFF
        if hidden and start is None:
            start = code
        elif not hidden and start is not None:
            ranges.append(_character(start) + (f"-{_character(code - 1)}" if code - 1 > start else ""))
            start = None
    return "".join(ranges)


def _character(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else chr(code)
