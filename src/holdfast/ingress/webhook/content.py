"""The body of a webhook request: its value, and its bytes in a form that a payload can store."""

from __future__ import annotations

import base64
import codecs
import contextlib
import json
import zlib
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import parse_qsl

from holdfast.domain.canonical import BYTES_MAX, dump_json
from holdfast.domain.errors import BadInput, BadJson, TooLarge
from holdfast.domain.json_value import Json, object_in, text_in
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook.lenient_json import clean_text, read_json

FORM = "application/x-www-form-urlencoded"
FORM_FIELDS_MAX = 1000
PLAIN_MAX = BYTES_MAX * 3 // 4
GROWTH_MAX = 6
"""How many bytes of stored JSON one byte of a body can become: 1e15 is written as 1000000000000000.0."""

_CHARSETS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso8859-1", "cp1252", "ascii")


def read_content(body: bytes, content_type: str) -> Json:
    """The value of a body: JSON, the fields of a form, or text if its type is text. `BadJson` for anything else.

    An empty body is an empty object: some senders only send a notification without data.
    """
    kind, charset = _parse_type(content_type)
    if not body.strip():
        return {}
    if kind == FORM and body.lstrip()[:1] not in (b"{", b"["):  # curl sends JSON with the type of a form by default
        value: Json = _form(_decoded(body, charset), charset)
    else:
        value = _json(body, kind, charset)
    if len(body) > BYTES_MAX // GROWTH_MAX:  # smaller ones always fit
        dump_json(value, "the body, written as JSON,")
    return value


def _json(body: bytes, kind: str, charset: str) -> Json:
    """The JSON in a body, in the first encoding in which it parses; else its text, if its type is text."""
    first: BadJson | None = None
    for text in _texts(body, charset):
        try:
            return read_json(text.removeprefix("\ufeff"))
        except BadJson as error:
            first = first or error
    if _is_text(kind):
        return clean_text(_decoded(body, charset))
    raise first or BadJson("the body is not JSON")


def _texts(body: bytes, charset: str) -> Iterator[str]:
    """The body in the encodings it may have: detected by zero bytes, UTF-8, the named charset."""
    for encoding in dict.fromkeys((json.detect_encoding(body), "utf-8", charset)):
        with contextlib.suppress(UnicodeError):
            yield body.decode(encoding)
    yield body.decode("utf-8", "replace")


def _decoded(body: bytes, charset: str) -> str:
    """A text that is not JSON. Invalid bytes become U+FFFD; the stored bytes keep them."""
    try:
        return body.decode(charset)
    except UnicodeError:
        return body.decode("utf-8", "replace")


@lru_cache(maxsize=64)
def _parse_type(content_type: str) -> tuple[str, str]:
    """The media type and the charset; utf-8 if none is named or Python does not know it."""
    kind, *parameters = [part.strip().lower() for part in content_type.split(";")]
    named = next((part[8:].strip("\"' ") for part in parameters if part.startswith("charset=")), "utf-8")
    try:
        charset = codecs.lookup(named).name
    except (LookupError, ValueError):
        charset = "utf-8"
    return kind, charset if charset in _CHARSETS else "utf-8"


def is_form(content_type: str) -> bool:
    return _parse_type(content_type)[0] == FORM


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind == "application/xml" or kind.endswith("+xml")


def _form(text: str, charset: str) -> dict[str, Json]:
    """The fields of a form. A repeated field becomes a list."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, encoding=charset, max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        raise BadJson(f"the body is a form with more than {FORM_FIELDS_MAX:,} fields") from None
    fields: dict[str, Json] = {}
    for name, value in ((clean_text(name), clean_text(value)) for name, value in pairs):
        known = fields.get(name)
        fields[name] = value if known is None else [*(known if isinstance(known, list) else [known]), value]
    return fields


def stored(body: bytes) -> dict[str, str]:
    """A body in a JSON object: as text, else in base64, compressed if it would be too long."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        if len(body) <= BYTES_MAX // 2:
            return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
    else:
        if "\x00" not in text and len(json.dumps(text, ensure_ascii=False).encode()) < PLAIN_MAX:
            return {"body": text, "body_encoding": "text"}
    return {"body": base64.b64encode(zlib.compress(body)).decode(), "body_encoding": "zlib+base64"}


def restored(payload: Json) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a stored request."""
    text = text_in(payload, "body") if isinstance(payload, dict) else None
    if not isinstance(payload, dict) or text is None:
        raise BadInput("this is not a stored request: it has no body")
    encoding = payload.get("body_encoding", "text")
    known = {name: value for name, value in object_in(payload, "headers").items() if isinstance(value, str)}
    if encoding == "text":
        return known, text.encode("utf-8")
    if encoding == "base64":
        return known, base64.b64decode(text, validate=True)
    if encoding != "zlib+base64":
        raise BadInput(f"the stored body has the unknown encoding {short_repr(encoding)}")
    unpacker = zlib.decompressobj()
    body = unpacker.decompress(base64.b64decode(text, validate=True), BYTES_MAX + 1)
    if len(body) > BYTES_MAX:
        raise TooLarge(f"the stored body is larger than {BYTES_MAX:,} bytes")
    return known, body
