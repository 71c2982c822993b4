"""Contract: who wants which events, where. Criteria are joined by AND; a contract has exactly one address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache
from typing import Any, NamedTuple

from holdfast.domain.address import Address, parse_address
from holdfast.domain.errors import BadInput
from holdfast.domain.event import PROPERTIES_MAX, check_name, show
from holdfast.domain.retry import DEFAULT_POLICY, Policy

SOURCES = ("config", "api", "programmatic")
HIDDEN_SOURCES = ("hook",)
VALUES_MAX = 100
VALUE_MAX = 1024
SECRET_MAX = 1024
ID_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"

_ID = re.compile(ID_PATTERN)


class Terms(NamedTuple):
    """How deliveries of a queue are carried out."""

    policy: Policy
    timeout_s: float
    concurrency: int


DEFAULT_TIMEOUT_S = {"https": 30.0, "handler": 30.0, "session": 60.0}
DEFAULT_CONCURRENCY = {"https": 16, "handler": 32, "session": 1}


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition on one value.

    `match`: equal to the value or to one of a list. `pattern`: a case-sensitive wildcard (`*`, `?`, `[ab]`).
    Both given: both must hold. Neither, and required: the value must be there. `required: false` always passes.
    """

    match: str | tuple[str, ...] | None = None
    pattern: str | None = None
    required: bool = True

    def passes(self, value: Any) -> bool:
        if not self.required:
            return True
        if value is None:
            return False
        values = [_text(item) for item in value] if isinstance(value, list) else [_text(value)]
        if self.match is not None:
            wanted = (self.match,) if isinstance(self.match, str) else self.match
            if not any(item in wanted for item in values):
                return False
        if self.pattern is not None:
            found = _compiled(self.pattern).match
            return any(found(item) for item in values)
        return True

    def as_dict(self) -> dict[str, Any]:
        match = list(self.match) if isinstance(self.match, tuple) else self.match
        return {"match": match, "pattern": self.pattern, "required": self.required}


@dataclass(frozen=True, slots=True)
class Contract:
    """A subscription. Its signing secret is kept elsewhere and is never part of it."""

    id: str
    address: Address
    source_criterion: Criterion | None = None
    type_criterion: Criterion | None = None
    properties: Mapping[str, Criterion] = field(default_factory=dict)
    source: str = "api"
    active: bool = True
    created_at_ms: int = 0
    expires_at_ms: int | None = None
    policy: str | None = None
    attempts: int | None = None
    ordered: bool | None = None
    timeout_s: float | None = None
    concurrency: int | None = None

    @property
    def policy_name(self) -> str:
        return self.policy or DEFAULT_POLICY[self.address.kind]

    @property
    def is_ordered(self) -> bool:
        return self.ordered if self.ordered is not None else self.address.kind == "session"

    def terms(self, policies: Mapping[str, Policy]) -> Terms:
        policy = policies[self.policy_name]
        if self.attempts is not None:
            policy = replace(policy, attempts=self.attempts)
        kind = self.address.kind
        return Terms(
            policy,
            self.timeout_s or DEFAULT_TIMEOUT_S[kind],
            self.concurrency or DEFAULT_CONCURRENCY[kind],
        )

    def matches(self, source: str, type: str, properties: Mapping[str, Any], accepted_at_ms: int) -> bool:
        """Whether this contract wants the event. Expiry counts from when the event was accepted."""
        return next(self.misses(source, type, properties, accepted_at_ms), None) is None

    def misses(self, source: str, type: str, properties: Mapping[str, Any], accepted_at_ms: int) -> Iterator[str]:
        """Why this contract does not want the event: one sentence per criterion that fails."""
        if self.expires_at_ms is not None and accepted_at_ms >= self.expires_at_ms:
            yield "the contract had expired when the event was accepted"
        if self.source_criterion is not None:
            if not self.source_criterion.passes(source):
                yield f"source {show(source)} does not match"
        elif source in HIDDEN_SOURCES:
            yield f"source {show(source)} reaches a contract only if it names that source"
        if self.type_criterion is not None and not self.type_criterion.passes(type):
            yield f"type {show(type)} does not match"
        for name, criterion in self.properties.items():
            value = properties.get(name)
            if not criterion.passes(value):
                yield f"property {name!r} is {show(value)}, which does not match"


