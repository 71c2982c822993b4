"""What each kind of receiver is sent for an event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.domain.contract import FORMATS
from holdfast.domain.errors import TooLarge
from holdfast.domain.event import Event
from holdfast.egress.formats import DISCORD_MAX, SLACK_MAX, TELEGRAM_MAX, render, summary

URL = "https://example.com/hook"


def event(
    payload: Any = None, type: str = "agent.agent_stop", stream: str | None = "session:s1", **properties: Any
) -> Event:
    return Event(
        1, "evt_1", stream, 7, "agent", type, "2026-01-31T12:00:00Z", 0, json.dumps(properties), json.dumps(payload)
    )


def sent(format: str, payload: Any = None, url: str = URL, **more: Any) -> Any:
    return json.loads(render(format, None, event(payload, **more), url).data)


def test_raw_is_the_event_itself() -> None:
    one = event({"a": 1})
    for format in (None, "raw"):
        body = render(format, None, one, URL)
        assert body.data == one.body()
        assert body.content_type == "application/json"


def test_a_cloud_event_says_all_that_the_standard_asks_for() -> None:
    body = render("cloudevents", None, event({"a": 1}, repo="x", Big="no", ok=True), URL)
    assert body.content_type.startswith("application/cloudevents+json")
    assert json.loads(body.data) == {
        "specversion": "1.0", "id": "evt_1", "source": "agent", "type": "agent.agent_stop", "subject": "session:s1",
        "time": "2026-01-31T12:00:00Z", "datacontenttype": "application/json", "data": {"a": 1}, "seq": "7",
        "repo": "x", "ok": "true",
    }  # fmt: skip


def test_a_property_cannot_forge_a_field_of_the_standard() -> None:
    assert sent("cloudevents", id="forged", specversion="9")["id"] == "evt_1"


def test_chats_get_the_agents_last_words() -> None:
    said = {"last_answer": "All tests pass.", "cwd": "/src"}
    assert sent("slack", said, title="Mend the build") == {"text": "agent.agent_stop · Mend the build\nAll tests pass."}
    assert sent("discord", said) == {
        "content": "agent.agent_stop · session:s1\nAll tests pass.",
        "allowed_mentions": {"parse": []},
    }
    telegram = sent("telegram", said, url="https://api.telegram.org/bot1:x/sendMessage?chat_id=42")
    assert telegram["chat_id"] == "42"
    assert telegram["text"].endswith("All tests pass.")


def test_ntfy_gets_a_title_and_plain_words() -> None:
    body = render("ntfy", None, event({"text": "Grüße"}, title="Täglich"), URL)
    assert body.data.decode() == "Grüße"
    assert body.content_type == "text/plain; charset=utf-8"
    assert body.headers["Title"].isascii()


def test_nobody_is_pinged_by_what_an_agent_writes() -> None:
    assert sent("slack", {"text": "<!channel> & <@U1>"})["text"].endswith("&lt;!channel&gt; &amp; &lt;@U1&gt;")
    assert sent("discord", {"text": "@everyone"})["allowed_mentions"] == {"parse": []}


@pytest.mark.parametrize(("format", "field", "most"), [
    ("slack", "text", SLACK_MAX), ("discord", "content", DISCORD_MAX), ("telegram", "text", TELEGRAM_MAX),
])  # fmt: skip
def test_messages_keep_to_the_bounds_of_their_service(format: str, field: str, most: int) -> None:
    text = sent(format, {"text": "x" * 100_000}, title="y" * 5000)[field]
    assert len(text) <= most
    assert text.endswith("…")


def test_a_template_is_filled_in() -> None:
    template = (
        "{type} from {source}: {payload.user.name} did {payload.items.1} {payload.none}({properties.repo}) {other}"
    )
    body = render("template", template, event({"user": {"name": "Ann"}, "items": ["a", "b"]}, repo="r"), URL)
    assert body.data.decode() == "agent.agent_stop from agent: Ann did b (r) {other}"
    assert body.content_type.startswith("text/plain")


def test_a_json_template_stays_json_whatever_is_filled_in() -> None:
    template = '{"msg": "\\"{payload.text}\\"", "n": {seq}, "all": {payload}, "none": {payload.x}}'
    body = render("template", template, event({"text": 'say "hi"\n{'}), URL)
    assert json.loads(body.data) == {
        "msg": '"say "hi"\n{"', "n": 7, "all": {"text": 'say "hi"\n{'}, "none": None,
    }  # fmt: skip
    assert body.content_type == "application/json"


@pytest.mark.parametrize("payload", [None, "words", 5, [], {}, {"text": ""}, {"deep": [[1]]}, "\x1b[31mred\u202e"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_takes_every_payload(format: str, payload: Any) -> None:
    template = "{text}" if format == "template" else None
    one = event(payload, stream=None)
    assert render(format, template, one, URL) == render(format, template, one, URL)
    assert "\x1b" not in summary(one)


def test_a_source_of_any_name_is_a_uri_reference_in_a_cloud_event() -> None:
    for source, said in (("my app", "my%20app"), ("é|ü", "%C3%A9%7C%C3%BC"), ("https://a.example/x?y=1", None)):
        one = Event(1, "evt_1", None, 1, source, "a.b", "2026-01-31T12:00:00Z", 0, "{}", "null")
        assert json.loads(render("cloudevents", None, one, URL).data)["source"] == (said or source)


def test_a_template_is_sent_whole_or_not_at_all() -> None:
    most = event("x" * 1_000_000)
    for template in ('{"all": {payload}}', "all: {payload}"):
        assert len(render("template", template, most, URL).data) > 1_000_000
        with pytest.raises(TooLarge, match="the template makes a body of more than"):
            render("template", template.replace("{payload}", "[{payload}, {payload}, {payload}]"), most, URL)
