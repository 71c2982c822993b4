"""Configuration: an annotated file of defaults, overridden by the user's file. Errors name the faulty setting."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.agents.hooks.hook import EVENT_TYPES
from holdfast.config.fleet_config import parse_fleet
from holdfast.config.inbound_config import parse_inbound
from holdfast.config.promote_at import NEVER, PromoteAt
from holdfast.config.settings_file import NUMBER_MAX, read_settings, show_value
from holdfast.config.streams_config import parse_sinks
from holdfast.config.subscriptions import read_subscriptions
from holdfast.domain.contract import parse_rate
from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.fleet import FleetComponent
from holdfast.domain.json_value import KnownJson
from holdfast.domain.retry import POLICIES, Policy
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook import InboundSource
from holdfast.net.guard import Guard
from holdfast.net.proxy import DIRECT, Proxies, read_proxies
from holdfast.store.roles.maintenance import Retention
from holdfast.streams.sinks.sink import SinkConfig

_DAY_MS = 24 * 3600 * 1000
ADOPT = ("never", "ended")
TRANSCRIPTS = ("first_hook", "beginning", "now", "off")
PER_HOST_MAX = 10_000


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
    transcripts: str = "first_hook"
    deliver_sessions: bool = False
    adopt_sessions: str = "never"
    transcriber: tuple[str, ...] = ()
    open_metrics: bool = False
    sinks: tuple[SinkConfig, ...] = ()
    fleet: tuple[FleetComponent, ...] = ()
    sink_batch: int = 100
    sink_streams: int = 50
    sink_poll_s: float = 0.2
    archive_folder: Path | None = None
    sign_every: int = 1000
    sign_every_s: float = 3600.0
    promote_at: PromoteAt = NEVER
    settings: KnownJson = field(default_factory=dict, repr=False, compare=False)
    """As they were read, to compare a changed file with. They hold secrets."""

    @property
    def disk_limits(self) -> dict[str, int]:
        """The arguments of `open_store` about free disk space."""
        return {"low_water_bytes": self.low_water_bytes, "ballast_bytes": self.ballast_bytes}


def load_config(path: Path | None) -> Config:
    """The defaults, overridden by the user's file if it exists."""
    return build_config(read_settings(path))


def _check(settings: KnownJson) -> None:
    """Check settings whose type is right but whose value may not be."""
    server = settings["server"]
    if not 1 <= server["port"] <= 65535:
        raise BadConfig(f"server.port must be between 1 and 65535, not {server['port']}")
    for item in (*server["hosts"], *settings["egress"]["allow"]):
        if not isinstance(item, str):
            raise BadConfig(f"server.hosts and egress.allow must be lists of texts, not {show_value(item)}")
    if settings["sessions"]["transcripts"] not in TRANSCRIPTS:
        value = show_value(settings["sessions"]["transcripts"])
        raise BadConfig(f"sessions.transcripts must be one of {', '.join(TRANSCRIPTS)}, not {value}")
    if settings["sessions"]["adopt"] not in ADOPT:
        value = show_value(settings["sessions"]["adopt"])
        raise BadConfig(f"sessions.adopt must be one of {', '.join(ADOPT)}, not {value}")
    disk = settings["disk"]
    if disk["low_water_bytes"] * 2 < disk["ballast_bytes"] * 3:
        raise BadConfig(
            f"disk.low_water_bytes ({disk['low_water_bytes']:,}) must be at least one and a half times "
            f"disk.ballast_bytes ({disk['ballast_bytes']:,}); or set both to 0 to disable the check"
        )
    for name, most in (("batch", 10_000), ("concurrency", 1_000)):
        if settings["streams"][name] > most:
            raise BadConfig(
                f"streams.{name} must be a whole number from 1 to {most:,}, not {settings['streams'][name]}"
            )
    for item in settings["sessions"]["transcriber"]:
        if not isinstance(item, str) or not item:
            raise BadConfig(f"sessions.transcriber must be a list of words, not {show_value(item)}")
    for item in settings["sessions"]["events"]:
        if item not in EVENT_TYPES:
            raise BadConfig(
                f"sessions.events has an unknown type {show_value(item)}; known are {', '.join(EVENT_TYPES)}"
            )


def build_config(settings: KnownJson) -> Config:
    """The settings with their values checked and read."""
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
        open_metrics=server["open_metrics"],
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
        deliver_sessions=settings["sessions"]["deliver"],
        adopt_sessions=settings["sessions"]["adopt"],
        transcriber=tuple(settings["sessions"]["transcriber"]),
        sinks=parse_sinks(settings["streams"]["sinks"]),
        fleet=parse_fleet(settings["fleet"]),
        archive_folder=_archive_folder(settings["retention"]["archive_folder"]),
        sign_every=int(settings["receipts"]["sign_every"]),
        sign_every_s=float(settings["receipts"]["sign_every_minutes"]) * 60,
        promote_at=PromoteAt(**{name: int(value) for name, value in settings["queue"]["promote_at"].items()}),
        sink_batch=int(settings["streams"]["batch"]),
        sink_streams=int(settings["streams"]["concurrency"]),
        sink_poll_s=float(settings["streams"]["poll_seconds"]),
        settings=settings,
    )


def _archive_folder(value: str) -> Path | None:
    if value and not Path(value).is_absolute():
        raise BadConfig("retention.archive_folder must be an absolute path, such as /var/lib/holdfast/archive")
    return Path(value) if value else None


def _retention(settings: Mapping[str, float | str]) -> Retention:
    days = {name: float(value) for name, value in settings.items() if name.endswith("_days")}
    return Retention(
        delivered_ms=round(days["delivered_days"] * _DAY_MS),
        inbound_ms=round(days["inbound_days"] * _DAY_MS),
        dead_ms=round(days["dead_days"] * _DAY_MS),
        dedup_ms=round(days["dedup_days"] * _DAY_MS),
        sessions_ms=round(days["sessions_days"] * _DAY_MS),
        streams_ms=round(days["streams_days"] * _DAY_MS),
        cursors_ms=round(days["cursors_days"] * _DAY_MS),
        archive=bool(settings["archive_folder"]),
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
        raise BadConfig(f"policies.{name} must be a mapping with schedule, attempts and lease, not {show_value(value)}")
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
