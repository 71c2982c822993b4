"""The OpenAPI document and the code agree: schemas accept what the code accepts, answers are as declared."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import jsonschema_rs
import pytest

from holdfast.config.contract_form import read_contract
from holdfast.domain.address import parse_address
from holdfast.domain.errors import BadInput, TargetRefused
from holdfast.domain.retry import POLICIES
from holdfast.domain.substrate_receipt import parse_receipt
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import parse_event
from holdfast.net.guard import read_target
from holdfast.operations.answers.encode import encode
from holdfast.operations.answers.schema import Schemas
from holdfast.streams.live import View
from holdfast.surfaces.rest import value_schemas
from holdfast.surfaces.rest.openapi import describe, error_statuses
from holdfast.surfaces.rest.request_bodies import (
    CONTRACT,
    EVENT,
    EVENT_IDS,
    PAUSE,
    RECEIPT,
    SELECTION,
    read_event_ids,
    read_pause,
    read_selection,
)
from holdfast.surfaces.rest.router import Router, takes_actor
from holdfast.surfaces.rest.routes import OPERATIONS, Operation

DOCUMENT: dict[str, Any] = describe((), POLICIES)
NOW_MS = 1_700_000_000_000
HANDLER = {"handler": "ship"}
URL = {"url": "https://example.com/hook"}


def validator(schema: object) -> Any:
    """A validator of one schema, with the document's components."""
    return jsonschema_rs.validator_for({**schema, "components": DOCUMENT["components"]})  # type: ignore[dict-item]


def accepts(read: Any, body: object) -> bool:
    try:
        read(body)
    except BadInput:
        return False
    return True


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_an_operation_declares_exactly_the_arguments_of_its_verb(operation: Operation) -> None:
    if operation.id == "events_append":
        return  # the body is the event
    declared = {parameter.argument for parameter in operation.parameters} | set(operation.fixed)
    if operation.body is not None:
        declared |= BODY_ARGUMENTS[operation.id]
    if takes_actor(operation):
        declared.add("actor")
    declared |= {operation.raw} - {""}
    taken = inspect.signature(operation.verb).parameters.values()
    names = {parameter.name for parameter in taken if parameter.kind is not parameter.VAR_KEYWORD} - {"self"}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        names |= {"reason", "contract", "address", "stream", "event"}
        names |= {"state"} if operation.group == "deliveries" else set()
    assert declared == names


BODY_ARGUMENTS = {
    "replays_run": {"first", "last", "sink", "contract", "limit"},
    "messages_send": {"body"},
    "sessions_rebuild": {"ids", "all", "after", "limit"},
    "contracts_rebuild": {"after", "limit", "dry_run"},
    "sessions_name": {"name"},
    "sessions_bind": {"origin", "channel", "bound"},
    "sessions_attach": {"pane", "tmux"},
    "archives_replay": {"first", "last", "sink", "limit"},
    "events_route": {"ids"},
    "dead_letters_reprocess": {"ids", "filter", "all", "dry_run"},
    "dead_letters_discard": {"ids", "filter", "all", "dry_run"},
    "contracts_add": {"body"},
    "contracts_test": {"body"},
    "contracts_rotate": {"body"},
    "receipts_append": {"body"},
    "maintenance_pause": {"scope", "name"},
    "maintenance_resume": {"scope", "name"},
}


_SOURCE = {"source_system": "s", "source_table": "t", "source_id": "1", "action_type": "a"}


