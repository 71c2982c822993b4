"""A request between its verification and its events: what is kept, what makes it the same, what is derived."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.canonical import BYTES_MAX, dump_json
from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import BadJson, Reject, RetryAfter, TooLarge
from holdfast.domain.event import Event, NewEvent
from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook import InboundSource, conflict_event, key_of, normalize, normalizing, raw_event
from holdfast.ingress.webhook.content import FORM, read_content, restored, stored
from holdfast.ingress.webhook.headers import Headers
from holdfast.ingress.webhook.platforms import KEPT_HEADERS, PLATFORMS, find_normalizer

SOURCE = InboundSource("gh", "/hooks/gh", "github", None)
HEADERS = [
    (b"content-type", b"application/json"),
    (b"x-github-event", b"push"),
    (b"X-GitHub-Delivery", b"d-1"),
    (b"x-hub-signature-256", b"sha256=abc"),
    (b"authorization", b"Bearer canary"),
    (b"cookie", b"canary"),
    (b"user-agent", b"GitHub-Hookshot/1"),
]
PUSH = b'{"ref":"refs/heads/main","repository":{"full_name":"o/r"}}'


def keep(body: bytes, headers: list[tuple[bytes, bytes]] = HEADERS, source: InboundSource = SOURCE) -> NewEvent:
    return raw_event(source, Headers(headers), body)[0]


def as_stored(event: NewEvent, id: str = "evt_1") -> Event:
    """What the store would give back."""
    return Event(
        1, id, event.stream, 1, event.source, event.type, "2026-01-01T00:00:00.000Z", 0, event.properties.decode(),
        event.payload.decode(), event.to,
    )  # fmt: skip


def test_the_raw_event_keeps_the_bytes_and_only_headers_that_are_no_secrets():
    event = keep(PUSH)
    assert (event.source, event.type, event.stream, event.to) == (
        "inbound", "inbound.gh", "inbound:gh", "handler:inbound.gh",
    )  # fmt: skip
    assert event.dedup_key == "gh:d-1"
    assert json.loads(event.properties) == {"name": "gh", "delivery_id": "d-1"}
    assert json.loads(event.payload) == {
        "headers": {"content-type": "application/json", "x-github-delivery": "d-1", "x-github-event": "push"},
        "content_type": "application/json",
        "body": PUSH.decode(),
        "body_encoding": "text",
    }


def test_further_headers_are_kept_on_request():
    source = InboundSource("gh", "/x", None, None, keep_headers=("user-agent", "x-hub-signature-256"))
    assert set(json.loads(keep(PUSH, source=source).payload)["headers"]) == {
        "content-type", "user-agent", "x-github-delivery", "x-github-event",
    }  # fmt: skip


def test_a_header_may_name_the_delivery():
    source = InboundSource("shop", "/x", None, None, id_header="x-shopify-webhook-id")
    headers = [(b"x-shopify-webhook-id", b"w-1")]
    assert keep(b"{}", headers, source).dedup_key == "shop:w-1"
    assert keep(b"{}", [], source).dedup_key is None
    assert keep(b"{}", [(b"webhook-id", b"m-1")], InboundSource("any", "/x", None, None)).dedup_key == "any:m-1"


def test_an_id_that_cannot_be_a_key_is_known_by_its_digest():
    assert key_of("n", "a") == "n:a"
    for odd in ("x" * 300, "tab\there", "ends "):
        assert key_of("n", odd).startswith("sha256:")
        assert key_of("n", odd) == key_of("n", odd)
    assert key_of("n", "x" * 300) != key_of("n", "x" * 301)


def test_a_second_body_under_an_id_is_kept_apart_once():
    first, second, third = keep(PUSH), keep(PUSH + b" "), keep(PUSH + b"  ")
    assert first.dedup_key == second.dedup_key
    apart = conflict_event(SOURCE, second)
    assert (apart.type, apart.to, apart.payload) == ("inbound.gh.conflict", None, second.payload)
    assert apart.dedup_key == conflict_event(SOURCE, keep(PUSH + b" ")).dedup_key
    assert apart.dedup_key not in (first.dedup_key, conflict_event(SOURCE, third).dedup_key)


@given(st.binary(max_size=3000))
def test_every_body_comes_back_as_it_was(body):
    headers, again = restored(json.loads(json.dumps({"headers": {"a": "b"}, **stored(body)})))
    assert (headers, again) == ({"a": "b"}, body)


ODD_BODIES = (
    b'{"id": "\\ud800"}',
    b'{"id": "\\u0000", "update_id": "\\t"}',
    b'{"entry": [{"changes": [{"value": {"messages": [3]}}]}]}',
    b'{"payload": "[]", "event_id": ""}',
    b'{"update_id": 1e999}',
    b'{"a": 1, "a": NaN}',
    b'\xef\xbb\xbf{"type": "x"}',
    b"[" * 90 + b"]" * 90,
    b"payload=%7B",
    b"payload=%00&id=%ff",
    b"payload=[1]",
    b"",
)
FIELDS = (
    "action", "createdAt", "data", "entry", "event", "event_id", "event_ts", "event_type", "eventId", "id", "object",
    "object_attributes", "object_kind", "occurredAt", "payload", "project", "subscriptionType", "type", "user",
)  # fmt: skip
ANY_TEXT = st.text(st.characters(), max_size=30) | st.sampled_from(["\ud83d", "\x00", "x" * 3000, "𐐷" * 3000])
ANY_LEAF = st.none() | st.booleans() | st.integers() | st.sampled_from([10**400, 10**20]) | st.floats() | ANY_TEXT
ANY_JSON = st.recursive(
    ANY_LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS) | ANY_TEXT, inner, max_size=25),
    max_leaves=30,
).map(lambda value: json.dumps(value).encode())
HEADER_NAMES = sorted({*(name.encode() for name in KEPT_HEADERS), b"x-any"} - {b"content-type"})


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(list(PLATFORMS)),
    st.binary(max_size=200) | ANY_JSON | st.sampled_from(ODD_BODIES),
    st.sampled_from([b"application/json", FORM.encode(), b"", b"\xff", b"text/plain; charset=utf-16"]),
    st.dictionaries(st.sampled_from(HEADER_NAMES), st.binary(max_size=50), max_size=5),
)
def test_any_bytes_are_stored_or_refused_and_stored_ones_become_events(platform, body, content_type, headers):
    source = InboundSource("any", "/x", platform, None)
    try:
        event, value = raw_event(source, Headers([(b"content-type", content_type), *headers.items()]), body)
    except (BadJson, TooLarge):  # 400 and 413
        return
    assert restored(json.loads(event.payload))[1] == body
    source.platform.reply(value, "secret")
    try:
        normalize("any", find_normalizer(platform, "any", {}), as_stored(event))
    except Reject as refused:  # never for what the bytes are, only for what no request of this platform is
        assert "payload must be a JSON object" in str(refused)  # noqa: PT017
    assert normalize("any", find_normalizer("json", "any", {}, "x-any", None), as_stored(event))


def test_a_normalizer_may_say_itself_how_it_ends():
    def later(payload, headers):
        raise RetryAfter(30)

    with pytest.raises(RetryAfter):
        one(later)


def test_a_body_of_the_largest_size_still_fits():
    body = json.dumps([{"quoted": '"' * 50}] * 9_000).encode()
    assert BYTES_MAX * 0.9 < len(body) < BYTES_MAX
    event = keep(body)
    assert json.loads(event.payload)["body_encoding"] == "zlib+base64"
    assert restored(json.loads(event.payload))[1] == body


def test_a_request_that_cannot_be_compressed_enough_is_too_large():
    noise = random.Random(1).randbytes(BYTES_MAX // 2 - 100).hex()
    assert keep(json.dumps(noise).encode())  # text: as it is
    with pytest.raises(TooLarge):
        keep(
            b"a=" + random.Random(1).randbytes(BYTES_MAX - 100).replace(b"&", b"+"), [(b"content-type", FORM.encode())]
        )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{", "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b"a=1&b=2", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"<order/>", "not JSON"),
    ],
)
def test_malformed_json_is_refused_with_its_reason(body, complaint):
    with pytest.raises(BadJson, match=complaint):
        read_content(body, "application/json")


SAME = {"greeting": "Grüße 👋"}
JSON_TEXT = json.dumps(SAME, ensure_ascii=False)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (JSON_TEXT.encode("utf-8"), "application/json"),
        (JSON_TEXT.encode("utf-8-sig"), "application/json; charset=UTF-8"),
        (JSON_TEXT.encode("utf-16"), "application/json"),
        (JSON_TEXT.encode("utf-16-le"), "application/json"),
        (JSON_TEXT.encode("utf-16-be"), "text/json;charset=utf-16"),
        (JSON_TEXT.encode("utf-32"), ""),
        (JSON_TEXT.encode("utf-8"), "application/json; charset=iso-8859-1"),  # a wrong label is common
        (json.dumps(SAME).encode("ascii"), "application/json; charset=no-such-thing"),
        (b"  " + JSON_TEXT.encode("utf-8") + b"\r\n", "text/plain"),
        (JSON_TEXT.encode("utf-8"), FORM),  # curl -d, without a content type of its own
    ],
)
def test_json_is_read_in_every_encoding_it_comes_in(body, content_type):
    assert read_content(body, content_type) == SAME


def test_json_in_the_charset_that_is_named():
    assert read_content('"Grüße"'.encode("latin-1"), "application/json; charset=ISO-8859-1") == "Grüße"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"text": "cut \\ud83d"}', {"text": "cut \ufffd"}),
        (b'{"text": "\\ud83d\\ude00 whole"}', {"text": "😀 whole"}),
        (b'{"\\udc00": 1}', {"\ufffd": 1}),
        (b'{"text": "nul \\u0000"}', {"text": "nul \ufffd"}),
        (b'{"text": "raw\x00 \x01"}', {"text": "raw\ufffd \x01"}),
        (b'{"text": "cut \xf0\x9f"}', {"text": "cut \ufffd"}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": [NaN, Infinity, -Infinity, 1e999]}', {"a": ["NaN", "Infinity", "-Infinity", "1e999"]}),
        (b"[" + b"7" * 301 + b"]", [int("7" * 301)]),
        (b'["a \\\\ud83d", "b \\\\\\ud83d"]', ["a \\ud83d", "b \\\ufffd"]),
        (
            b'["\\ud83d\\ude00", "\\ude00\\ud83d", "\\ud83d\\ud83d\\ude00", "\\uD83D\\uDE00\\uDE00"]',
            ["😀", "\ufffd\ufffd", "\ufffd😀", "😀\ufffd"],
        ),
        (b"[" + b"7" * 5000 + b", -1]", ["7" * 5000, -1]),
        (b"[123456789012345678901234567890]", [123456789012345678901234567890]),
        (b"", {}),
        (b" \r\n", {}),
        (b"null", None),
    ],
)
def test_values_that_cannot_be_stored_are_repaired(body, value):
    assert read_content(body, "application/json") == value
    assert dump_json(read_content(body, "application/json"))


def test_a_deep_value_keeps_its_depths_as_text():
    value = read_content(b"[" * 70 + b'"x"' + b"]" * 70, "")
    for _ in range(64):
        (value,) = value
    assert json.loads(value) == [[[[[["x"]]]]]]


def test_a_body_with_a_text_type_is_an_event_too():
    assert read_content(b"<order id='1'/>", "application/xml") == "<order id='1'/>"
    assert read_content("Grüße".encode("latin-1"), "text/plain; charset=latin1") == "Grüße"
    assert read_content(b"\xff\x00", "text/plain") == "\ufffd\ufffd"


def test_forms_are_read_by_their_content_type():
    read = {"a": "1", "b": ["x y", "ü"], "c": ""}
    assert read_content(b"a=1&b=x+y&b=%C3%BC&c=", FORM + "; charset=utf-8") == read
    assert read_content(b"a=%FC", FORM + "; charset=iso-8859-1") == {"a": "ü"}


def test_a_form_that_is_not_well_formed_is_read_as_far_as_it_goes():
    assert read_content(b"flag&a=%zz&b=%ff&c=%00&&d=\xff", FORM) == {
        "flag": "", "a": "%zz", "b": "\ufffd", "c": "\ufffd", "d": "\ufffd",
    }  # fmt: skip
    with pytest.raises(BadJson, match="more than 1,000 fields"):
        read_content(b"&".join(b"a=1" for _ in range(1001)), FORM)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"[" + b"1e15," * 150_000 + b"1]", "application/json"),
        (b'"' + b"\x01" * 300_000 + b'"', "application/json"),
        (b"a=" + b"\xff" * 600_000, FORM),
    ],
)
def test_a_body_that_grows_beyond_the_limit_is_refused_at_the_door_and_not_later(body, content_type):
    with pytest.raises(TooLarge, match="the body, written as JSON, is"):
        read_content(body, content_type)


def test_normalizing_gives_the_events_as_effects_of_its_end():
    outcome = normalizing("gh", find_normalizer("github", "gh", {}))(as_stored(keep(PUSH)))
    assert isinstance(outcome, Delivered)
    (event,) = outcome.effects
    assert (event.source, event.type, event.stream) == ("github", "github.push", "github:o/r")
    assert event.timestamp == "2026-01-01T00:00:00.000Z"
    assert json.loads(event.payload) == json.loads(PUSH)
    assert event.to is None


def one(function: Any, body: bytes = b"{}", id: str = "evt_1") -> list[NewEvent]:
    return normalize("own", function, as_stored(keep(body), id))


def test_normalizing_again_gives_the_same_events_and_a_fixed_normalizer_new_ones():
    old = one(lambda payload, headers: HookEvent("own", "a"))[0]
    assert one(lambda payload, headers: HookEvent("own", "a"))[0] == old
    assert one(lambda payload, headers: HookEvent("own", "a"), id="evt_2")[0].dedup_key != old.dedup_key
    assert one(lambda payload, headers: HookEvent("own", "b"))[0].dedup_key != old.dedup_key
    keyed = [one(lambda payload, headers: HookEvent("own", "a", dedup_key="k"), id=id)[0] for id in ("evt_1", "evt_2")]
    assert keyed[0].dedup_key == keyed[1].dedup_key


def test_an_event_without_a_stream_is_in_the_line_of_its_source():
    assert one(lambda payload, headers: [HookEvent("own", "a"), HookEvent("own", "b", stream="s")])[0].stream == "own"
    assert one(lambda payload, headers: []) == []


def broken(payload, headers):
    return payload["no such key"]


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (broken, "the normalizer of own failed: KeyError: 'no such key'"),
        (lambda p, h: None, "returns HookEvent or a list of them, not None"),
        (lambda p, h: [{"type": "x"}], "returns HookEvent"),
        (lambda p, h: HookEvent("own", "bad type!"), "not a valid event type"),
        (lambda p, h: HookEvent("own", "a", payload={1, 2}), "not a JSON value"),
        (lambda p, h: HookEvent("own", "a", timestamp="soon"), "not RFC 3339"),
        (lambda p, h: HookEvent("own", "a", properties={"x": {}}), "property 'x'"),
        (lambda p, h: [HookEvent("own", "a")] * 1001, "1,001 events"),
        (lambda p, h: [HookEvent("own", "a", payload="x" * 1_000_000)] * 40, "40,000,080 bytes"),
    ],
)
def test_a_normalizer_that_fails_is_rejected_with_its_reason(function, complaint):
    with pytest.raises(Reject, match=complaint):
        one(function)


@pytest.mark.parametrize("payload", [None, {}, {"body": 3}, {"body": "x", "body_encoding": "rot13"},
                                     {"body": "!", "body_encoding": "base64"}])  # fmt: skip
def test_a_foreign_event_in_the_stream_is_rejected_too(payload):
    event = Event(1, "evt_1", "inbound:own", 1, "inbound", "inbound.own", "2026-01-01T00:00:00Z", 0, "{}",
                  json.dumps(payload))  # fmt: skip
    with pytest.raises(Reject):
        normalize("own", find_normalizer("json", "own", {}), event)
