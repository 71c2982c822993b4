"""Contract: which events go to which address. All criteria must match; a contract has exactly one address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

from holdfast.domain.address import KINDS, Address, address_of_target, one_of, parse_address
from holdfast.domain.errors import BadInput
from holdfast.domain.event import PROPERTIES_MAX, check_name
from holdfast.domain.json_value import Json
from holdfast.domain.lane import MESSAGES, SESSIONS
from holdfast.domain.ping import is_ping
from holdfast.domain.retry import Policy
from holdfast.domain.senders import Senders
from holdfast.domain.text import short_repr

SOURCES = ("config", "api", "programmatic")
HIDDEN_SOURCES = ("hook", "inbound")
HOLDFAST_SOURCE = "holdfast"
VALUES_MAX = 100
NAMED_MAX = 5
VALUE_MAX = 1024
SECRET_MAX = 1024
ID_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"

RATE_MAX = 1_000_000
RATE_LATE_US = 200_000  # how late a request may arrive without exceeding the rate at the receiver
HEADERS_MAX = 20
HEADER_VALUE_MAX = 4096
HEADERS_OWNED = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
        "accept-encoding", "content-encoding", "keep-alive", "proxy-authorization", "x-hook-signature",
    }
)  # fmt: skip
FORMATS = ("raw", "cloudevents", "slack", "discord", "telegram", "ntfy", "template")
TEMPLATE_MAX = 4000

_ID = re.compile(ID_PATTERN)
_RATE = re.compile(r"([0-9]{1,7})/(s|m|h)")
_PER_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[ -~]+")


class Terms(NamedTuple):
    """How deliveries of a queue are carried out."""

    policy: Policy
    timeout_s: float
    concurrency: int
    interval_us: int = 0  # between two requests to one address; 0: no limit


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition on one value.

    `match`: equal to the value or to one of a list. `pattern`: a case-sensitive wildcard (`*`, `?`, `[ab]`).
    With both, both must match. With neither, the value must be present. `required: false` always passes.
    """

    match: str | tuple[str, ...] | None = None
    pattern: str | None = None
    required: bool = True

    def passes(self, value: object) -> bool:
        if not self.required:
            return True
        if value is None:
            return False
        values = texts_of(value)
        return (self.match is None or _any_equal(values, self.match)) and (
            self.pattern is None or _any_matches(values, self.pattern)
        )

    def why(self, what: str, value: object) -> str:
        """Why a value does not pass, in one clause: the actual value and the expected one."""
        if value is None:
            return f"{what} is missing; expected {self._expected()}"
        values = texts_of(value)
        if self.match is not None and not _any_equal(values, self.match):
            verb = "which does not contain" if isinstance(value, list) else "not"
            return f"{what} is {short_repr(value)}, {verb} {_named(self.match)}"
        return f"{what} is {short_repr(value)}, which does not match the pattern {short_repr(self.pattern)}"

    def _expected(self) -> str:
        parts = [] if self.match is None else [_named(self.match)]
        if self.pattern is not None:
            parts.append(f"the pattern {short_repr(self.pattern)}")
        return " and ".join(parts) or "any value"

    def as_dict(self) -> dict[str, Json]:
        match: Json = list(self.match) if isinstance(self.match, tuple) else self.match
        return {"match": match, "pattern": self.pattern, "required": self.required}