@pytest.mark.parametrize(
    ("more", "valid"),
    [
        ({}, True),
        ({"source_id": 7, "source_version": 3, "actor_kind": "agent", "actor_id": "me", "tenant_id": "x"}, True),
        ({"input": None, "output": {"a": [1]}}, True),
        ({"input_hash": "0" * 64, "output_hash": None, "output": 1}, True),
        ({"references": {"task": "1", "n": 2, "many": ["a", 1, None]}, "tenant_id": None}, True),
        ({"source_system": ""}, False),
        ({"source_table": None}, False),
        ({"source_id": 1.5}, False),
        ({"source_id": True}, False),
        ({"action_type": " a"}, False),
        ({"actor_kind": "god"}, False),
        ({"input": 1, "input_hash": "0" * 64}, False),
        ({"output_hash": "0" * 63}, False),
        ({"output_hash": "A" * 64}, False),
        ({"references": []}, False),
        ({"references": {"a": {}}}, False),
        ({"references": {"a": [[]]}}, False),
        ({"references": {"": 1}}, False),
        ({"h_self": "0" * 64}, False),
    ],
)
def test_the_schema_of_a_receipt_accepts_what_the_code_accepts(more: dict[str, object], valid: bool) -> None:
    body = {**_SOURCE, **more}
    accepted = accepts(lambda given: parse_receipt(given, "me"), body)
    assert (validator(RECEIPT).is_valid(body), accepted) == (valid, valid)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_an_operation_is_described_whole(operation: Operation) -> None:
    described = DOCUMENT["paths"][operation.path.replace(":path}", "}")][operation.method.lower()]
    assert set(described["responses"]) >= {str(status) for status in (400, 401, 403, 503, *error_statuses(operation))}
    assert ("requestBody" in described) == (operation.body is not None or bool(operation.raw))
    success = [response for status, response in described["responses"].items() if status in ("200", "201", "202")]
    assert success
    if get_type_hints(operation.verb)["return"] is View:
        assert [list(response["content"]) for response in success] == [["text/event-stream"]]
        return
    expected = Schemas().of(get_type_hints(operation.verb, include_extras=True)["return"])
    assert all(response["content"]["application/json"]["schema"] == expected for response in success)


def test_every_reference_in_the_document_leads_somewhere() -> None:
    def references(value: object) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(item) for item in value.values()))
        return set[str]().union(*(references(item) for item in value)) if isinstance(value, list) else set()

    names = {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)}
    assert names <= DOCUMENT["components"]["schemas"].keys()
    for name in names:
        validator({"$ref": f"#/components/schemas/{name}"})


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/events", ["GET", "POST"]),
        ("/api/events/route", ["POST"]),
        ("/hooks/contracts/{id}", ["DELETE", "GET"]),
    ],
)
def test_allow_lists_every_method_of_a_path(path: str, allowed: list[str]) -> None:
    assert Router(OPERATIONS, {"/api/events": ["POST"]}).allowed(path) == allowed


NAMES = ["a", "a b", "ü", " a", "a ", "", "\x1b", "\xa0", "a\u2028", "\U000e0bca", "x" * 255, "x" * 256, 5, None, []]
ADDRESSES = [
    "handler:ship", "handler:", "handler:1", "https://example.com", "https://example.com:443/x?y#", "https://", "ftp://x",
    "https://u@example.com/", "https://example.com/#x", "https://example.com:0/", "https://example.com:65535/",
    "https://example.com:65536/", "https://[::1]/", "https://a b/", "https://a\\b/", "session:s", "",
    "HTTPS://example.com", "Http://example.com", "Handler:ship",
]  # fmt: skip
EVENTS: list[object] = [
    {}, [], None, {"type": "a"}, {"type": ""}, {"type": "a b"}, {"type": "x" * 256}, {"type": 5}, {"type": "a", "z": 1},
    {"type": "a", "payload": {"x": [1, None]}}, {"type": "a", "properties": None}, {"type": "a", "properties": []},
    {"type": "a", "properties": {"x": {}}}, {"type": "a", "properties": {"x": ["y"]}},
    {"type": "a", "properties": {"x": [1]}}, {"type": "a", "properties": {" x": 1}},
    {"type": "a", "properties": {f"p{n}": n for n in range(65)}}, {"type": "a", "timestamp": "yesterday"},
    {"type": "a", "timestamp": "2026-01-31T12:00:00Z"}, {"type": "a", "timestamp": None},
    *({"type": "a", key: name} for key in ("source", "stream", "dedup_key") for name in NAMES),
    *({"type": "a", "to": address} for address in ADDRESSES),
]  # fmt: skip


@pytest.mark.parametrize("body", EVENTS, ids=short_repr)
def test_the_schema_of_an_event_accepts_what_the_code_accepts(body: object) -> None:
    assert validator(EVENT).is_valid(body) == accepts(parse_event, body)


