"""Body formats: the event itself, a CloudEvent, a chat message, or the contract's own template.

Every format is a pure function of the event, so that each attempt sends the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from email.header import Header
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from holdfast.domain.errors import TooLarge
from holdfast.domain.event import Event
from holdfast.domain.json_value import Json, JsonObject, text_in
from holdfast.egress.webhook.shorten import shorten, utf8_bytes, utf16_units

TEXT_MAX = 1500
TITLE_MAX = 200
BODY_MAX = 2 * 1024 * 1024  # the largest event fits once
SLACK_MAX = 3000  # UTF-16 units, escapes included; Slack splits a longer text into several messages
DISCORD_MAX = 2000  # code points
TELEGRAM_MAX = 4096  # UTF-16 units
NTFY_MAX = 4095  # bytes of UTF-8; a body of 4,096 bytes becomes an attachment, which most servers refuse
NTFY_TITLE_MAX = 500  # bytes of UTF-8, before the header is encoded
TEXT_KEYS = ("text", "message", "last_answer", "last_assistant_message", "summary", "error", "prompt", "title")
FIELDS = ("id", "type", "source", "stream", "seq", "timestamp", "text", "properties", "payload")

_PLACEHOLDER = re.compile(r"\{((?:" + "|".join(FIELDS) + r")(?:\.[A-Za-z0-9_-]+)*)(?::([1-9][0-9]{0,5}))?\}")
_QUOTE = re.compile(r"\\.")
_ATTRIBUTE = re.compile(r"[a-z0-9]{1,20}")
_URI_SAFE = "/:?#@!$&'()*+,;=~"
_SLACK_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_CLOUD_TEXT = re.compile(  # not allowed in a CloudEvents 1.0 String: control characters, noncharacters, surrogates
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
    + "]"
)
_RESERVED = frozenset(
    {"specversion", "id", "source", "type", "datacontenttype", "dataschema", "subject", "time", "data", "seq"}
)


class Body(NamedTuple):
    """The bytes of a request, their content type, and headers that the format adds."""

    data: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


def render(format: str | None, template: str | None, event: Event, url: str) -> Body:
    """The body of the request for this event in this format."""
    if format is None or format == "raw":
        return Body(event.body())
    if format == "template":
        return _template(event, template or "")
    return _FORMATS[format](event, url)


def summary(event: Event) -> str:
    """An event as a chat message: type and title or stream on the first line, then the text of the payload."""
    about = event.properties.get("title") or event.properties.get("session_title")
    stream = event.stream if event.stream != event.id else None
    head = " · ".join(_clip(str(part), TITLE_MAX) for part in (event.type, about or stream) if part)
    text = _payload_text(event.payload)
    return f"{head}\n{text}" if text else head


def _payload_text(payload: Json) -> str:
    if isinstance(payload, str):
        return _clip(payload, TEXT_MAX)
    if isinstance(payload, dict):
        for name in TEXT_KEYS:
            text = (text_in(payload, name) or "").strip()
            if text:
                return _clip(text, TEXT_MAX)
    return "" if payload in (None, {}, []) else _clip(json.dumps(payload, ensure_ascii=False), TEXT_MAX)


def _clip(text: str, limit: int) -> str:
    """Shorten a text, and replace characters that a terminal or chat could interpret."""
    return shorten("".join(char if char.isprintable() or char in "\n\t" else " " for char in text[: limit + 1]), limit)


def _cloudevents(event: Event, url: str) -> Body:
    """CloudEvents 1.0, structured. Properties whose names it allows become extensions; a source is a URI reference.

    Characters that the standard forbids in an attribute are replaced by U+FFFD; `data` carries any text as it is.
    """
    shape: JsonObject = {
        name: _cloud_text(str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in event.properties.items()
        if _ATTRIBUTE.fullmatch(name) and name not in _RESERVED and isinstance(value, str | int | float | bool)
    }
    shape |= {
        "specversion": "1.0",
        "id": event.id,
        "source": quote(event.source, safe=_URI_SAFE),
        "type": _cloud_text(event.type),
        "time": event.timestamp,
        "seq": str(event.seq),
        "datacontenttype": "application/json",
        "data": event.payload,
    }
    if event.stream != event.id:
        shape["subject"] = _cloud_text(event.stream)
    return Body(_json(shape), "application/cloudevents+json; charset=utf-8")


def _cloud_text(text: str) -> str:
    return _NO_CLOUD_TEXT.sub("\ufffd", text)


def _slack(event: Event, url: str) -> Body:
    """Escaped after shortening, so that no escape is cut; each character costs the length of its escape."""
    text = shorten(summary(event), SLACK_MAX, lambda char: len(_SLACK_ESCAPES.get(char, "")) or utf16_units(char))
    return Body(_json({"text": "".join(_SLACK_ESCAPES.get(char, char) for char in text)}))


def _discord(event: Event, url: str) -> Body:
    return Body(_json({"content": shorten(summary(event), DISCORD_MAX), "allowed_mentions": {"parse": []}}))


def _telegram(event: Event, url: str) -> Body:
    """For `…/bot<token>/sendMessage?chat_id=…`: the chat id of the URL goes into the body too."""
    chat = telegram_chat(url)
    shape: JsonObject = {
        "text": shorten(summary(event), TELEGRAM_MAX, utf16_units),
        "disable_web_page_preview": True,
    }
    return Body(_json({**({"chat_id": chat} if chat else {}), **shape}))


def telegram_chat(url: str) -> str | None:
    """
    >>> telegram_chat("https://api.telegram.org/bot1:x/sendMessage?chat_id=42")
    '42'
    """
    found = parse_qs(urlsplit(url).query).get("chat_id")
    return found[0] if found else None


def _ntfy(event: Event, url: str) -> Body:
    head, _, text = summary(event).partition("\n")
    title = shorten(head, NTFY_TITLE_MAX, utf8_bytes)
    header = title if title.isascii() else Header(title, "utf-8", maxlinelen=1_000_000).encode()
    return Body(shorten(text or head, NTFY_MAX, utf8_bytes).encode(), "text/plain; charset=utf-8", {"Title": header})


def _template(event: Event, template: str) -> Body:
    """The contract's template. A JSON template gives JSON: values are escaped inside strings, encoded outside them."""
    is_json = _is_json(template)
    data = _encode(fill_template(event, template, is_json))
    return Body(data, "application/json" if is_json else "text/plain; charset=utf-8")