@dataclass(frozen=True, slots=True)
class Contract:
    """A subscription. Its signing secret is stored apart and is never part of it."""

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
    rate: str | None = None
    headers: tuple[str, ...] = ()  # the names; their values are stored with the secret
    format: str | None = None
    template: str | None = None
    retry_on: tuple[int, ...] = ()
    session: str | None = None  # the session whose agent gets the events as messages; its address is `MESSAGES`
    senders: Senders | None = None  # whose events may become messages
    registered_by: str | None = None  # the module whose code registered it
    retired: bool = False  # disabled because that code no longer registers it
    fault: str | None = None  # why its stored form cannot be read; then its other fields are defaults

    @property
    def target(self) -> Address:
        """The address as its author wrote it. A contract for a session is delivered to the handler `messages`."""
        return self.address if self.session is None else Address("session", f"session:{self.session}")

    @property
    def policy_name(self) -> str:
        return self.policy or KINDS["session" if self.session is not None else self.address.kind].policy

    @property
    def is_ordered(self) -> bool:
        by_default = KINDS[self.address.kind].ordered or self.address.text == SESSIONS or self.session is not None
        return self.ordered if self.ordered is not None else by_default

    def is_expired(self, at_ms: int) -> bool:
        """Whether the contract had expired at that time."""
        return self.expires_at_ms is not None and at_ms >= self.expires_at_ms

    def terms(self, policies: Mapping[str, Policy]) -> Terms:
        policy = policies[self.policy_name]
        if self.attempts is not None:
            policy = replace(policy, attempts=self.attempts)
        kind = KINDS[self.address.kind]
        return Terms(
            policy,
            self.timeout_s or kind.timeout_s,
            self.concurrency or kind.concurrency,
            0 if self.rate is None or self.session is not None else parse_rate(self.rate),
        )

    def matches(self, source: str, type: str, properties: Mapping[str, object], accepted_at_ms: int) -> bool:
        """Whether the event matches. Expiry is compared with the time when the event was accepted."""
        return next(self._failed_criteria(source, type, properties, accepted_at_ms), None) is None

    def mismatches(
        self, source: str, type: str, properties: Mapping[str, object], accepted_at_ms: int
    ) -> Iterator[str]:
        """Why the event does not match: one clause per criterion that fails."""
        for what, value, criterion in self._failed_criteria(source, type, properties, accepted_at_ms):
            yield what if criterion is None else criterion.why(what, value)

    def _failed_criteria(
        self, source: str, type: str, properties: Mapping[str, object], accepted_at_ms: int
    ) -> Iterator[tuple[str, object, Criterion | None]]:
        """The part that fails, its value and the criterion. Without a criterion the first item is the full reason."""
        if self.fault is not None:
            yield self.fault, None, None
        if self.is_expired(accepted_at_ms):
            yield "the contract had expired when the event was accepted", None, None
        if is_ping(source, type):
            if properties.get("contract") != self.id:
                yield "a ping reaches only the contract that it names", None, None
            return
        if self.source_criterion is not None:
            if not self.source_criterion.passes(source):
                yield "source", source, self.source_criterion
        elif source in HIDDEN_SOURCES:
            yield f"source {short_repr(source)} reaches a contract only if it names that source", source, None
        elif source == HOLDFAST_SOURCE and not self._names_system_events():
            yield (
                f"source {short_repr(source)} reaches a contract only if it names it, or a type {HOLDFAST_SOURCE}.…",
                source,
                None,
            )
        if self.type_criterion is not None and not self.type_criterion.passes(type):
            yield "type", type, self.type_criterion
        for name, criterion in self.properties.items():
            value = properties.get(name)
            if not criterion.passes(value):
                yield f"property {short_repr(name)}", value, criterion

    def _names_system_events(self) -> bool:
        """Whether the type criterion names Holdfast's own events.

        A contract for all events does not get them: some are about its own deliveries, which would make a loop.
        """
        criterion = self.type_criterion
        if criterion is None:
            return False
        types = (criterion.match,) if isinstance(criterion.match, str) else criterion.match or ()
        return any(text.startswith(HOLDFAST_SOURCE) for text in (*types, criterion.pattern or ""))


def parse_criterion(value: object, what: str) -> Criterion:
    """A criterion from JSON or YAML. A bare value is short for `match`; unknown keys are an error."""
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - {"match", "pattern", "required"}, key=str)
        if unknown:
            raise BadInput(f"{what} has an unknown key {short_repr(unknown[0])}: use match, pattern or required")
        match, pattern, required = value.get("match"), value.get("pattern"), value.get("required", True)
        if not isinstance(required, bool):
            raise BadInput(f"{what}.required must be true or false, not {short_repr(required)}")
        if pattern is not None and (not isinstance(pattern, str) or not 0 < len(pattern) <= 200):
            raise BadInput(f"{what}.pattern must be a wildcard of 1 to 200 characters, not {short_repr(pattern)}")
        return Criterion(_parse_match(match, what), pattern, required)
    if value is None:
        raise BadInput(f"{what} is empty: give a value to match, or a mapping with match, pattern or required")
    return Criterion(_parse_match(value, what))


