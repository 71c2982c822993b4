"""The signed text, built from the parts of a request with a template.

"{timestamp}.{body}"
"{method}{url}{body}{timestamp}"
"{url}{sorted_form}"
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from string import Formatter
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from holdfast.domain.errors import BadInput, Unverified
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook.content import FORM_FIELDS_MAX, is_form
from holdfast.ingress.webhook.verifiers.request import InboundRequest

LENGTH_MAX = 500
PARTS_MAX = 20
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
# The escapes that {decoded_url} decodes; every other escape stays as it is.
_DECODED = re.compile(r"%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)


class Part(NamedTuple):
    """A literal text and the placeholder that follows it."""

    literal: str
    name: str
    argument: str


class Signing(NamedTuple):
    """The values for the placeholders: a request, the URL its sender used, and the signed time as text."""

    request: InboundRequest
    url: str
    timestamp: str


PLACEHOLDERS: Mapping[str, Callable[[Signing], bytes]] = {
    "body": lambda given: given.request.body,
    "body_sha256": lambda given: hashlib.sha256(given.request.body).hexdigest().encode(),
    "sorted_form": lambda given: sorted_form(given.request),
    "timestamp": lambda given: given.timestamp.encode("latin-1"),
    "method": lambda given: given.request.method.encode("latin-1"),
    "url": lambda given: given.url.encode("utf-8"),
    "decoded_url": lambda given: _DECODED.sub(_decode, given.url).encode("utf-8"),
    "path": lambda given: given.request.path.encode("utf-8"),
    "query": lambda given: given.request.query.encode("utf-8"),
}
OVER_BODY = ("body", "body_sha256", "sorted_form")
OVER_URL = ("url", "decoded_url")
KNOWN = ", ".join([*(f"{{{name}}}" for name in PLACEHOLDERS), "{header:NAME}"])


@lru_cache(maxsize=256)
def parse(template: str) -> tuple[Part, ...]:
    """The parts of a template. `BadInput` names what is wrong with it.

    >>> [part.name for part in parse("v0:{timestamp}:{body}")]
    ['timestamp', 'body']
    """
    if len(template) > LENGTH_MAX:
        raise BadInput(f"content is {len(template)} characters long; the limit is {LENGTH_MAX}")
    try:
        found = [
            Part(literal, *_placeholder(name, argument, conversion))
            for literal, name, argument, conversion in Formatter().parse(template)
        ]
    except ValueError as error:
        raise BadInput(
            f"content {short_repr(template)} is not a template: {error}; write a brace as {{{{ or }}}}"
        ) from None
    if len(found) > PARTS_MAX:
        raise BadInput(f"content has {len(found)} placeholders; the limit is {PARTS_MAX}")
    return tuple(found)


def _placeholder(name: str | None, argument: str | None, conversion: str | None) -> tuple[str, str]:
    if name is None:
        return "", ""
    if name == "header" and argument and _HEADER.fullmatch(argument) and not conversion:
        return name, argument.lower()
    if name not in PLACEHOLDERS or argument or conversion:
        shown = f"{{{name}{f'!{conversion}' if conversion else ''}{f':{argument}' if argument else ''}}}"
        raise BadInput(f"content has the unknown placeholder {shown[:60]}; known are {KNOWN}")
    return name, ""


def names(template: str) -> frozenset[str]:
    """The placeholders in a template."""
    return frozenset(part.name for part in parse(template) if part.name)


def render(template: str, given: Signing) -> bytes:
    """The bytes that the sender signs for this request."""
    return b"".join(_rendered(part, given) for part in parse(template))


def _rendered(part: Part, given: Signing) -> bytes:
    literal = part.literal.encode("utf-8")
    if not part.name:
        return literal
    if part.name == "header":
        return literal + given.request.headers.one(part.argument).encode("latin-1")
    return literal + PLACEHOLDERS[part.name](given)


def sorted_form(request: InboundRequest) -> bytes:
    """A form's names and values, decoded and sorted, each pair once, without separators."""
    if not request.body:
        return b""
    if not is_form(request.headers.get("content-type")):
        raise Unverified("the body is not a form, and the signature of this source covers only form fields")
    fields = [field.partition(b"=") for field in request.body.split(b"&") if field]
    if len(fields) > FORM_FIELDS_MAX:
        raise Unverified(f"the form has {len(fields):,} fields; the limit is {FORM_FIELDS_MAX:,}")
    pairs = {(_unquoted(name), _unquoted(value)) for name, _, value in fields}
    return b"".join(name + value for name, value in sorted(pairs))


def _unquoted(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def _decode(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))
