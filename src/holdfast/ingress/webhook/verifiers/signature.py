"""Signatures in a header: one function for every scheme that can be configured."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Iterator, Sequence

from holdfast.domain import ed25519
from holdfast.domain.errors import BadInput, Unverified
from holdfast.ingress.webhook.content import read_content
from holdfast.ingress.webhook.verifiers import template
from holdfast.ingress.webhook.verifiers.check import Check
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.ingress.webhook.verifiers.scheme import BASE64, ED25519, RAW, Scheme
from holdfast.ingress.webhook.verifiers.timestamp import check_time

HUB = "x-hub-signature-256"
HOOK = "x-hook-signature"
PARTS_MAX = 32


def signed(check: Check, request: InboundRequest, now_s: int) -> str:
    """Verify with the scheme of the source."""
    return _signed(check, request, now_s, check.scheme.header)


def hub(check: Check, request: InboundRequest, now_s: int) -> str:
    """`X-Hub-Signature-256: sha256=<hex>`, as in WebSub."""
    return _signed(check, request, now_s, request.headers.first_of(HUB, HOOK))


def hook(check: Check, request: InboundRequest, now_s: int) -> str:
    """The same in `X-Hook-Signature`. Both verifiers accept both headers."""
    return _signed(check, request, now_s, request.headers.first_of(HOOK, HUB))


def _signed(check: Check, request: InboundRequest, now_s: int, header: str) -> str:
    """Check a time in a header, then the signature, then a time in the body."""
    scheme = check.scheme
    given = request.headers.one(header)
    stamp = _timestamp(scheme, given, request, now_s)
    signatures = read_signatures(scheme, given, header)
    content = template.render(scheme.content, template.Signing(request, request.url(check.public_url), stamp))
    matching = find_secret(check, [content], signatures)
    if matching is None:
        raise Unverified(mismatch_text(check, header))
    if scheme.timestamp_field:
        _check_field(scheme, request, now_s)
    return matching


def mismatch_text(check: Check, header: str) -> str:
    """The error text: what was compared, never the expected value."""
    over = ", ".join(sorted(template.names(check.scheme.content)))
    hint = f"; public_url must be exactly the sender's URL, now {check.public_url}" if check.public_url else ""
    return f"the signature in {header} does not match the request ({over}) and the secret{hint}"


def find_secret(check: Check, contents: Sequence[bytes], signatures: Sequence[bytes]) -> str | None:
    """The secret with which one of the signatures was made over one of the contents.

    Every combination is compared, so that the time does not reveal which one matches.
    """
    found: list[str] = []
    for secret in check.secrets:
        key = read_key(secret, check.scheme)
        matches = [_is_signed(key, check.scheme.algorithm, content, signatures) for content in contents]
        found += [secret] if any(matches) else []
    return found[0] if found else None


def _is_signed(key: bytes, algorithm: str, content: bytes, signatures: Sequence[bytes]) -> bool:
    if algorithm == ED25519:
        return ed25519.any_signed([key], signatures, content)
    expected = hmac.digest(key, content, algorithm)
    matches = [hmac.compare_digest(expected, given) for given in signatures]
    return any(matches)  # after all were compared


def read_key(secret: str, scheme: Scheme) -> bytes:
    """The key of a secret."""
    if scheme.algorithm == ED25519 and scheme.secret_encoding != BASE64:
        return ed25519.read_hex_key(secret)
    if scheme.secret_encoding == RAW:
        return secret.encode("utf-8")
    try:
        key = decode(secret.removeprefix("whsec_").removeprefix("whpk_"), scheme.secret_encoding)
    except ValueError:
        raise BadInput(f"a secret is not {scheme.secret_encoding}, as secret_encoding requires") from None
    if scheme.algorithm == ED25519 and len(key) != ed25519.KEY_BYTES:
        raise BadInput(f"a public key is {ed25519.KEY_BYTES} bytes long, not {len(key)}")
    return key


def decode(text: str, encoding: str) -> bytes:
    """Decode hex of either case, or base64 with or without padding. Raises `ValueError`."""
    raw = text.encode("latin-1")
    if encoding == "hex":
        return binascii.unhexlify(raw)
    if encoding == "base64url":
        if b"+" in raw or b"/" in raw:
            raise ValueError("not base64url")
        raw = raw.translate(bytes.maketrans(b"-_", b"+/"))
    raw = raw.rstrip(b"=")
    return base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)


def _members(scheme: Scheme, given: str) -> list[tuple[str, str]]:
    parts = [part.strip().partition("=") for part in given.split(scheme.separator)[:PARTS_MAX]]
    return [(name, value) for name, _, value in parts]


def _timestamp(scheme: Scheme, given: str, request: InboundRequest, now_s: int) -> str:
    """The signed time as text, if a header contains it. It must be within the tolerance."""
    if scheme.timestamp_key:
        what = f"the time in {scheme.header}"
        found = [value for name, value in _members(scheme, given) if name == scheme.timestamp_key]
        if len(found) != 1:
            raise Unverified(f"the header {scheme.header} must have exactly one {scheme.timestamp_key}=")
        text = found[0]
    elif scheme.timestamp_header:
        what = f"the header {scheme.timestamp_header}"
        text = request.headers.one(scheme.timestamp_header)
    else:
        return ""
    check_time(text, what, scheme.timestamp_unit, scheme.tolerance_seconds, now_s)
    return text


def read_signatures(scheme: Scheme, given: str, header: str) -> list[bytes]:
    """The signatures in a header. In a list, invalid members are ignored."""
    if scheme.signature_key:
        texts = [value for name, value in _members(scheme, given) if name == scheme.signature_key]
        if signatures := list(_readable(texts, scheme)):
            return signatures
        raise Unverified(f"the header {header} has no {scheme.signature_key}= signature in {scheme.encoding}")
    if not given.startswith(scheme.prefix):
        raise Unverified(f"the header {header} does not begin with {scheme.prefix}")
    if signatures := list(_readable([given.removeprefix(scheme.prefix)], scheme)):
        return signatures
    raise Unverified(f"the header {header} does not contain a signature in {scheme.encoding}")


def _readable(texts: Iterable[str], scheme: Scheme) -> Iterator[bytes]:
    for text in texts:
        try:
            raw = decode(text, scheme.encoding)
        except ValueError:
            continue
        if raw and (scheme.algorithm != ED25519 or len(raw) == ed25519.SIGNATURE_BYTES):
            yield raw


def _check_field(scheme: Scheme, request: InboundRequest, now_s: int) -> None:
    """Check the time in a signed body."""
    try:
        value = read_content(request.body, request.headers.get("content-type"))
    except BadInput:
        value = None
    for step in scheme.timestamp_field.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    what = f"the field {scheme.timestamp_field} of the body"
    check_time(text, what, scheme.timestamp_unit, scheme.tolerance_seconds, now_s)
