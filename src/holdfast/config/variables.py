"""The environment variables that the user's configuration file names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.config.settings_file import VARIABLE, written_settings


def variables_named(path: Path) -> dict[str, bool]:
    """The names of the variables in the file, and whether each is required: without it the daemon does not start."""
    found: dict[str, bool] = {}
    for name, required in _names(written_settings(path)):
        found[name] = found.get(name, False) or required
    return found


def _names(value: object, key: str = "") -> Iterator[tuple[str, bool]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _names(each, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _names(each, key)
    elif isinstance(value, str):
        if (
            key == "token_env" and value.isascii() and value.isidentifier()
        ):  # the name itself, of a component of the fleet
            yield value, False
        for match in VARIABLE.finditer(value):
            yield match[1], match[2] is None
