"""Reads and edits JSON settings files of other programs. Comments and formatting stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.agents.install import jsonc
from holdfast.agents.install.files import BOM, Refused, decode, read
from holdfast.domain.json_value import Json, JsonObject


def read_json(path: Path) -> Mapping[str, Json]:
    """The object in a file; empty if there is no file."""
    return parse_settings(path, read(path))


def parse_settings(path: Path, raw: bytes | None) -> Mapping[str, Json]:
    return _parse(path, decode(path, raw).removeprefix(BOM))


def is_strict_json(path: Path) -> bool:
    """Whether a file is JSON without comments and trailing commas."""
    try:
        json.loads(decode(path, read(path)).removeprefix(BOM) or "{}")
    except ValueError:
        return False
    return True


def edit_json(path: Path, raw: bytes | None, change: Callable[[Mapping[str, Json]], JsonObject]) -> bytes | None:
    """The bytes of a JSON file after a change to its settings. All unrelated bytes stay the same."""
    text = decode(path, raw)
    body = text.removeprefix(BOM)
    bom = text[: len(text) - len(body)]
    settings = _parse(path, body)
    try:
        changed = change(settings)
        if changed == settings:
            return raw
        if body.strip():
            return (bom + jsonc.rewrite(body, changed)).encode()
    except (Refused, jsonc.NotJson) as error:
        raise Refused(f"{path}: {error.message}; file not changed") from None
    newline = "\r\n" if "\r\n" in body else "\n"
    return (bom + json.dumps(changed, ensure_ascii=False, indent=2).replace("\n", newline) + newline).encode()


def _parse(path: Path, body: str) -> Mapping[str, Json]:
    try:
        settings = jsonc.parse(body).value if body.strip() else {}
    except jsonc.NotJson as error:
        raise Refused(f"cannot read {path}: {error.message}; file not changed, fix it first") from None
    if not isinstance(settings, dict):
        raise Refused(f"{path} does not contain a JSON object; file not changed")
    return settings
