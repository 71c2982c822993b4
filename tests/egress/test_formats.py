"""What each kind of receiver is sent for an event."""

from __future__ import annotations

import json
from email.header import decode_header, make_header
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain_strategies import examples
from holdfast.domain.contract import FORMATS
from holdfast.domain.errors import TooLarge
from holdfast.domain.event import Event
from holdfast.egress.webhook.formats import DISCORD_MAX, SLACK_MAX, TELEGRAM_MAX, Body, render, summary
from holdfast.egress.webhook.shorten import ELLIPSIS, code_points, shorten, utf8_bytes, utf16_units

URL = "https://example.com/hook"
COMPONENTS = ["a", "&", "<", "😀", "é", "e\u0301", "👍🏽", "🇩🇪", "中", "\n", "\ud83d", "\x1b", '"', "\\"]
LONG_TEXT = st.builds(lambda part, times: part * times, st.sampled_from(COMPONENTS) | st.text(max_size=20),
                      st.integers(0, 5000))  # fmt: skip


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


def test_a_cloud_event_has_every_required_attribute() -> None:
    body = render("cloudevents", None, event({"a": 1}, repo="x", Big="no", ok=True), URL)
    assert body.content_type.startswith("application/cloudevents+json")
    assert json.loads(body.data) == {
        "specversion": "1.0", "id": "evt_1", "source": "agent", "type": "agent.agent_stop", "subject": "session:s1",
        "time": "2026-01-31T12:00:00Z", "datacontenttype": "application/json", "data": {"a": 1}, "seq": "7",
        "repo": "x", "ok": "true",
    }  # fmt: skip


def test_a_property_cannot_forge_a_field_of_the_standard() -> None:
    assert sent("cloudevents", id="forged", specversion="9")["id"] == "evt_1"


def test_chat_messages_contain_the_agents_last_answer() -> None:
    said = {"last_answer": "All tests pass.", "cwd": "/src"}
    assert sent("slack", said, title="Fix the build") == {"text": "agent.agent_stop · Fix the build\nAll tests pass."}
    assert sent("discord", said) == {
        "content": "agent.agent_stop · session:s1\nAll tests pass.",
        "allowed_mentions": {"parse": []},
    }
    telegram = sent("telegram", said, url="https://api.telegram.org/bot1:x/sendMessage?chat_id=42")
    assert telegram["chat_id"] == "42"
    assert telegram["text"].endswith("All tests pass.")


def test_ntfy_gets_a_title_and_plain_text() -> None:
    body = render("ntfy", None, event({"text": "Grüße"}, title="Täglich"), URL)
    assert body.data.decode() == "Grüße"
    assert body.content_type == "text/plain; charset=utf-8"
    assert body.headers["Title"].isascii()


def test_text_written_by_an_agent_mentions_no_user() -> None:
    assert sent("slack", {"text": "<!channel> & <@U1>"})["text"].endswith("&lt;!channel&gt; &amp; &lt;@U1&gt;")
    assert sent("discord", {"text": "@everyone"})["allowed_mentions"] == {"parse": []}


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def rendered(format: str, text: str, title: str) -> Body:
    return render(format, None, event({"text": text}, title=title), URL)


@examples
@given(text=LONG_TEXT, title=LONG_TEXT)
@example(text="😀" * 1500, title="")  # 1,500 characters, 6,000 bytes
@example(text="&" * 5000, title="<" * 500)  # each becomes five characters
@example(text="x" * 100_000, title="y" * 5000)
def test_every_message_fits_the_limit_of_its_service_in_its_own_unit(text: str, title: str) -> None:
    assert utf16(json.loads(rendered("slack", text, title).data)["text"]) <= SLACK_MAX
    assert len(json.loads(rendered("discord", text, title).data)["content"]) <= DISCORD_MAX
    assert utf16(json.loads(rendered("telegram", text, title).data)["text"]) <= TELEGRAM_MAX
    ntfy = rendered("ntfy", text, title)
    assert len(ntfy.data) < 4096  # a body of exactly 4,096 bytes is taken for an attachment
    assert ntfy.headers["Title"].isascii()
    assert len(str(make_header(decode_header(ntfy.headers["Title"]))).encode()) <= 512


@pytest.mark.parametrize(("format", "text"), [("ntfy", "😀" * 1500), ("slack", "&" * 1500), ("discord", "x" * 2000)])
def test_a_shortened_message_ends_with_an_ellipsis(format: str, text: str) -> None:
    body = rendered(format, text, "t" * 500).data
    shown = body.decode() if format == "ntfy" else next(iter(json.loads(body).values()))
    assert shown.endswith("…")


def test_a_message_for_slack_is_never_cut_inside_an_escape() -> None:
    text = json.loads(rendered("slack", "&" * 1500, "t").data)["text"]
    assert text.endswith("&amp;…")


@examples
@given(text=st.text(max_size=60) | LONG_TEXT, limit=st.integers(4, 60),
       cost=st.sampled_from([code_points, utf16_units, utf8_bytes]))  # fmt: skip
def test_a_shortened_text_fits_and_is_the_start_of_the_whole(text: str, limit: int, cost: Any) -> None:
    short = shorten(text, limit, cost)
    assert sum(map(cost, short)) <= limit
    assert short == text or (short.endswith(ELLIPSIS) and text.startswith(short[:-1]) and sum(map(cost, text)) > limit)


@pytest.mark.parametrize("grapheme", ["e\u0301", "👍🏽", "🇩🇪", "👩\u200d💻"])
@pytest.mark.parametrize("limit", range(5, 25))
def test_a_cut_splits_no_grapheme(grapheme: str, limit: int) -> None:
    kept = shorten(f"ab{grapheme}cd{grapheme}efghijklmnopqrstuvwxyz", limit, utf8_bytes)[:-1]
    assert "".join(kept.split(grapheme)).isalpha()


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


@pytest.mark.parametrize("bad", ["\x00", "\x1b", "\n", "\x7f", "\x85", "\ufdd0", "\ufffe", "\U0010ffff", "\ud83d"])
def test_a_cloud_event_carries_no_character_that_the_standard_forbids(bad: str) -> None:
    body = render("cloudevents", None, event({"text": f"a{bad}b"}, branch=f"a{bad}b", stream=f"s{bad}"), URL)
    shape = json.loads(body.data)
    assert shape["branch"] == "a\ufffdb"
    assert shape["subject"] == "s\ufffd"
    assert shape["data"] == {"text": "a\ufffdb" if bad == "\ud83d" else f"a{bad}b"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_lone_surrogate_in_a_payload_can_be_sent(format: str) -> None:
    template = '{"said": "{payload.text}", "all": {payload}}' if format == "template" else None
    assert render(format, template, event({"text": "cut \ud83d"}), URL).data.decode()