def parse_rate(value: object) -> int:
    """The microseconds between two requests at a rate such as `10/s`, `90/m` or `1000/h`.

    Slightly longer than an even share: if one request arrives late and the tenth after it on time, the receiver must
    still count no more than ten in any second.

    >>> parse_rate("10/s")
    120000
    """
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    count = int(match[1]) if match else 0
    if match is None or not 1 <= count <= RATE_MAX:
        raise BadInput(f"rate must be a number of requests per s, m or h, such as 10/s, not {short_repr(value)}")
    return max(1, (_PER_US[match[2]] + RATE_LATE_US) // count)


def for_session(contract: Contract, senders: Senders, template: str | None = None, rate: str | None = None) -> Contract:
    """The contract whose events become messages for the session in its address.

    The handler `messages` gets them: it checks the sender and finds the session.
    """
    name, handler = contract.address.name, parse_address(MESSAGES)
    return replace(contract, address=handler, session=name, senders=senders, template=template, rate=rate)


def check_headers(value: object) -> dict[str, str]:
    """Headers of a contract's requests. Headers that the protocol, the client or the signature set are rejected."""
    if not isinstance(value, Mapping) or len(value) > HEADERS_MAX:
        raise BadInput(f"headers must be an object of at most {HEADERS_MAX} names and texts")
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise BadInput(f"headers: {short_repr(name)} is not a valid header name")
        if name.lower() in HEADERS_OWNED or name.lower().startswith("webhook-"):
            raise BadInput(f"headers: {name} is set by Holdfast itself; leave it out")
        if not isinstance(text, str) or not 0 < len(text) <= HEADER_VALUE_MAX or not _HEADER_VALUE.fullmatch(text):
            raise BadInput(f"headers: the value of {name} must be 1 to {HEADER_VALUE_MAX} printable ASCII characters")
    if len({name.lower() for name in value}) < len(value):
        raise BadInput("headers: a name is given twice")
    return dict(value)


def check_contract_id(value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise BadInput(f"contract id {short_repr(value)} is not valid: use 1 to 128 letters, digits and . _ : -")
    return value


def parse_target(target: object) -> tuple[Address, str | None]:
    """A contract's `target` object: the address under the key of its kind (`url`, `handler`, …), perhaps a secret."""
    keys = [kind.key for kind in KINDS.values()]
    if not isinstance(target, Mapping):
        raise BadInput(f"target must be an object with exactly one of {one_of(keys)}")
    unknown = sorted(set(target) - {*keys, "secret"}, key=str)
    if unknown:
        raise BadInput(f"target has an unknown key {short_repr(unknown[0])}: use {one_of(keys)}, and secret")
    given = {key: target[key] for key in keys if target.get(key) is not None}
    if len(given) != 1:
        raise BadInput(f"Exactly one of {one_of(f'target.{key}' for key in keys)} must be set")
    key, value = next(iter(given.items()))
    if not isinstance(value, str):
        raise BadInput(f"target.{key} must be text, not {short_repr(value)}")
    address = address_of_target(key, value)
    secret = target.get("secret")
    if secret is not None and (not isinstance(secret, str) or not 0 < len(secret) <= SECRET_MAX):
        raise BadInput(f"target.secret must be text of 1 to {SECRET_MAX} characters, or null")
    return address, secret


def parse_criteria(values: object, what: str) -> dict[str, Criterion]:
    if not isinstance(values, Mapping):
        raise BadInput(f"{what} must be an object of property names and criteria, not {short_repr(values)}")
    if len(values) > PROPERTIES_MAX:
        raise BadInput(f"{what} has {len(values)} names; an event has at most {PROPERTIES_MAX}")
    return {check_name(name, "a property name"): parse_criterion(v, f"{what}.{name}") for name, v in values.items()}


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
        raise BadInput(
            f"{what}.match must be text, a number, true or false, or a list of them, not {short_repr(value)}"
        )
    text = _text(value)
    if len(text) > VALUE_MAX:
        raise BadInput(f"{what}.match is {len(text)} characters long; the limit is {VALUE_MAX}")
    return text


def _text(value: object) -> str:
    """A value as criteria compare it: True is "true", 5 is "5"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def texts_of(value: object) -> list[str]:
    """A value as criteria compare it: one text, or one for each item of a list."""
    return [_text(item) for item in value] if isinstance(value, list) else [_text(value)]


def _any_equal(values: list[str], match: str | tuple[str, ...]) -> bool:
    allowed = (match,) if isinstance(match, str) else match
    return any(item in allowed for item in values)


def matches_wildcard(text: str, pattern: str) -> bool:
    """Whether a text matches a case-sensitive wildcard.

    >>> matches_wildcard("run:42", "run:*"), matches_wildcard("walk:42", "run:*")
    (True, False)
    """
    return _any_matches([text], pattern)


def _any_matches(values: list[str], pattern: str) -> bool:
    if "?" in pattern or "[" in pattern:
        found = _compiled(pattern).match
        return any(found(item) for item in values)
    return any(_matches_wildcard(item, pattern) for item in values)


def _matches_wildcard(text: str, pattern: str) -> bool:
    """Match a pattern with no wildcard but `*`, without compiling it: thousands of patterns need no cache."""
    first, *middle = pattern.split("*")
    if not middle:
        return text == first
    last = middle.pop()
    end = len(text) - len(last)
    at = len(first)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _named(match: str | tuple[str, ...]) -> str:
    """The values that a criterion matches, at most five of them."""
    if isinstance(match, str):
        return short_repr(match)
    shown = ", ".join(short_repr(value) for value in match[:NAMED_MAX])
    more = f" or {len(match) - NAMED_MAX} more" if len(match) > NAMED_MAX else ""
    return f"one of {shown}{more}"


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def default_terms(kind: str, policies: Mapping[str, Policy]) -> Terms:
    """The terms of a direct address, which has no contract."""
    defaults = KINDS[kind]
    return Terms(policies[defaults.policy], defaults.timeout_s, defaults.concurrency)
