"""What a platform's request holds: reading a body as JSON or a form, and keeping its very bytes inside a payload."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from holdfast.domain.canonical import BYTES_MAX, parse_json
from holdfast.domain.errors import BadInput, BadJson, TooLarge
from holdfast.domain.event import show

FORM = "application/x-www-form-urlencoded"
FORM_FIELDS_MAX = 1000
PLAIN_MAX = BYTES_MAX * 3 // 4


def read_loosely(body: bytes, content_type: str) -> Any:
    """The value of a body, as JSON or a form. Only what no reader could make sense of is refused."""
    if not body:
        raise BadJson("the body is empty")
    if _is_form(content_type):
        return _form(body)
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise BadJson(f"the body is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise BadJson("the body is nested too deeply") from None
    except ValueError as error:
        where = f"{error.msg} at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise BadJson(f"the body is not JSON: {where}") from None


def read_strictly(body: bytes, content_type: str) -> Any:
    """The same, refusing whatever some part of the house could not carry."""
    return _form(body) if _is_form(content_type) else parse_json(body, "the stored body")


def _form(body: bytes) -> dict[str, Any]:
    """A form's fields. One that comes several times is a list."""
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, strict_parsing=True, max_num_fields=FORM_FIELDS_MAX
        )
    except ValueError as error:
        raise BadJson(f"the body is not a form: {str(error)[:80]}") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        known = fields.get(name)
        fields[name] = value if known is None else [*(known if isinstance(known, list) else [known]), value]
    return fields


def stored(body: bytes) -> dict[str, str]:
    """A body as JSON can carry it: as text, packed where that would be too long, base64 where it is no text."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
    if "\x00" not in text and len(json.dumps(text, ensure_ascii=False).encode()) < PLAIN_MAX:
        return {"body": text, "body_encoding": "text"}
    return {"body": base64.b64encode(zlib.compress(body)).decode(), "body_encoding": "zlib+base64"}


def restored(payload: Any) -> tuple[dict[str, str], bytes]:
    """The headers and the very bytes that came in."""
    if not isinstance(payload, Mapping) or not isinstance(payload.get("body"), str):
        raise BadInput("this is no stored request: it has no body")
    headers = payload.get("headers")
    text, encoding = payload["body"], payload.get("body_encoding", "text")
    known = dict(headers) if isinstance(headers, Mapping) else {}
    if encoding == "text":
        return known, text.encode("utf-8")
    if encoding == "base64":
        return known, base64.b64decode(text)
    if encoding != "zlib+base64":
        raise BadInput(f"the stored body has the unknown encoding {show(encoding)}")
    unpacker = zlib.decompressobj()
    body = unpacker.decompress(base64.b64decode(text), BYTES_MAX + 1)
    if len(body) > BYTES_MAX:
        raise TooLarge(f"the stored body is larger than {BYTES_MAX:,} bytes")
    return known, body


def _is_form(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == FORM


def _no_constant(name: str) -> Any:
    raise ValueError(f"it holds {name}")