def parse_criterion(value: object, what: str) -> Criterion:
    """A criterion from JSON or YAML. A bare value is shorthand for `match`; anything unknown is an error."""
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - {"match", "pattern", "required"}, key=str)
        if unknown:
            raise BadInput(f"{what} has an unknown key {show(unknown[0])}: use match, pattern or required")
        match, pattern, required = value.get("match"), value.get("pattern"), value.get("required", True)
        if not isinstance(required, bool):
            raise BadInput(f"{what}.required must be true or false, not {show(required)}")
        if pattern is not None and (not isinstance(pattern, str) or not 0 < len(pattern) <= 200):
            raise BadInput(f"{what}.pattern must be a wildcard of 1 to 200 characters, not {show(pattern)}")
        return Criterion(_parse_match(match, what), pattern, required)
    if value is None:
        raise BadInput(f"{what} is empty: give a value to match, or a mapping with match, pattern or required")
    return Criterion(_parse_match(value, what))


def check_contract_id(value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise BadInput(f"contract id {show(value)} is not valid: use 1 to 128 letters, digits and . _ : -")
    return value


def parse_target(target: object) -> tuple[Address, str | None]:
    """The seed's `target` object: exactly one of url, handler, session; perhaps a secret."""
    if not isinstance(target, Mapping):
        raise BadInput("target must be an object with exactly one of url, handler or session")
    unknown = sorted(set(target) - {"url", "handler", "session", "secret"}, key=str)
    if unknown:
        raise BadInput(f"target has an unknown key {show(unknown[0])}: use url, handler or session, and secret")
    given = {kind: target[kind] for kind in ("url", "handler", "session") if target.get(kind) is not None}
    if len(given) != 1:
        raise BadInput("Exactly one of target.handler, target.url or target.session must be set")
    kind, value = next(iter(given.items()))
    if not isinstance(value, str):
        raise BadInput(f"target.{kind} must be text, not {show(value)}")
    address = parse_address(value if kind == "url" else f"{kind}:{value}")
    if kind == "url" and address.kind != "https":
        raise BadInput(f"target.url {show(value)} is not a URL: it must begin with https:// or http://")
    secret = target.get("secret")
    if secret is not None and (not isinstance(secret, str) or not 0 < len(secret) <= SECRET_MAX):
        raise BadInput(f"target.secret must be text of 1 to {SECRET_MAX} characters, or null")
    return address, secret


def parse_criteria(values: object, what: str) -> dict[str, Criterion]:
    if not isinstance(values, Mapping):
        raise BadInput(f"{what} must be an object of property names and criteria, not {show(values)}")
    if len(values) > PROPERTIES_MAX:
        raise BadInput(f"{what} has {len(values)} names; an event has at most {PROPERTIES_MAX}")
    return {check_name(name, "a property's name"): parse_criterion(v, f"{what}.{name}") for name, v in values.items()}


def _parse_match(match: object, what: str) -> str | tuple[str, ...] | None:
    if match is None:
        return None
    if isinstance(match, list):
        if not match or len(match) > VALUES_MAX:
            raise BadInput(f"{what}.match must list 1 to {VALUES_MAX} values; an empty list would never match")
        return tuple(_match_text(item, what) for item in match)
    return _match_text(match, what)


def _match_text(value: object, what: str) -> str:
    if not isinstance(value, str | int | float | bool):
        raise BadInput(f"{what}.match must be text, a number, true or false, or a list of them, not {show(value)}")
    text = _text(value)
    if len(text) > VALUE_MAX:
        raise BadInput(f"{what}.match is {len(text)} characters long; the limit is {VALUE_MAX}")
    return text


def _text(value: object) -> str:
    """A value as criteria see it: `true` in a file is True in an event, and 5 is "5"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def default_terms(kind: str, policies: Mapping[str, Policy]) -> Terms:
    """The terms of a direct address, which has no contract to say otherwise."""
    return Terms(policies[DEFAULT_POLICY[kind]], DEFAULT_TIMEOUT_S[kind], DEFAULT_CONCURRENCY[kind])
