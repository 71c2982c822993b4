"""Answers as an agent gets them: encoded, marked as data, short enough to read."""

from __future__ import annotations

import json

from holdfast.domain.errors import BadInput
from holdfast.domain.json_value import JsonObject, KnownJson
from holdfast.operations.answers.encode import encode
from holdfast.operations.redaction import excerpt
from holdfast.surfaces.mcp.tools import NOTICE, Tool

PAYLOAD_CHARS = 2000
TEXT_CHARS = 2000
ANSWER_CHARS = 200_000


def shown_answer(tool: Tool, answer: object) -> JsonObject:
    """The JSON object of an answer. Payloads are redacted and cut; `payload_cut` marks those that were cut."""
    shown: JsonObject = {"notice": NOTICE} if tool.outside else {}
    shown |= _shorten(encode(answer))
    size = len(json.dumps(shown, ensure_ascii=False))
    if size > ANSWER_CHARS:
        raise BadInput(f"the answer has {size:,} characters, more than {ANSWER_CHARS:,}; ask for fewer items")
    return shown


def _shorten(value: KnownJson) -> KnownJson:
    if isinstance(value, str):
        left_off = len(value) - TEXT_CHARS
        return value if left_off <= 0 else f"{value[:TEXT_CHARS]}… ({left_off:,} more characters)"
    if isinstance(value, list):
        return [_shorten(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {name: _shorten(item) for name, item in value.items() if name != "payload"}
    if "payload" in value:
        payload, cut = excerpt(value["payload"], PAYLOAD_CHARS)
        shown["payload"] = payload
        if cut:
            shown["payload_cut"] = True
    return shown