def fill_template(event: Event, template: str, is_json: bool = False) -> str:
    """The template with the values of its fields. Each is inserted once: a field within a value stays as it is."""
    size = len(template)

    def put(match: re.Match[str]) -> str:
        nonlocal size
        text = filled(match)
        size += len(text)
        if size > BODY_MAX:  # a shortened body would not be what the template asks for
            raise TooLarge(f"the template makes a body of more than {BODY_MAX:,} characters of event {event.id}")
        return text

    def filled(match: re.Match[str]) -> str:
        value = _look_up(event, match[1].split("."))
        if match[2] and isinstance(value, str):
            value = shorten(value, int(match[2]))
        if not is_json:
            return _text(value)
        within = _QUOTE.sub("", template[: match.start()]).count('"') % 2
        return json.dumps(_text(value), ensure_ascii=False)[1:-1] if within else json.dumps(value, ensure_ascii=False)

    return _PLACEHOLDER.sub(put, template)


def _is_json(template: str) -> bool:
    try:
        return isinstance(json.loads(_PLACEHOLDER.sub("0", template)), dict | list)
    except ValueError:
        return False


def _look_up(event: Event, path: list[str]) -> Json:
    first, *rest = path
    value: Json = summary(event) if first == "text" else getattr(event, first)
    for name in rest:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(shape: Mapping[str, Json]) -> bytes:
    return _encode(json.dumps(shape, ensure_ascii=False, separators=(",", ":")))


def _encode(text: str) -> bytes:
    """Encode as UTF-8. A lone surrogate, which a payload written in SQL may hold, becomes U+FFFD."""
    return _SURROGATE.sub("\ufffd", text).encode()


_FORMATS: dict[str, Callable[[Event, str], Body]] = {
    "cloudevents": _cloudevents,
    "slack": _slack,
    "discord": _discord,
    "telegram": _telegram,
    "ntfy": _ntfy,
}
