"""Normalizers of GitHub, WhatsApp, Slack, Stripe and Telegram: a payload becomes the event that contracts see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.ingress.webhook.platforms import PLATFORMS, platform_of
from normalized import about, made, message, one

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
    assert about(found) == {**properties, "delivery": "72d3162e"}
    assert platform_of("github", "x").delivery_id(payload, headers) == "72d3162e"


def test_github_as_a_form_is_the_same():
    headers = {"x-github-event": "push"}
    assert one("github", {"payload": json.dumps(PUSH)}, headers) == one("github", PUSH, headers)


def whatsapp(*values: Any, field: str = "messages") -> dict[str, Any]:
    metadata = {"display_phone_number": "15550001111", "phone_number_id": "106"}
    changes = [{"field": field, "value": {"messaging_product": "whatsapp", "metadata": metadata, **v}} for v in values]
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": changes}]}


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
    assert about(found) == {**common, **properties}


def test_whatsapp_every_message_and_status_of_a_request_is_an_event_of_its_own():
    status = {"id": "wamid.1", "status": "failed", "timestamp": "1790000001", "recipient_id": "49151",
              "errors": [{"code": 131047}]}  # fmt: skip
    payload = whatsapp(
        {"messages": [message("text", text={"body": "a"}), message("text", text={"body": "b"})]}, {"statuses": [status]}
    )
    found = made("whatsapp", payload)
    assert [event.type for event in found] == ["whatsapp.message.text"] * 2 + ["whatsapp.status.failed"]
    assert about(found[2]) == {
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
    assert about(found) == {
        "event": "message", "team": "T1", "channel": "C1", "user": "U1", "text": "hello", "ts": "1790000000.000100",
        "thread_ts": "1789.1", "app": "A1", "event_id": "Ev1", "message_id": "1790000000.000100",
    }  # fmt: skip
    assert found.payload == {key: value for key, value in SLACK_MESSAGE.items() if key != "token"}
    bot = {**SLACK_MESSAGE, "event": {**SLACK_MESSAGE["event"], "subtype": "bot_message", "bot_id": "B1"}}
    assert one("slack", bot).type == "slack.event.message.bot_message"
    reaction = {"type": "reaction_added", "user": "U1", "item": {"channel": "C9"}}
    assert one("slack", {**SLACK_MESSAGE, "event": reaction}).stream == "slack:T1:C9"


def test_slack_forms():
    pressed = one("slack", {"payload": json.dumps(SLACK_BUTTON)})
    assert (pressed.type, pressed.stream) == ("slack.interactive.block_actions", "slack:T1:C1")
    assert about(pressed) == {"team": "T1", "channel": "C1", "user": "U1", "action": "approve", "value": "42"}
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
    assert about(found) == {
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
    assert (found.source, found.type, about(found)) == ("telegram", type, {"update_id": 99, **properties})
    where = properties.get("chat") or properties.get("user")
    assert found.stream == (f"telegram:{where}" if where else "telegram")
    assert PLATFORMS["telegram"].delivery_id(payload, {}) == "99"
