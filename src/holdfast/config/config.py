"""Configuration: an annotated file of defaults, overridden by the user's file. Errors name the faulty setting."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

import yaml

from holdfast.agents.hooks.hook import EVENT_TYPES
from holdfast.config.inbound_config import parse_inbound
from holdfast.config.subscriptions import read_subscriptions
from holdfast.domain.contract import parse_rate
from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.retry import POLICIES, Policy
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook import InboundSource
from holdfast.net.guard import Guard
from holdfast.net.proxy import DIRECT, Proxies, read_proxies
from holdfast.store.roles.maintenance import Retention

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_DAY_MS = 24 * 3600 * 1000
FREE_SECTIONS = ("policies", "hooks.inbound")
TRANSCRIPTS = ("heard", "beginning", "now", "off")
FILE_BYTES_MAX = 1024 * 1024
NUMBER_MAX = 1e15
PER_HOST_MAX = 10_000
ZEROES = ("disk.low_water_bytes", "disk.ballast_bytes")
FRACTIONS = ("_days", "_minutes", "_seconds")


@dataclass(frozen=True, slots=True)
class Config:
    store: str
    host: str
    port: int
    hosts: tuple[str, ...]
    body_max_bytes: int
    egress_allow: tuple[str, ...]
    grace_s: float
    capacity: int
    retention: Retention
    prune_every_s: float
    policies: Mapping[str, Policy]
    low_water_bytes: int
    ballast_bytes: int
    inbound: tuple[InboundSource, ...] = ()
    subscriptions: tuple[object, ...] = ()
    disable_after_ms: int = 0
    interval_us: int = 0
    concurrency_per_host: int = 64
    proxies: Proxies = DIRECT
    session_events: tuple[str, ...] = EVENT_TYPES
    transcripts: str = "heard"

    @property
    def disk_limits(self) -> dict[str, int]:
        """The arguments of `open_store` about free disk space."""
        return {"low_water_bytes": self.low_water_bytes, "ballast_bytes": self.ballast_bytes}


class _Expanded(str):
    """A text in which environment variables were replaced. They may be secret, so messages show the original text."""

    written: str

    def __new__(cls, text: str, written: str) -> _Expanded:
        made = super().__new__(cls, text)
        made.written = written
        return made


def default_text() -> str:
    return files("holdfast.config").joinpath("defaults.yml").read_text(encoding="utf-8")


def load_config(path: Path | None) -> Config:
    """The defaults, overridden by the user's file if it exists."""
    settings = _expanded(_read(default_text(), "the defaults"), "the defaults")
    if path is not None and path.exists():
        _override(settings, _expanded(_read(_text(path), str(path)), str(path)), str(path), "")
    return _build(settings)


def load_store(path: Path) -> str:
    """Only the setting `store`, for commands that need no other. Variables used elsewhere in the file may be unset."""
    given = _read(_text(path), str(path)) if path.exists() else {}
    only_store = {name: value for name, value in given.items() if name == "store"}
    settings: JsonObject = {"store": ""}
    _override(settings, _expanded(only_store, str(path)), str(path), "")
    return str(settings["store"])


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise BadConfig(f"{path} is larger than {FILE_BYTES_MAX:,} bytes, the limit for a configuration file")
    return text


def _expanded(value: dict[str, object], where: str) -> dict[str, object]:
    return {key: _expand(item, where, str(key)) for key, item in value.items()}


def _read(text: str, where: str) -> dict[str, object]:
    try:
        value = yaml.load(text, _Strict)  # noqa: S506 - a safe loader that refuses more
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadConfig(f"{where} is not valid YAML: {problem}{_place(error)}") from None
    except (ValueError, OverflowError, RecursionError) as error:  # an impossible date, 5,000 digits, very deep nesting
        raise BadConfig(f"{where} has an invalid value ({type(error).__name__})") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadConfig(f"{where} must be a mapping of settings, not {_show(value)}")
    return value


