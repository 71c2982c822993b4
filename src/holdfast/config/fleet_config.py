"""`fleet` of the configuration: other components whose dead letters are watched."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from holdfast.domain.errors import BadConfig, BadInput, TargetRefused
from holdfast.domain.fleet import FleetComponent
from holdfast.domain.text import short_repr
from holdfast.net.guard import read_target

COMPONENTS_MAX = 100
KEYS = ("name", "url", "token_env", "dead_above", "pending_above", "oldest_above_seconds")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def parse_fleet(values: Sequence[object]) -> tuple[FleetComponent, ...]:
    """All entries, or an error with the position of the first mistake."""
    if len(values) > COMPONENTS_MAX:
        raise BadConfig(f"fleet has {len(values)} entries; the limit is {COMPONENTS_MAX}")
    found: dict[str, FleetComponent] = {}
    for number, value in enumerate(values, start=1):
        try:
            component = _parse(value)
        except (BadInput, TargetRefused) as error:
            raise BadConfig(f"fleet: entry {number}: {error.message}") from None
        if component.name in found:
            raise BadConfig(f"fleet: entry {number}: the name {component.name} is used twice")
        found[component.name] = component
    return tuple(found.values())


def _parse(value: object) -> FleetComponent:
    if not isinstance(value, Mapping):
        raise BadInput("a component is a mapping with name and url")
    unknown = [key for key in value if key not in KEYS]
    if unknown:
        raise BadInput(f"unknown key {short_repr(unknown[0])}; known are {', '.join(KEYS)}")
    name, url, variable = value.get("name"), value.get("url"), value.get("token_env")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput("name must be 1 to 64 letters, digits and _ . -")
    if not isinstance(url, str):
        raise BadInput("url must be the address of the component, such as https://mirror.example.com")
    read_target(url)
    if variable is not None and not (isinstance(variable, str) and variable.isidentifier()):
        raise BadInput(f"token_env must name an environment variable, not {short_repr(variable)}")
    return FleetComponent(
        name=name,
        url=str(url).rstrip("/"),
        token_env=variable,
        token=None if variable is None else os.environ.get(variable),
        dead_above=_number(value, "dead_above", 0),
        pending_above=_number(value, "pending_above", None),
        oldest_above_s=_number(value, "oldest_above_seconds", 3600),
    )


def _number(value: Mapping[str, object], key: str, default: int | None) -> int | None:
    given = value.get(key, default)
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
        raise BadInput(f"{key} must be a whole number, or null to disable it, not {short_repr(given)}")
    return given
