"""`streams.sinks` of the configuration: where events of streams are published."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.reader import BEGINNING, STARTS, check_pattern
from holdfast.streams.sinks.registry import make_sink
from holdfast.streams.sinks.sink import POISON_POLICIES, Option, SinkConfig

SINKS_MAX = 100
COMMON = ("name", "url", "streams", "start", "poison")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")


def parse_sinks(values: Sequence[object]) -> tuple[SinkConfig, ...]:
    """All entries, or an error with the position of the first mistake. No error shows a URL or an option's value."""
    if len(values) > SINKS_MAX:
        raise BadConfig(f"streams.sinks has {len(values)} entries; the limit is {SINKS_MAX}")
    found: dict[str, SinkConfig] = {}
    for number, value in enumerate(values, start=1):
        name = value.get("name") if isinstance(value, Mapping) else None
        where = f"streams.sinks: entry {number}" + (f" ({name})" if isinstance(name, str) else "")
        try:
            sink = _parse(value)
            make_sink(sink)  # checks the options of its kind; nothing is connected
        except BadInput as error:
            raise BadConfig(f"{where}: {error.message}") from None
        if sink.name in found:
            raise BadConfig(f"{where}: duplicate name")
        found[sink.name] = sink
    return tuple(found.values())


def _parse(value: object) -> SinkConfig:
    if not isinstance(value, Mapping):
        raise BadInput(f"a sink is a mapping with {', '.join(COMMON[:3])}")
    name, url = value.get("name"), value.get("url")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput("name must be 1 to 64 letters, digits and _ . -")
    if not isinstance(url, str) or not _URL.fullmatch(url) or not url.isprintable():
        raise BadInput("url must be the URL of a server or folder, such as redis://127.0.0.1:6379/0")
    return SinkConfig(
        name=name,
        url=str(url),
        streams=check_pattern(value.get("streams")),
        options={str(key): _option(str(key), item) for key, item in value.items() if key not in COMMON},
        start=_choice(value, "start", BEGINNING, STARTS),
        poison=_choice(value, "poison", POISON_POLICIES[0], POISON_POLICIES),
    )


def _choice(value: Mapping[str, object], name: str, default: str, known: Sequence[str]) -> str:
    given = value.get(name, default)
    if not isinstance(given, str) or given not in known:
        raise BadInput(f"{name} must be one of {', '.join(known)}")
    return str(given)


def _option(name: str, value: object) -> Option:
    if not isinstance(value, str | int | float | bool):
        raise BadInput(f"{name} must be a text, a number or true or false")
    return str(value) if isinstance(value, str) else value