class _Strict(yaml.SafeLoader):
    """YAML without aliases, which can expand without limit, and without duplicate keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                problem = f"duplicate key {short_repr(key.value)}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)  # type: ignore[arg-type]  # another kind of node is refused there


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""


def _expand(value: object, where: str, key: str) -> object:
    """Replace environment variables in texts. An unset one without a default is an error."""
    if isinstance(value, dict):
        return {name: _expand(item, where, f"{key}.{name}") for name, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, where, key) for item in value]
    if not isinstance(value, str):
        return value

    def put(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None and match[2] is None:
            raise BadConfig(
                f"{where}: {key} uses ${{{match[1]}}}, but the environment variable {match[1]} is not set; "
                f"set it, or write ${{{match[1]}:-a default}}"
            )
        return found if found is not None else match[2]

    expanded = _VARIABLE.sub(put, value)
    return value if expanded == value else _Expanded(expanded, value)


def _override(settings: JsonObject, given: Mapping[str, object], where: str, prefix: str) -> None:
    for key, value in given.items():
        name = f"{prefix}{key}"
        if key not in settings:
            near = get_close_matches(str(key), list(settings), n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known are {', '.join(settings)}"
            raise BadConfig(f"{where}: unknown setting {short_repr(name)}{hint}")
        default = settings[key]
        if isinstance(default, dict) and name not in FREE_SECTIONS:
            if not isinstance(value, dict):
                raise BadConfig(f"{where}: {name} must be a mapping, not {_show(value)}")
            _override(default, value, where, f"{name}.")
        else:
            settings[key] = _check_kind(value, default, where, name)


def _check_kind(value: Json, default: Json, where: str, name: str) -> Json:
    number = isinstance(default, int | float) and not isinstance(default, bool)
    if number and isinstance(value, str) and value.strip().isdigit():
        value = int(value)  # an environment variable is always text
    fits = (
        isinstance(value, int | float) and not isinstance(value, bool) if number else isinstance(value, type(default))
    )
    if not fits:
        kind = "a number" if number else {"str": "text", "list": "a list"}.get(type(default).__name__, "a mapping")
        raise BadConfig(f"{where}: {name} must be {kind}, not {_show(value)}")
    if number and not (0 <= value <= NUMBER_MAX and (value > 0 or name in ZEROES or name.endswith("_days"))):
        raise BadConfig(f"{where}: {name} must be a positive number of at most {NUMBER_MAX:g}, not {short_repr(value)}")
    if isinstance(default, int) and isinstance(value, float) and not name.endswith(FRACTIONS):
        raise BadConfig(f"{where}: {name} must be a whole number, not {short_repr(value)}")
    return str(value) if isinstance(value, str) else value


def _show(value: object) -> str:
    """A value for a message: shortened, and never the value of an environment variable."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return short_repr(value.written if isinstance(value, _Expanded) else value)


def _check(settings: JsonObject) -> None:
    """Check settings whose type is right but whose value may not be."""
    server = settings["server"]
    if not 1 <= server["port"] <= 65535:
        raise BadConfig(f"server.port must be between 1 and 65535, not {server['port']}")
    for item in (*server["hosts"], *settings["egress"]["allow"]):
        if not isinstance(item, str):
            raise BadConfig(f"server.hosts and egress.allow must be lists of texts, not {_show(item)}")
    if settings["sessions"]["transcripts"] not in TRANSCRIPTS:
        value = _show(settings["sessions"]["transcripts"])
        raise BadConfig(f"sessions.transcripts must be one of {', '.join(TRANSCRIPTS)}, not {value}")
    disk = settings["disk"]
    if disk["low_water_bytes"] * 2 < disk["ballast_bytes"] * 3:
        raise BadConfig(
            f"disk.low_water_bytes ({disk['low_water_bytes']:,}) must be at least one and a half times "
            f"disk.ballast_bytes ({disk['ballast_bytes']:,}); or set both to 0 to disable the check"
        )
    for item in settings["sessions"]["events"]:
        if item not in EVENT_TYPES:
            raise BadConfig(f"sessions.events has an unknown type {_show(item)}; known are {', '.join(EVENT_TYPES)}")