CRITERIA: list[object] = [
    None, "x", 5, True, ["a", 1], [], ["x"] * 101, [[]], {}, {"match": None}, {"match": "x", "required": False},
    {"pattern": "a.*"}, {"pattern": ""}, {"pattern": "x" * 201}, {"required": None}, {"other": 1}, "x" * 1025,
]  # fmt: skip
OPTIONS: list[dict[str, object]] = [
    {}, {"id": "has space"}, {"id": None}, {"target": {}}, {"target": None}, {"target": {**URL, **HANDLER}},
    {"target": {**HANDLER, "url": None}}, {"target": {"session": "s"}}, {"target": {**HANDLER, "other": 1}},
    {"target": {**HANDLER, "secret": ""}}, {"target": {**HANDLER, "secret": "s"}},
    {"target": {**HANDLER, "secret": "whsec_!"}}, {"target": {**HANDLER, "secret": "whsec_YWJj"}},
    {"target": {**HANDLER, "secret": "whpk_x"}}, {"ttl_seconds": 0}, {"ttl_seconds": 1}, {"ttl_seconds": 1e12},
    {"expires_at": "2099-01-01T00:00:00Z"}, {"expires_at": "2099-01-01T00:00:00Z", "ttl_seconds": 1},
    {"expires_at": "soon"},
    {"attempts": 0}, {"attempts": 5.0}, {"attempts": 5.5}, {"attempts": 1001}, {"attempts": True},
    {"policy": "hook"}, {"policy": "sometimes"}, {"ordered": "yes"}, {"timeout": 3601}, {"timeout": 0.5},
    {"properties": []}, {"properties": {"a": "b"}}, {"properties": {"a": None}}, {"extra": 1},
    {"headers": {"X-A": "1"}},
    {"format": "raw"}, {"rate": "10/s"}, {"retry_on": [404]}, {"retry_on": None},
]  # fmt: skip
SENDING: list[dict[str, object]] = [
    {}, {"rate": "10/s"}, {"rate": "0/s"}, {"rate": "1000001/s"}, {"rate": "10/d"}, {"headers": {"X-A": "1"}},
    {"headers": {"Host": "x"}}, {"headers": {"WEBHOOK-id": "x"}}, {"headers": {"X-A": ""}}, {"headers": {"X A": "1"}},
    {"format": "raw"}, {"format": "rot13"}, {"format": "template"}, {"template": "x"}, {"format": "telegram"},
    {"format": "template", "template": "x"}, {"format": "raw", "template": "x"}, {"retry_on": [404, 409.0]},
    {"retry_on": [410]}, {"retry_on": [399]}, {"retry_on": 404}, {"retry_on": [404] * 51},
    {"format": "telegram", "target": {"url": "https://example.com/x?chat_id=1"}},
]  # fmt: skip
CONTRACTS: list[object] = [
    [], None, {}, *({"id": "c", "target": HANDLER, **options} for options in OPTIONS),
    *({"id": "c", "target": URL, **options} for options in SENDING),
    *({"id": "c", "target": HANDLER, "type_criterion": criterion} for criterion in CRITERIA),
]  # fmt: skip


@pytest.mark.parametrize("body", CONTRACTS, ids=short_repr)
def test_the_schema_of_a_contract_accepts_what_the_code_accepts(body: object) -> None:
    assert validator(CONTRACT).is_valid(body) == accepts(lambda value: read_contract(value, POLICIES, NOW_MS), body)


HOSTS = [
    "example.com", "EXAMPLE.com", "a", "_a._b", "a-b.c", "xn--bcher-kva.example", "example.com.", "1b", "a.1b",
    "0xg", "1.a", "1.2.3.4", "255.255.255.255", "1.2.3.4.", "[::1]", "[2001:db8::1]", "x" * 63, "x" * 64,
    ".".join(["x" * 49] * 5), ".".join(["x" * 63] * 4), ".".join(["x" * 60] * 4) + ".xyzxyzxyzx",
    "a..b", ".a", "-a", "a-", "a-.b", "a.-b", "a..",
    "1.2.3.256", "1.2.3.4.5", "a.1", "a.0x1f", "a.0X", "a.08", "a!b", "a*b", "a;b", "a,b", "a~b", "(a)", "'a'",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS, ids=short_repr)
