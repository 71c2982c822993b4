"""Reads `hooks.inbound`: paths and verification of the platforms that send webhooks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.config.inbound_check import read_check
from holdfast.config.inbound_values import (
    check_keys,
    read_choice,
    read_field,
    read_kept_header,
    read_kept_headers,
    read_number,
    read_text,
)
from holdfast.domain.canonical import BYTES_MAX
from holdfast.domain.errors import BadConfig
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook import InboundSource
from holdfast.ingress.webhook.platforms import PLATFORMS, platform_of

SOURCES_MAX = 100
RESERVED = (
    "/api", "/hooks/contracts", "/hooks/properties", "/healthz", "/readyz", "/metrics", "/mcp", "/openapi.json",
    "/docs", "/assets",
)  # fmt: skip
KEYS = (
    "path", "platform", "secret", "secrets", "verify_token", "normalizer", "verifier", "verify", "public_url",
    "insecure", "tolerance_seconds", "body_max_bytes", "header", "algorithm", "encoding", "prefix", "id_header",
    "id_field", "type_header", "type_field", "keep_headers",
)  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PATH = re.compile(r"(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)+")


def parse_inbound(sources: Mapping[str, object], body_max_bytes: int) -> tuple[InboundSource, ...]:
    """All sources, or an error that names the first mistake."""
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
        raise BadConfig(
            f"hooks.inbound: {short_repr(name)} is not a valid source name: use 1 to 64 letters, digits, _ and -"
        )
    where = f"hooks.inbound.{name}"
    if not isinstance(value, Mapping):
        raise BadConfig(f"{where} must be a mapping with at least a secret, not {short_repr(value)}")
    check_keys(value, KEYS, where)
    chosen = read_choice(value, "platform", where, PLATFORMS, "json") if "platform" in value else None
    normalizer = read_text(value, "normalizer", where)
    platform = platform_of(chosen or normalizer, name)
    path = _path(value.get("path", f"/hooks/inbound/{name}"), where)
    source = InboundSource(
        name=name,
        path=path,
        normalizer=normalizer or chosen,
        check=read_check(value, where, platform, path),
        verify_token=read_text(value, "verify_token", where),
        id_header=read_kept_header(value, "id_header", where),
        keep_headers=read_kept_headers(value, "keep_headers", where),
        body_max_bytes=min(read_number(value, "body_max_bytes", where, body_max_bytes, BYTES_MAX), BYTES_MAX),
        platform_name=chosen,
        id_field=read_field(value, "id_field", where),
        type_header=read_kept_header(value, "type_header", where),
        type_field=read_field(value, "type_field", where),
    )
    _check_names(source, where)
    return source


def _check_names(source: InboundSource, where: str) -> None:
    for first, second in (("id_header", "id_field"), ("type_header", "type_field")):
        if getattr(source, first) and getattr(source, second):
            raise BadConfig(f"{where} has {first} and {second}; remove one of them")
    normalizer = source.normalizer or (source.name if source.name in PLATFORMS else "json")
    if (source.type_header or source.type_field) and normalizer != "json":
        key = "type_header" if source.type_header else "type_field"
        raise BadConfig(f"{where}.{key} is for the normalizer json; {normalizer} names its events by itself")


def _path(value: object, where: str) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value) or len(value) > 200:
        raise BadConfig(f"{where}.path must be a plain path such as /hooks/shop, not {short_repr(value)}")
    for taken in RESERVED:
        if value == taken or value.startswith(taken + "/"):
            raise BadConfig(f"{where}.path {value} would hide {taken}, which Holdfast uses; choose another")
    return value
