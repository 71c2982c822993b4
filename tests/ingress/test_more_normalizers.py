"""Normalizers of further platforms, of any JSON, and of the user's own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.event import check_properties, check_type
from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook.platforms import PLATFORMS, find_normalizer
from normalized import about, made, one


def test_discord():
    command = {
        "id": "111", "application_id": "222", "type": 2, "token": "needed-to-answer", "guild_id": "333",
        "channel_id": "444", "member": {"user": {"id": "555", "username": "mona"}}, "data": {"name": "deploy"},
    }  # fmt: skip
    found = one("discord", command)
    assert (found.type, found.stream, found.payload) == ("discord.interaction.command", "discord:444", command)
    assert about(found) == {
        "interaction_id": "111", "application": "222", "guild": "333", "channel": "444", "user": "555",
        "username": "mona", "command": "deploy",
    }  # fmt: skip
    discord = PLATFORMS["discord"]
    assert discord.delivery_id(command, {}) == "111"
    assert one("discord", {"id": "1", "type": 1}).type == "discord.ping"
    assert one("discord", {**command, "type": 99}).type == "discord.interaction.type_99"
    event = {"version": 1, "application_id": "222", "type": 1,
             "event": {"type": "APPLICATION_AUTHORIZED", "timestamp": "2026-01-01T00:00:00.5", "data": {}}}  # fmt: skip
    assert (one("discord", event).type, one("discord", event).timestamp) == (
        "discord.event.application_authorized", "2026-01-01T00:00:00.5Z",
    )  # fmt: skip
    answers = {1: {"type": 1}, 2: {"type": 5}, 3: {"type": 6}, 4: {"type": 8, "data": {"choices": []}}, 5: {"type": 5}}
    assert {kind: discord.answer({**command, "type": kind}) for kind in answers} == answers
    assert discord.answer(event) is None
    assert discord.answer({"version": 1, "application_id": "222", "type": 0}) is None


def test_standard_goes_by_the_name_of_its_source():
    payload = {"type": "user.created", "timestamp": "2026-01-01T00:00:00Z", "data": {"id": 1}}
    found = one("standard", payload, {"webhook-id": "msg_1"}, name="clerk")
    assert (found.source, found.type, found.timestamp) == ("clerk", "clerk.user.created", "2026-01-01T00:00:00Z")
    assert about(found) == {"event": "user.created", "webhook_id": "msg_1"}
    assert one("standard", {"data": 1}, name="clerk").type == "clerk.received"
    assert one("standard", {"type": "a", "timestamp": "yesterday"}, name="clerk").timestamp is None


def test_any_json_is_received():
    found = one(
        "json", {"level": "high", "n": 3, "on": True, "deep": {"a": 1}, " bad ": 1, "long": "x" * 999}, name="ci"
    )
    assert (found.source, found.type, found.stream) == ("ci", "ci.received", None)
    assert about(found) == {"level": "high", "n": 3, "on": True, "long": "x" * 200}
    assert one("json", [1, 2], name="ci").payload == [1, 2]
    assert one("json", {f"k{i}": i for i in range(500)}, name="ci").properties.keys() == {f"k{i}" for i in range(20)}


def test_gitlab_events_by_kind_and_action():
    push = {
        "object_kind": "push", "ref": "refs/heads/main", "user_username": "mona",
        "project": {"path_with_namespace": "octo/hello"},
    }  # fmt: skip
    found = one("gitlab", push, {"x-gitlab-event": "Push Hook"})
    assert (found.type, found.stream) == ("gitlab.push", "gitlab:octo/hello")
    assert about(found) == {
        "event": "Push Hook", "kind": "push", "project": "octo/hello", "user": "mona", "ref": "refs/heads/main",
        "branch": "main",
    }  # fmt: skip
    assert one("gitlab", {"event_name": "project_create"}, {"x-gitlab-event": "System Hook"}).type == (
        "gitlab.project_create"
    )
    assert one("gitlab", {}, {"x-gitlab-event": "Feature Flag Hook"}).type == "gitlab.feature_flag"
    assert PLATFORMS["gitlab"].delivery_id({}, {"idempotency-key": "i", "x-gitlab-event-uuid": "shared"}) == "i"


def test_twilio_messages_calls_and_streamed_events():
    status = one("twilio", {"MessageSid": "SM1", "MessageStatus": "delivered", "To": "+49", "From": "+1"})
    assert (status.type, status.stream) == ("twilio.message.delivered", "twilio:+49")
    call = one("twilio", {"CallSid": "CA1", "CallStatus": "ringing", "Direction": "inbound", "From": "+49", "To": "+1"})
    assert (call.type, call.stream) == ("twilio.call.ringing", "twilio:+49")
    assert one("twilio", {"Foo": "bar"}).type == "twilio.received"
    streamed = made("twilio", [
        {"type": "com.twilio.messaging.message.delivered", "id": "EZ1", "time": "2026-01-01T00:00:00Z",
         "data": {"messageSid": "SM1", "accountSid": "AC1"}},
        {"type": "com.twilio.voice.insights.call-summary", "id": "EZ2"},
    ])  # fmt: skip
    assert [event.type for event in streamed] == [
        "twilio.messaging.message.delivered", "twilio.voice.insights.call-summary",
    ]  # fmt: skip
    assert (streamed[0].dedup_key, streamed[0].timestamp) == ("EZ1", "2026-01-01T00:00:00Z")
    assert PLATFORMS["twilio"].answer({}) is None


def test_zendesk_events_and_the_requests_of_triggers():
    assert one("zendesk", {"ticket": 7}, {"x-zendesk-webhook-id": "w"}).type == "zendesk.received"
    assert one("zendesk", {"type": "incident", "subject": "Help"}).stream == "zendesk"
    assert one("zendesk", "<ticket id='7'/>").payload == "<ticket id='7'/>"


def test_linear_comments_are_in_the_stream_of_their_issue():
    comment = {"type": "Comment", "action": "create", "data": {"id": "c-1", "issueId": "i-1"}}
    assert (one("linear", comment).type, one("linear", comment).stream) == ("linear.comment.create", "linear:i-1")


def test_sentry_alerts_and_installations():
    alert = {"action": "triggered", "data": {"event": {"issue_id": "42"}, "triggered_rule": "Many errors"}}
    found = one("sentry", alert, {"sentry-hook-resource": "event_alert", "sentry-hook-timestamp": "1790000000"})
    assert (found.type, found.stream) == ("sentry.event_alert.triggered", "sentry:42")
    assert (found.properties["rule"], found.timestamp) == ("Many errors", "2026-09-21T14:13:20.000Z")
    installed = one(
        "sentry",
        {"action": "created", "data": {"installation": {"uuid": "u"}}},
        {"sentry-hook-resource": "installation"},
    )
    assert (installed.type, installed.stream) == ("sentry.installation.created", "sentry:u")


def test_the_name_of_the_event_may_come_from_a_header_or_a_field():
    received = find_normalizer(None, "shop", {}, type_header="x-topic")
    found = received({"id": 1}, {"x-topic": "Orders/Create!"})
    assert (found.type, found.properties) == ("shop.orders.create", {"id": 1, "event": "Orders/Create!"})
    assert received({"id": 1}, {}).type == "shop.received"
    by_field = find_normalizer("json", "board", {}, type_field="action.type")
    assert by_field({"action": {"type": "updateCard"}}, {}).type == "board.updatecard"
    assert by_field({"action": "other"}, {}).type == "board.received"
    assert by_field([1], {}).type == "board.received"


@pytest.mark.parametrize("platform", ["json", "slack", "sentry"])
@pytest.mark.parametrize("text", ["𐐷" * 5000, "\x01" * 5000, "ü" * 5000])
def test_properties_are_cut_to_the_size_limit_of_an_event(platform, text):
    payload: Any = {"huge": 10**200, **{f"key{i}": text for i in range(21)}}
    payload |= {"event": dict.fromkeys(("type", "text", "user", "channel", "ts", "title", "level"), text)}
    found = one(platform, payload)
    assert check_properties(found.properties)
    assert "huge" not in found.properties


@pytest.mark.parametrize("key", [key for key in PLATFORMS if key not in ("json", "zendesk")])
@pytest.mark.parametrize("payload", [[3], "text", 3, None, True])
def test_a_platform_sends_objects(key, payload):
    if key == "twilio" and isinstance(payload, list):
        return  # Event Streams come as a list
    with pytest.raises(BadInput, match="JSON object"):
        made(key, payload)


NAMES = (
    "action", "actor", "audio", "changes", "channel", "chat", "command", "created", "data", "detail", "entry", "errors",
    "event", "event_ts", "event_type", "field", "From", "from", "full_name", "id", "image", "installation", "issue",
    "message", "MessageSid", "messages", "number", "object", "object_attributes", "object_kind", "occurredAt",
    "payload", "project", "repository", "SmsStatus", "statuses", "subject", "subscriptionType", "team", "text",
    "timestamp", "type", "update_id", "user", "value",
)  # fmt: skip

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)

LEAF = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT

OBJECT = st.dictionaries(
    st.sampled_from(NAMES),
    st.recursive(
        LEAF,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
        max_leaves=15,
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(OBJECT, st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=20))
def test_no_object_however_odd_is_lost(payload, header):
    for key, platform in PLATFORMS.items():
        headers = {"x-github-event": header, "webhook-id": "m"}
        events = made(key, payload, headers, name="n")
        assert events
        assert all(check_type(event.type) and event.type.startswith((key, "n.")) for event in events)
        platform.delivery_id(payload, headers)
        platform.answer(payload)


def own(payload, headers):
    return HookEvent("own", "own.made", payload=payload)


def own_without_headers(payload):
    return [HookEvent("own", "own.made", payload=payload)]


NOT_A_FUNCTION = 3


def test_a_normalizer_of_ones_own_is_found_by_key_or_by_path(tmp_path, monkeypatch):
    (tmp_path / "my_hooks.py").write_text(
        "from holdfast import HookEvent\n"
        "def shout(payload):\n    return HookEvent('own', 'own.shouted', payload=payload)\n"
        "number = 3\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_normalizer("mine", "x", {"mine": own})({"a": 1}, {}).payload == {"a": 1}
    assert find_normalizer("mine", "x", {"mine": own_without_headers})({"a": 1}, {"h": "1"})[0].payload == {"a": 1}
    assert find_normalizer(None, "mine", {"mine": own}) is own
    assert find_normalizer("github", "x", {"github": own}) is own
    assert find_normalizer("my_hooks:shout", "x", {})({}, {}).type == "own.shouted"
    for path, complaint in [
        ("my_hooks:whisper", "no attribute"), ("no_such_hooks:f", "No module"), ("my_hooks:number", "not a function"),
        ("githb", "known are discord, github"),
    ]:  # fmt: skip
        with pytest.raises(BadConfig, match=complaint):
            find_normalizer(path, "x", {})