@pytest.mark.parametrize("rest", ["", "/", ":8443/x", "?a=b"])
def test_the_schema_of_a_url_accepts_the_hosts_that_the_guard_can_read(host: str, rest: str) -> None:
    def read(url: object) -> None:
        parse_address(url)
        try:
            read_target(str(url))
        except TargetRefused as error:
            raise BadInput(error.message) from None

    url = f"https://{host}{rest}"
    assert validator(value_schemas.URL).is_valid(url) == accepts(read, url)


SELECTIONS: list[tuple[object, bool]] = [
    ({"ids": [1]}, True), ({"ids": ["1", 2.0], "filter": None}, True), ({"ids": [0], "all": False}, True),
    ({"ids": []}, False), ({"ids": [-1]}, False), ({"ids": [True]}, False), ({"ids": [1.5]}, False),
    ({"ids": list(range(1001))}, False), ({"ids": [1], "filter": {}}, False), ({"ids": [1], "all": True}, False),
    ({"filter": {}}, False), ({"filter": {"contract": None}}, False), ({"filter": {"contract": "c"}}, True),
    ({"filter": {"state": "dead"}}, False), ({"filter": {"state": "dead"}, "all": True}, True),
    ({"filter": {"state": "pending", "contract": "c"}}, False), ({"filter": {"reason": "rejected"}}, True),
    ({"filter": {"reason": "bored"}}, False), ({"filter": {"address": "https://x/…"}}, False),
    ({"filter": {"other": "x"}}, False), ({"all": True}, True), ({"all": False}, False), ({"all": 1}, False),
    ({"all": True, "filter": {}}, True), ({"all": True, "filter": {"contract": "c"}}, False), ({}, False), ([], False),
    ({"ids": [1], "dry_run": True}, True), ({"ids": [1], "dry_run": ""}, False), ({"ids": [1], "more": 1}, False),
]  # fmt: skip


@pytest.mark.parametrize(("body", "valid"), SELECTIONS, ids=short_repr)
async def test_the_schema_of_a_selection_accepts_what_the_code_accepts(body: object, valid: bool) -> None:
    from holdfast.operations.dead_letters import DeadLetterVerbs

    class Operator:
        async def delivery(self, id: int) -> None: ...

        async def dead_ids(self, wanted: object, limit: int) -> list[int]:
            return []

    verbs = object.__new__(DeadLetterVerbs)
    verbs._store, verbs._owner = type("Store", (), {"operator": Operator()})(), None  # type: ignore[assignment]
    try:
        chosen: dict[str, Any] = read_selection(body)
        await verbs._choose(chosen["ids"], chosen["filter"], chosen["all"])
        accepted = True
    except BadInput:
        accepted = False
    assert (validator(SELECTION).is_valid(body), accepted) == (valid, valid)


@pytest.mark.parametrize(
    ("schema", "read", "body", "valid"),
    [
        (EVENT_IDS, read_event_ids, {"ids": ["e"]}, True),
        (EVENT_IDS, read_event_ids, {"ids": [1]}, False),
        (EVENT_IDS, read_event_ids, {"ids": None}, False),
        (EVENT_IDS, read_event_ids, {}, False),
        (PAUSE, read_pause, {"scope": "lane", "name": "l"}, True),
        (PAUSE, read_pause, {"scope": "address", "name": "handler:h"}, True),
        (PAUSE, read_pause, [], False),
        (PAUSE, read_pause, {"scope": "lane", "name": "l", "more": 1}, False),
    ],
)
def test_the_schemas_of_small_bodies_accept_what_the_code_accepts(
    schema: object, read: Any, body: object, valid: bool
) -> None:
    assert (validator(schema).is_valid(body), accepts(read, body)) == (valid, valid)


def test_an_optional_key_is_left_out_and_not_null() -> None:
    from holdfast.operations.answers.dead_letters import DeadLetterCount

    schemas = Schemas()
    reference = schemas.of(DeadLetterCount)
    schema = schemas.by_name[str(reference["$ref"]).rpartition("/")[2]]
    assert "by_queue_left_off" not in schema["required"]  # type: ignore[operator]
    assert schema["properties"]["by_queue_left_off"] == {"type": "integer"}  # type: ignore[index]
    assert encode(DeadLetterCount(0, {}, [])) == {"count": 0, "by_queue": {}, "groups": []}
