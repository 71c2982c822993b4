"""`hooks.inbound`: where platforms' requests come in, and how each proves itself. A mistake names itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from holdfast.domain.canonical import BYTES_MAX
from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.event import show
from holdfast.domain.signature import TOLERANCE_S
from holdfast.ingress.headers import KEPT_MAX, may_be_secret
from holdfast.ingress.normalizers import platform_of
from holdfast.ingress.verifiers import VERIFIERS, prepare
from holdfast.ingress.verifiers.check import ALGORITHMS, ENCODINGS, Check
from holdfast.ingress.webhook import InboundSource

SOURCES_MAX = 100
SECRETS_MAX = 10
TOLERANCE_MAX_S = 24 * 3600
RESERVED = (
    "/api", "/hooks/contracts", "/hooks/properties", "/healthz", "/readyz", "/metrics", "/mcp", "/openapi.json",
    "/docs", "/assets",
)  # fmt: skip
KEYS = (
    "path", "secret", "secrets", "verify_token", "normalizer", "verifier", "insecure", "tolerance_seconds",
    "body_max_bytes", "header", "algorithm", "encoding", "prefix", "id_header", "keep_headers",
)  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PATH = re.compile(r"(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)+")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")


def parse_inbound(sources: Mapping[str, Any], body_max_bytes: int) -> tuple[InboundSource, ...]:
    """Every source of the section, or an error that names the first mistake."""
    if len(sources) > SOURCES_MAX:
        raise BadConfig(f"hooks.inbound has {len(sources)} sources; the limit is {SOURCES_MAX}")
    found = tuple(_source(name, value, body_max_bytes) for name, value in sources.items())
    paths: dict[str, str] = {}
    for source in found:
        other = paths.setdefault(source.path, source.name)
        if other != source.name:
            raise BadConfig(f"hooks.inbound.{source.name} and hooks.inbound.{other} have the same path {source.path}")
    return found


def _source(name: object, value: object, body_max_bytes: int) -> InboundSource:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadConfig(f"hooks.inbound: {show(name)} is no name for a source: use 1 to 64 letters, digits, _ and -")
    where = f"hooks.inbound.{name}"
    if not isinstance(value, Mapping):
        raise BadConfig(f"{where} must be a mapping with at least a secret, not {show(value)}")
    for key in value:
        if key not in KEYS:
            near = get_close_matches(str(key), KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(KEYS)}"
            raise BadConfig(f"{where} has an unknown key {show(key)}; {hint}")
    normalizer = _text(value, "normalizer", where)
    return InboundSource(
        name=name,
        path=_path(value.get("path", f"/hooks/inbound/{name}"), where),
        normalizer=normalizer,
        check=_check(value, where, platform_of(normalizer, name).verifier),
        verify_token=_text(value, "verify_token", where),
        id_header=_header(value, "id_header", where),
        keep_headers=_headers(value.get("keep_headers", []), where),
        body_max_bytes=min(_number(value, "body_max_bytes", where, body_max_bytes, BYTES_MAX), BYTES_MAX),
    )


def _check(value: Mapping[str, Any], where: str, default: str) -> Check | None:
    """How the source proves itself. Without a secret it cannot, and that must have been meant."""
    secrets, insecure = _secrets(value, where), value.get("insecure", False)
    if not isinstance(insecure, bool):
        raise BadConfig(f"{where}.insecure must be true or false, not {show(insecure)}")
    if not secrets:
        if insecure:
            return None
        raise BadConfig(
            f"{where} has no secret, so anybody could send to it; give secret: (or secrets:), "
            f"or write insecure: true if that is what you want"
        )
    if insecure:
        raise BadConfig(f"{where} has a secret and insecure: true; remove one of them")
    kind = _choice(value, "verifier", where, tuple(VERIFIERS), default)
    options = [key for key in ("header", "algorithm", "encoding", "prefix") if key in value]
    if options and kind not in ("hmac", "token"):
        raise BadConfig(f"{where}.{options[0]} is for the verifiers hmac and token; this source's is {kind}")
    try:
        return prepare(
            Check(
                kind,
                secrets,
                _number(value, "tolerance_seconds", where, TOLERANCE_S, TOLERANCE_MAX_S),
                _header(value, "header", where) or "",
                _choice(value, "algorithm", where, ALGORITHMS, "sha256"),
                _choice(value, "encoding", where, ENCODINGS, "hex"),
                _text(value, "prefix", where) or "",
            )
        )
    except BadConfig:
        raise
    except BadInput as error:
        raise BadConfig(f"{where}: {error.message}") from None


def _secrets(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """`secret`, `secrets`, or both. No message ever shows one."""
    one, many = value.get("secret"), value.get("secrets", [])
    if not isinstance(many, list):
        raise BadConfig(f"{where}.secrets must be a list of texts")
    found = [*([one] if one is not None else []), *many]
    if len(found) > SECRETS_MAX:
        raise BadConfig(f"{where} has {len(found)} secrets; the limit is {SECRETS_MAX}")
    for secret in found:
        if not isinstance(secret, str) or not secret.strip():
            raise BadConfig(f"{where}: a secret must be a text that is not empty; quote one that looks like a number")
    return tuple(found)


def _path(value: object, where: str) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value) or len(value) > 200:
        raise BadConfig(f"{where}.path must be a plain path such as /hooks/github, not {show(value)}")
    for taken in RESERVED:
        if value == taken or value.startswith(taken + "/"):
            raise BadConfig(f"{where}.path {value} would hide {taken}, which is Holdfast's own; choose another")
    return value


def _text(value: Mapping[str, Any], key: str, where: str) -> str | None:
    found = value.get(key)
    if found is not None and (not isinstance(found, str) or not found):
        raise BadConfig(f"{where}.{key} must be a text that is not empty")
    return found


def _choice(value: Mapping[str, Any], key: str, where: str, choices: Iterable[str], default: str) -> str:
    found = value.get(key, default)
    if found not in choices:
        raise BadConfig(f"{where}.{key} must be one of {', '.join(choices)}, not {show(found)}")
    return str(found)


def _number(value: Mapping[str, Any], key: str, where: str, default: int, most: int) -> int:
    found = value.get(key, default)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 12:
        found = int(found)  # a variable of the environment is always text
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= max(most, default):
        raise BadConfig(f"{where}.{key} must be a whole number from 1 to {max(most, default)}, not {show(found)}")
    return found


def _header(value: Mapping[str, Any], key: str, where: str) -> str | None:
    found = value.get(key)
    if found is None:
        return None
    name = _header_name(found, f"{where}.{key}")
    if key == "id_header" and may_be_secret(name):
        raise BadConfig(f"{where}.id_header names {name}, which may carry a secret and is never kept")
    return name


def _headers(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > KEPT_MAX:
        raise BadConfig(f"{where}.keep_headers must be a list of at most {KEPT_MAX} names of headers")
    names = tuple(_header_name(name, f"{where}.keep_headers") for name in value)
    for name in names:
        if may_be_secret(name):
            raise BadConfig(f"{where}.keep_headers names {name}, which may carry a secret and is never kept")
    return names


def _header_name(value: object, what: str) -> str:
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise BadConfig(f"{what} must be the name of a header, such as X-Signature, not {show(value)}")
    return value.lower()
