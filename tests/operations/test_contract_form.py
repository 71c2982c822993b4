"""Contracts in written form: how they are read, and the message for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.config.contract_form import read_contract, read_subscription
from holdfast.domain.contract import Criterion
from holdfast.domain.errors import BadInput
from holdfast.domain.retry import POLICIES

NOW_MS = 1_700_000_000_000
URL = "https://example.com/hook"


def read(**more: Any) -> Any:
    return read_contract({"id": "c", "target": {"url": URL}, **more}, POLICIES, NOW_MS)


def test_every_option_is_read() -> None:
    contract, secret, headers = read(
        target={"url": URL, "secret": "s"}, source_criterion="shop", type_criterion={"pattern": "order.*"},
        properties={"country": ["NZ", "AU"] and {"match": ["NZ", "AU"]}}, ttl_seconds=60, policy="patient", attempts=3,
        ordered=True, timeout=5, concurrency=2, rate="10/s", headers={"X-Key": "k"}, format="slack",
        retry_on=[404, 409, 404], active=False,
    )  # fmt: skip
    assert (secret, headers) == ("s", {"X-Key": "k"})
    assert contract.source_criterion == Criterion("shop")
    assert contract.properties == {"country": Criterion(("NZ", "AU"))}
    assert contract.expires_at_ms == NOW_MS + 60_000
    assert (contract.rate, contract.headers, contract.format) == ("10/s", ("X-Key",), "slack")
    assert contract.retry_on == (404, 409)
    assert contract.active is False
    terms = contract.terms(POLICIES)
    assert (terms.policy.name, terms.policy.attempts, terms.interval_us) == ("patient", 3, 120_000)


def test_an_end_may_be_a_moment() -> None:
    assert read(expires_at="2023-11-14T22:13:21Z").contract.expires_at_ms == NOW_MS + 1000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": {}}, "Exactly one of"),
        ({"target": {"url": URL, "handler": "h"}}, "Exactly one of"),
        ({"target": {"url": "ftp://example.com"}}, "not an address"),
        ({"target": {"url": "handler:x"}}, "must begin with https"),
        ({"ttl_seconds": -1}, "positive"),
        ({"ttl_seconds": 5, "expires_at": "2030-01-01T00:00:00Z"}, "not both"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "in the past"),
        ({"expires_at": "soon"}, "expires_at 'soon' is not RFC 3339"),
        ({"rate": "10"}, "such as 10/s"),
        ({"rate": "0/s"}, "such as 10/s"),
        ({"rate": "10/d"}, "such as 10/s"),
        ({"headers": {"Host": "x"}}, "set by Holdfast"),
        ({"headers": {"webhook-id": "x"}}, "set by Holdfast"),
        ({"headers": {"X": "a\r\nY: b"}}, "printable ASCII"),
        ({"headers": {"X Y": "a"}}, "not a valid header name"),
        ({"headers": {"x": "1", "X": "2"}}, "twice"),
        ({"headers": ["x"]}, "must be an object"),
        ({"format": "yaml"}, "use one of raw"),
        ({"format": "template"}, "requires a template"),
        ({"template": "hi"}, "requires a template"),
        ({"format": "telegram"}, "needs the chat in the URL"),
        ({"format": "telegram", "target": {"url": f"{URL}?chat_id="}}, "needs the chat in the URL"),
        ({"retry_on": [500]}, "400 to 499"),
        ({"retry_on": [410]}, "400 to 499"),
        ({"retry_on": 404}, "400 to 499"),
        ({"retry_on": [True]}, "400 to 499"),
        ({"target": {"handler": "h"}, "rate": "1/s"}, "for targets of kind url"),
        ({"policy": "fast"}, "use one of"),
        ({"type_criterion": {"regex": "x"}}, "unknown key 'regex'"),
        ({"type_criterion": {"match": []}}, "would never match"),
        ({"tyep": "x"}, "unknown key 'tyep'"),
    ],
)
def test_a_mistake_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(**more)


def test_a_subscription_takes_criteria_as_the_file_writes_them() -> None:
    value = {
        "id": "notify",
        "contract": {"source": {"match": "system"}, "type": "error.error", "severity": {"pattern": "e*"}},
        "target": {"url": URL, "secret": "s"},
        "rate": "5/m",
    }
    contract, secret, _ = read_subscription(value, POLICIES, NOW_MS)
    assert (contract.source, secret, contract.rate) == ("config", "s", "5/m")
    assert contract.source_criterion == Criterion("system")
    assert contract.type_criterion == Criterion("error.error")
    assert contract.properties == {"severity": Criterion(pattern="e*")}


def test_properties_may_stand_under_their_own_name_too() -> None:
    value = {"id": "x", "contract": {"properties": {"repo": "a"}}, "target": {"handler": "h"}}
    assert read_subscription(value, POLICIES, NOW_MS).contract.properties == {"repo": Criterion("a")}


@pytest.mark.parametrize("name", ["typ", "types", "tpye", "Type", "TYPE", "tyle", "sourc", "sources", "propertes"])
def test_a_misspelled_criterion_is_not_taken_for_a_property(name: str) -> None:
    value = {"id": "x", "contract": {name: "order.placed"}, "target": {"handler": "h"}}
    with pytest.raises(BadInput, match=f"contract.{name}: did you mean (type|source|properties)\\?"):
        read_subscription(value, POLICIES, NOW_MS)


@pytest.mark.parametrize("name", ["severity", "event_type", "source_ip", "topic", "time"])
def test_another_name_is_a_property(name: str) -> None:
    value = {"id": "x", "contract": {name: "a"}, "target": {"handler": "h"}}
    assert read_subscription(value, POLICIES, NOW_MS).contract.properties == {name: Criterion("a")}


def test_a_property_with_a_name_like_a_criterion_is_written_among_the_properties() -> None:
    value = {"id": "x", "contract": {"type": "t", "properties": {"types": "a"}}, "target": {"handler": "h"}}
    assert read_subscription(value, POLICIES, NOW_MS).contract.properties == {"types": Criterion("a")}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "is a mapping with id"),
        ({"id": "x", "target": {"handler": "h"}, "contract": "everything"}, "must be a mapping of source"),
        ({"id": "x", "target": {"handler": "h"}, "when": {}}, "unknown key 'when'"),
        ({"id": "x"}, "no target"),
        ({"target": {"handler": "h"}}, "no id"),
    ],
)
def test_a_wrong_subscription_is_named(value: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_subscription(value, POLICIES, NOW_MS)
