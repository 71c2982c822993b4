"""Reads how requests of an inbound source are verified: secrets, verifier, and its scheme under `verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from holdfast.config.inbound_values import (
    check_keys,
    read_choice,
    read_field,
    read_header,
    read_number,
    read_text,
)
from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.signature import TOLERANCE_S
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook.platforms import NAMED_VERIFIERS
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.verifiers import EVERYTHING, VERIFIERS, prepare
from holdfast.ingress.webhook.verifiers.check import Check, Verifier
from holdfast.ingress.webhook.verifiers.scheme import ALGORITHMS, ENCODINGS, SECRET_ENCODINGS, TIMESTAMP_UNITS

SECRETS_MAX = 10
TOLERANCE_MAX_S = 24 * 3600
URL_MAX = 1000
FLAT_KEYS = ("header", "algorithm", "encoding", "prefix", "tolerance_seconds")
"""Keys that are accepted beside `verifier` as well as under `verify`."""

Read = Callable[[Mapping[str, object], str, str], str | int | None]


def _choice_of(choices: tuple[str, ...]) -> Read:
    return lambda value, key, where: read_choice(value, key, where, choices, choices[0])


def _algorithm(value: Mapping[str, object], key: str, where: str) -> str:
    found = value.get(key)
    plain = found.removeprefix("hmac-") if isinstance(found, str) else found
    return read_choice({key: plain}, key, where, ALGORITHMS, ALGORITHMS[0])


VERIFY_KEYS: Mapping[str, Read] = {
    "content": read_text,
    "header": read_header,
    "algorithm": _algorithm,
    "encoding": _choice_of(ENCODINGS),
    "prefix": read_text,
    "separator": read_text,
    "signature_key": read_text,
    "timestamp_key": read_text,
    "timestamp_header": read_header,
    "timestamp_field": read_field,
    "timestamp_unit": _choice_of(TIMESTAMP_UNITS),
    "tolerance_seconds": lambda value, key, where: read_number(value, key, where, TOLERANCE_S, TOLERANCE_MAX_S),
    "secret_encoding": _choice_of(SECRET_ENCODINGS),
}


def read_check(value: Mapping[str, object], where: str, platform: Platform, path: str) -> Check | None:
    """How requests are verified. A source without a secret must be declared `insecure: true`."""
    secrets, insecure = _secrets(value, where), value.get("insecure", False)
    if not isinstance(insecure, bool):
        raise BadConfig(f"{where}.insecure must be true or false, not {short_repr(insecure)}")
    if not secrets:
        if insecure:
            return None
        raise BadConfig(
            f"{where} has no secret, so its requests cannot be verified; add secret: (or secrets:), "
            f"or insecure: true to accept unsigned requests"
        )
    if insecure:
        raise BadConfig(f"{where} has a secret and insecure: true; remove one of them")
    verifier = _verifier(value, where, platform)
    changes = _changes(value, where, verifier)
    try:
        return prepare(verifier, secrets, _public_url(value, where, path), **changes)
    except BadConfig:
        raise
    except BadInput as error:
        raise BadConfig(f"{where}: {error.message}") from None


def _verifier(value: Mapping[str, object], where: str, platform: Platform) -> Verifier:
    """The named verifier, else the platform's; `hmac` if `verify` changes what the platform's does not support."""
    if "verifier" in value:
        return NAMED_VERIFIERS[read_choice(value, "verifier", where, NAMED_VERIFIERS, "hook")]
    if "verify" in value and platform.verifier.settings < EVERYTHING:
        return VERIFIERS["hmac"]
    return platform.verifier


def _changes(value: Mapping[str, object], where: str, verifier: Verifier) -> dict[str, str | int]:
    """The settings that the source changes in its verifier's scheme."""
    inner = value.get("verify", {})
    if not isinstance(inner, Mapping):
        raise BadConfig(f"{where}.verify must be a mapping, such as {{header: X-Signature}}, not {short_repr(inner)}")
    check_keys(inner, VERIFY_KEYS, f"{where}.verify")
    flat = {key: value[key] for key in FLAT_KEYS if key in value}
    for key in flat:
        if key in inner:
            raise BadConfig(f"{where}.{key} and {where}.verify.{key} are the same setting; remove one of them")
    for key in (*flat, *inner):
        if key not in verifier.settings and key != "tolerance_seconds":
            raise BadConfig(_not_for(where, key, verifier))
    found = {key: VERIFY_KEYS[key](flat, key, where) for key in flat}
    found |= {key: VERIFY_KEYS[key](inner, key, f"{where}.verify") for key in inner}
    return {key: each for key, each in found.items() if each is not None}


def _not_for(where: str, key: str, verifier: Verifier) -> str:
    takers = ", ".join(name for name, each in VERIFIERS.items() if key in each.settings)
    return f"{where}.{key} is for the verifiers {takers}; this source's is {verifier.name}, whose {key} is fixed"


def _secrets(value: Mapping[str, object], where: str) -> tuple[str, ...]:
    """`secret`, `secrets`, or both. Messages never show a secret."""
    one, many = value.get("secret"), value.get("secrets", [])
    if not isinstance(many, list):
        raise BadConfig(f"{where}.secrets must be a list of texts")
    found = [*([one] if one is not None else []), *many]
    if len(found) > SECRETS_MAX:
        raise BadConfig(f"{where} has {len(found)} secrets; the limit is {SECRETS_MAX}")
    for secret in found:
        if not isinstance(secret, str) or not secret.strip():
            raise BadConfig(f"{where}: a secret must be a non-empty text; quote it if it looks like a number")
    return tuple(found)


def _public_url(value: Mapping[str, object], where: str, path: str) -> str:
    """The URL that the sender uses. If it has no path, the path of the source is appended."""
    found = value.get("public_url")
    if found is None:
        return ""
    try:
        parts = urlsplit(found) if isinstance(found, str) and len(found) <= URL_MAX and found.isprintable() else None
        ok = parts is not None and parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, ok = None, False
    if not isinstance(found, str) or parts is None or not ok or "@" in parts.netloc or " " in found:
        raise BadConfig(
            f"{where}.public_url must be the URL the sender sends to, such as https://hooks.example.com{path}, "
            f"not {short_repr(found)}"
        )
    if "?" in found or "#" in found:
        raise BadConfig(f"{where}.public_url must not have a query or fragment; the query is taken from each request")
    return found + path if not parts.path else str(found)
