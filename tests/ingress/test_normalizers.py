"""What becomes of a platform's request: type, properties, stream and time, for payloads as the platforms send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.event import check_properties, check_type, new_event
from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook.platforms import PLATFORMS, find_normalizer, platform_of


def made(key: str, payload: Any, headers: dict[str, str] | None = None, name: str | None = None) -> list[HookEvent]:
    found = find_normalizer(key, name or key, {})(payload, headers or {})
    events = found if isinstance(found, list) else [found]
    for event in events:  # whatever is made must be an event that can be appended
        new_event(
            event.type, event.payload, source=event.source, stream=event.stream, timestamp=event.timestamp,
            properties=event.properties,
        )  # fmt: skip
    return events


def one(key: str, payload: Any, headers: dict[str, str] | None = None, name: str | None = None) -> HookEvent:
    (event,) = made(key, payload, headers, name)
    return event


REPOSITORY = {"full_name": "octo/hello", "default_branch": "main"}
SENDER = {"login": "mona"}
PUSH = {"ref": "refs/heads/feature/x", "after": "a1b2", "repository": REPOSITORY, "sender": SENDER, "commits": []}
PULL = {
    "action": "opened",
    "number": 7,
    "pull_request": {"number": 7, "head": {"ref": "fix"}, "title": "Fix it"},
    "repository": REPOSITORY,
    "sender": SENDER,
}

GITHUB = [
    (
        "push", PUSH, "github.push",
        {"event": "push", "repo": "octo/hello", "sender": "mona", "ref": "refs/heads/feature/x", "branch": "feature/x"},
        "github:octo/hello",
    ),
    (
        "pull_request", PULL, "github.pull_request.opened",
        {"event": "pull_request", "action": "opened", "repo": "octo/hello", "sender": "mona", "branch": "fix",
         "number": 7},
        "github:octo/hello",
    ),
    (
        "ping", {"zen": "Keep it logically awesome.", "hook_id": 42, "hook": {}, "sender": SENDER}, "github.ping",
        {"event": "ping", "sender": "mona", "zen": "Keep it logically awesome.", "hook_id": "42"}, "github:mona",
    ),
    (
        "workflow_run",
        {"action": "completed", "workflow_run": {"head_branch": "main"}, "repository": REPOSITORY, "sender": SENDER,
         "organization": {"login": "octo"}},
        "github.workflow_run.completed",
        {"event": "workflow_run", "action": "completed", "repo": "octo/hello", "sender": "mona", "branch": "main",
         "organization": "octo"},
        "github:octo/hello",
    ),
    (
        "create", {"ref": "v1.0", "ref_type": "tag", "repository": REPOSITORY, "sender": SENDER}, "github.create",
        {"event": "create", "repo": "octo/hello", "sender": "mona", "ref": "v1.0"}, "github:octo/hello",
    ),
    ("something_new", {}, "github.something_new", {"event": "something_new"}, "github"),
    ("", {"x": 1}, "github.unknown", {"event": "unknown"}, "github"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "payload", "type", "properties", "stream"), GITHUB, ids=[row[2] for row in GITHUB])
def test_github(event, payload, type, properties, stream):
    headers = {"x-github-event": event, "x-github-delivery": "72d3162e"}
    found = one("github", payload, headers)
    assert (found.source, found.type, found.stream, found.payload) == ("github", type, stream, payload)
    assert found.properties == {**properties, "delivery": "72d3162e"}
    assert platform_of("github", "x").delivery_id(payload, headers) == "72d3162e"


def test_github_as_a_form_is_the_same():
    headers = {"x-github-event": "push"}
    assert one("github", {"payload": json.dumps(PUSH)}, headers) == one("github", PUSH, headers)


def whatsapp(*values: Any, field: str = "messages") -> dict[str, Any]:
    metadata = {"display_phone_number": "15550001111", "phone_number_id": "106"}
    changes = [{"field": field, "value": {"messaging_product": "whatsapp", "metadata": metadata, **v}} for v in values]
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": changes}]}


def message(kind: str, **more: Any) -> dict[str, Any]:
    return {"from": "+49 151 2345", "id": f"wamid.{kind}", "timestamp": "1790000000", "type": kind, **more}


WHATSAPP = [
    (message("text", text={"body": "hi"}), "text", {"text": "hi"}),
    (
        message("image", image={"id": "m1", "mime_type": "image/jpeg", "caption": "look"}), "image",
        {"text": "look", "media_id": "m1", "mime_type": "image/jpeg"},
    ),
    (
        message("audio", audio={"id": "m2", "mime_type": "audio/ogg; codecs=opus", "voice": True}), "voice",
        {"media_id": "m2", "mime_type": "audio/ogg; codecs=opus"},
    ),
    (message("audio", audio={"id": "m3", "mime_type": "audio/mpeg"}), "audio",
     {"media_id": "m3", "mime_type": "audio/mpeg"}),
    (message("sticker", sticker={"id": "m4"}), "sticker", {"media_id": "m4"}),
    (message("button", button={"text": "Yes", "payload": "y"}), "button", {"text": "Yes"}),
    (message("interactive", interactive={"type": "list_reply", "list_reply": {"id": "1", "title": "One"}}),
     "interactive", {"text": "One"}),
    (message("reaction", reaction={"message_id": "wamid.0", "emoji": "👍"}), "reaction", {"text": "👍"}),
    (message("text", text={"body": "re"}, context={"id": "wamid.9"}), "text", {"text": "re", "reply_to": "wamid.9"}),
    (message("hologram", hologram={}), "hologram", {}),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "kind", "properties"), WHATSAPP, ids=[str(i) for i in range(len(WHATSAPP))])
def test_whatsapp_messages(payload, kind, properties):
    found = one("whatsapp", whatsapp({"messages": [payload]}))
    assert (found.source, found.type, found.stream) == ("whatsapp", f"whatsapp.message.{kind}", "whatsapp:491512345")
    assert (found.timestamp, found.payload) == ("2026-09-21T14:13:20.000Z", payload)
    common = {"phone_number": "491512345", "message_id": payload["id"], "phone_number_id": "106"}
    assert found.properties == {**common, **properties}


def test_whatsapp_every_message_and_status_of_a_request_is_an_event_of_its_own():
    status = {"id": "wamid.1", "status": "failed", "timestamp": "1790000001", "recipient_id": "49151",
              "errors": [{"code": 131047}]}  # fmt: skip
    payload = whatsapp(
        {"messages": [message("text", text={"body": "a"}), message("text", text={"body": "b"})]}, {"statuses": [status]}
    )
    found = made("whatsapp", payload)
    assert [event.type for event in found] == ["whatsapp.message.text"] * 2 + ["whatsapp.status.failed"]
    assert found[2].properties == {
        "phone_number": "49151", "message_id": "wamid.1", "status": "failed", "error_code": "131047",
        "phone_number_id": "106",
    }  # fmt: skip
    assert (found[2].stream, found[2].dedup_key, found[0].dedup_key) == (
        "whatsapp:49151",
        "wamid.1/failed",
        "wamid.text",
    )


def test_other_whatsapp_changes_are_named_by_their_field():
    assert one("whatsapp", whatsapp({"event": "APPROVED"}, field="message_template_status_update")).type == (
        "whatsapp.message_template_status_update"
    )
    assert one("whatsapp", {"object": "whatsapp_business_account", "entry": []}).type == "whatsapp.unknown"


def test_whatsapp_a_batch_is_known_by_all_its_ids():
    ids = platform_of("whatsapp", "w").delivery_id
    a, b = message("text"), message("image")
    assert ids(whatsapp({"messages": [a]}), {}) == "wamid.text"
    both = ids(whatsapp({"messages": [a, b]}), {})
    assert both == ids(whatsapp({"messages": [a]}, {"messages": [b]}), {})
    assert both not in (None, "wamid.text", ids(whatsapp({"messages": [b, a]}), {}))
    sent, read = ({"id": "wamid.1", "status": state} for state in ("sent", "read"))
    assert ids(whatsapp({"statuses": [sent]}), {}) != ids(whatsapp({"statuses": [read]}), {})
    assert ids({"entry": []}, {}) is None


SLACK_MESSAGE = {
    "token": "old-secret", "team_id": "T1", "api_app_id": "A1", "type": "event_callback", "event_id": "Ev1",
    "event_time": 1790000000,
    "event": {"type": "message", "channel": "C1", "user": "U1", "text": "hello", "ts": "1790000000.000100",
              "thread_ts": "1789.1"},
}  # fmt: skip
SLACK_BUTTON = {
    "type": "block_actions", "token": "old-secret", "trigger_id": "13.37", "team": {"id": "T1"},
    "channel": {"id": "C1"}, "user": {"id": "U1"}, "actions": [{"action_id": "approve", "value": "42"}],
}  # fmt: skip
SLACK_COMMAND = {
    "token": "old-secret", "team_id": "T1", "channel_id": "C1", "user_id": "U1", "command": "/deploy",
    "text": "web now", "trigger_id": "13.38", "response_url": "https://hooks.slack.example/x",
}  # fmt: skip


def test_slack_events():
    found = one("slack", SLACK_MESSAGE)
    assert (found.source, found.type, found.stream) == ("slack", "slack.event.message", "slack:T1:C1")
    assert found.timestamp == "2026-09-21T14:13:20.000Z"
    assert found.properties == {
        "event": "message", "team": "T1", "channel": "C1", "user": "U1", "text": "hello", "ts": "1790000000.000100",
        "thread_ts": "1789.1", "app": "A1", "event_id": "Ev1",
    }  # fmt: skip
    assert found.payload == {key: value for key, value in SLACK_MESSAGE.items() if key != "token"}
    bot = {**SLACK_MESSAGE, "event": {**SLACK_MESSAGE["event"], "subtype": "bot_message", "bot_id": "B1"}}
    assert one("slack", bot).type == "slack.event.message.bot_message"
    reaction = {"type": "reaction_added", "user": "U1", "item": {"channel": "C9"}}
    assert one("slack", {**SLACK_MESSAGE, "event": reaction}).stream == "slack:T1:C9"


def test_slack_forms():
    pressed = one("slack", {"payload": json.dumps(SLACK_BUTTON)})
    assert (pressed.type, pressed.stream) == ("slack.interactive.block_actions", "slack:T1:C1")
    assert pressed.properties == {"team": "T1", "channel": "C1", "user": "U1", "action": "approve", "value": "42"}
    command = one("slack", SLACK_COMMAND)
    assert (command.type, command.stream) == ("slack.command.deploy", "slack:T1:C1")
    assert command.properties["text"] == "web now"
    assert "token" not in pressed.payload
    assert "token" not in command.payload
    assert one("slack", {"type": "brand_new"}).type == "slack.brand_new"
    assert one("slack", {"type": "url_verification", "challenge": "c", "token": "t"}).type == "slack.url_verification"


def test_slack_ids_and_answers():
    slack = PLATFORMS["slack"]
    assert slack.delivery_id(SLACK_MESSAGE, {}) == "Ev1"
    assert slack.delivery_id({"payload": json.dumps(SLACK_BUTTON)}, {}) == "13.37"
    assert slack.delivery_id({"payload": "{broken"}, {}) is None
    assert slack.answer({"type": "url_verification", "challenge": "c1"}) == {"challenge": "c1"}
    assert slack.answer(SLACK_MESSAGE) == {"status": "accepted"}
    assert slack.answer(SLACK_COMMAND) is None
    assert slack.answer({"payload": "{}"}) is None


def test_stripe():
    payload = {
        "id": "evt_1", "object": "event", "type": "invoice.paid", "created": 1790000000, "livemode": False,
        "api_version": "2026-01-01",
        "data": {"object": {"id": "in_1", "object": "invoice", "customer": "cus_1", "status": "paid"}},
    }  # fmt: skip
    found = one("stripe", payload)
    assert (found.source, found.type, found.stream) == ("stripe", "stripe.invoice.paid", "stripe:cus_1")
    assert found.properties == {
        "event_id": "evt_1", "event": "invoice.paid", "object": "invoice", "object_id": "in_1", "customer": "cus_1",
        "status": "paid", "livemode": False, "api_version": "2026-01-01",
    }  # fmt: skip
    assert PLATFORMS["stripe"].delivery_id(payload, {}) == "evt_1"
    customer = {**payload, "type": "customer.created", "data": {"object": {"id": "cus_1", "object": "customer"}}}
    assert one("stripe", customer).stream == "stripe:cus_1"
    thin = {"id": "evt_2", "type": "v1.billing.meter.error", "related_object": {"id": "mtr_1", "type": "billing.meter"}}
    assert (one("stripe", thin).stream, one("stripe", thin).type) == ("stripe:mtr_1", "stripe.v1.billing.meter.error")


CHAT = {"id": -100123, "type": "supergroup"}
PERSON = {"id": 7, "username": "mona"}
TELEGRAM = [
    (
        {"message": {"message_id": 5, "date": 1790000000, "chat": CHAT, "from": PERSON, "text": "/start@bot now"}},
        "telegram.message.text",
        {"chat": "-100123", "chat_type": "supergroup", "user": "7", "username": "mona", "message_id": "5",
         "text": "/start@bot now", "command": "/start"},
    ),
    (
        {"edited_message": {"message_id": 5, "date": 1790000000, "chat": CHAT, "from": PERSON, "photo": [{}],
                            "caption": "see"}},
        "telegram.edited_message.photo",
        {"chat": "-100123", "chat_type": "supergroup", "user": "7", "username": "mona", "message_id": "5",
         "text": "see"},
    ),
    (
        {"callback_query": {"id": "1", "from": PERSON, "data": "yes", "message": {"message_id": 6, "chat": CHAT}}},
        "telegram.callback_query",
        {"chat": "-100123", "chat_type": "supergroup", "user": "7", "username": "mona", "message_id": "6",
         "data": "yes"},
    ),
    ({"inline_query": {"id": "2", "from": PERSON, "query": "q"}}, "telegram.inline_query",
     {"user": "7", "username": "mona"}),
    ({"brand_new": {"x": 1}}, "telegram.brand_new", {}),
]  # fmt: skip


@pytest.mark.parametrize(("update", "type", "properties"), TELEGRAM, ids=[row[1] for row in TELEGRAM])
def test_telegram(update, type, properties):
    payload = {"update_id": 99, **update}
    found = one("telegram", payload)
    assert (found.source, found.type, found.properties) == ("telegram", type, {"update_id": 99, **properties})
    where = properties.get("chat") or properties.get("user")
    assert found.stream == (f"telegram:{where}" if where else "telegram")
    assert PLATFORMS["telegram"].delivery_id(payload, {}) == "99"


def test_discord():
    command = {
        "id": "111", "application_id": "222", "type": 2, "token": "needed-to-answer", "guild_id": "333",
        "channel_id": "444", "member": {"user": {"id": "555", "username": "mona"}}, "data": {"name": "deploy"},
    }  # fmt: skip
    found = one("discord", command)
    assert (found.type, found.stream, found.payload) == ("discord.interaction.command", "discord:444", command)
    assert found.properties == {
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
    assert found.properties == {"event": "user.created", "webhook_id": "msg_1"}
    assert one("standard", {"data": 1}, name="clerk").type == "clerk.received"
    assert one("standard", {"type": "a", "timestamp": "yesterday"}, name="clerk").timestamp is None


def test_any_json_is_received():
    found = one(
        "json", {"level": "high", "n": 3, "on": True, "deep": {"a": 1}, " bad ": 1, "long": "x" * 999}, name="ci"
    )
    assert (found.source, found.type, found.stream) == ("ci", "ci.received", None)
    assert found.properties == {"level": "high", "n": 3, "on": True, "long": "x" * 200}
    assert one("json", [1, 2], name="ci").payload == [1, 2]
    assert one("json", {f"k{i}": i for i in range(500)}, name="ci").properties.keys() == {f"k{i}" for i in range(20)}


def test_gitlab_events_by_kind_and_action():
    push = {
        "object_kind": "push", "ref": "refs/heads/main", "user_username": "mona",
        "project": {"path_with_namespace": "octo/hello"},
    }  # fmt: skip
    found = one("gitlab", push, {"x-gitlab-event": "Push Hook"})
    assert (found.type, found.stream) == ("gitlab.push", "gitlab:octo/hello")
    assert found.properties == {
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