def _build(settings: JsonObject) -> Config:
    _check(settings)
    server, daemon, disk = settings["server"], settings["daemon"], settings["disk"]
    policies = {**POLICIES, **{name: _policy(name, value) for name, value in settings["policies"].items()}}
    subscriptions = settings["hooks"]["subscriptions"]
    read_subscriptions(subscriptions, policies, now_ms=0, guard=Guard(settings["egress"]["allow"]))
    return Config(
        store=settings["store"],
        host=server["host"],
        port=int(server["port"]),
        hosts=tuple(server["hosts"]),
        body_max_bytes=int(server["body_max_bytes"]),
        egress_allow=tuple(settings["egress"]["allow"]),
        grace_s=float(daemon["grace_seconds"]),
        capacity=int(daemon["capacity"]),
        retention=_retention(settings["retention"]),
        prune_every_s=float(settings["retention"]["every_minutes"]) * 60,
        policies=policies,
        subscriptions=tuple(subscriptions),
        inbound=parse_inbound(settings["hooks"]["inbound"], int(server["body_max_bytes"])),
        disable_after_ms=round(settings["egress"]["disable_after_days"] * _DAY_MS),
        interval_us=_interval_us(settings["egress"]["rate"]),
        concurrency_per_host=_per_host(settings["egress"]["concurrency"]),
        proxies=read_proxies(settings["egress"]["proxy"], os.environ),
        low_water_bytes=disk["low_water_bytes"],
        ballast_bytes=disk["ballast_bytes"],
        session_events=tuple(settings["sessions"]["events"]),
        transcripts=settings["sessions"]["transcripts"],
    )


def _retention(days: Mapping[str, float]) -> Retention:
    return Retention(
        delivered_ms=round(days["delivered_days"] * _DAY_MS),
        inbound_ms=round(days["inbound_days"] * _DAY_MS),
        dead_ms=round(days["dead_days"] * _DAY_MS),
        dedup_ms=round(days["dedup_days"] * _DAY_MS),
        sessions_ms=round(days["sessions_days"] * _DAY_MS),
        streams_ms=round(days["streams_days"] * _DAY_MS),
    )


def _interval_us(rate: str) -> int:
    try:
        return parse_rate(rate) if rate else 0
    except BadInput as error:
        raise BadConfig(f"egress.rate: {error.message}") from None


def _per_host(value: int) -> int:
    if value > PER_HOST_MAX:
        raise BadConfig(f"egress.concurrency must be a whole number from 1 to {PER_HOST_MAX:,}, not {value}")
    return value


def _policy(name: object, value: object) -> Policy:
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isprintable():
        raise BadConfig(f"policies: {short_repr(name)} is not a valid name; use 1 to 64 printable characters")
    if not isinstance(value, dict):
        raise BadConfig(f"policies.{name} must be a mapping with schedule, attempts and lease, not {_show(value)}")
    unknown = sorted(set(value) - {"schedule", "attempts", "lease", "jitter"}, key=str)
    if unknown:
        raise BadConfig(
            f"policies.{name} has an unknown key {short_repr(unknown[0])}; known are schedule, attempts, lease, jitter"
        )
    schedule, attempts = value.get("schedule"), value.get("attempts")
    lease, jitter = value.get("lease", 30), value.get("jitter", 0.1)
    if not isinstance(schedule, list) or not 1 <= len(schedule) <= 100 or not all(_positive(item) for item in schedule):
        raise BadConfig(f"policies.{name}.schedule must list 1 to 100 positive numbers of seconds")
    if attempts is not None and (
        not isinstance(attempts, int) or isinstance(attempts, bool) or not 1 <= attempts <= 10**6
    ):
        raise BadConfig(f"policies.{name}.attempts must be a whole number from 1 to 1,000,000, or null for no limit")
    if not _positive(lease) or not isinstance(jitter, int | float) or isinstance(jitter, bool) or not 0 <= jitter <= 1:
        raise BadConfig(
            f"policies.{name}: lease must be a positive number of seconds, and jitter a fraction from 0 to 1"
        )
    return Policy(name, tuple(float(item) for item in schedule), attempts, float(lease), float(jitter))


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= NUMBER_MAX
