"""The options of one sink, checked: their types, templates with `{stream}`, and the secrets to mask."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.domain.errors import BadConfig
from holdfast.domain.event import Event
from holdfast.domain.extras import install_command
from holdfast.domain.text import clip_text, short_repr
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig

MASKED = "***"
ERROR_MAX = 500
SECRET_WORDS = ("password", "secret", "token", "credential", "key_file", "passwd")


_SLOT = re.compile(r"\{([^{}]*)\}")


class Settings:
    """Reads the options of a sink. `end` refuses the options that were never read."""

    def __init__(self, config: SinkConfig) -> None:
        self.config = config
        self._left = dict(config.options)
        self._hidden = _secrets(config)

    def text(self, name: str, default: str = "") -> str:
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise self._bad(f"{name} must be a text, not {short_repr(value)}")
        return value

    def choice(self, name: str, default: str, *others: str) -> str:
        value = self.text(name, default)
        if value not in (default, *others):
            raise self._bad(f"{name} must be one of {', '.join((default, *others))}, not {short_repr(value)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise self._bad(f"{name} must be true or false, not {short_repr(value)}")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._bad(f"{name} must be a whole number from {least} to {most}, not {short_repr(value)}")
        return value

    def seconds(self, name: str, default: float) -> float:
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
            raise self._bad(f"{name} must be a number of seconds from 0 to 3600, not {short_repr(value)}")
        return float(value)

    def template(self, name: str, default: str, escape: Callable[[str], str]) -> Callable[[str], str]:
        """A function from a stream's name to the text with `{stream}` filled in, escaped for its place."""
        template = self.text(name, default)
        others = [slot for slot in _SLOT.findall(template) if slot != "stream"]
        if not template or others or re.search(r"[{}]", _SLOT.sub("", template)):
            raise self._bad(f"{name} {short_repr(template)} is not valid: the only place to fill in is {{stream}}")
        return lambda stream: template.replace("{stream}", escape(stream))

    def end(self) -> None:
        if self._left:
            raise self._bad(f"there is no option {', '.join(sorted(self._left))} for this kind of sink")

    def needs(self, package: str, extra: str) -> None:
        """Refuse the sink if its client library is not installed."""
        if find_spec(package) is None:
            raise self._bad(f"it needs the package {package}; install it with: {install_command(extra)}")

    def mask(self, text: str) -> str:
        """The text without any secret of this sink, on one line and bounded."""
        for secret in self._hidden:
            text = text.replace(secret, MASKED)
        shown = "".join(char if char.isprintable() else " " for char in text)
        return clip_text(shown, ERROR_MAX) or ""

    def failed(self, error: object, published: int = 0, poison: bool = False) -> PublishFailed:
        """A failure that names the sink and holds no secret."""
        said = str(error) or type(error).__name__
        return PublishFailed(self.mask(f"sink {self.config.name}: {said}"), published, poison)

    def _bad(self, message: str) -> BadConfig:
        return BadConfig(self.mask(message))


def event_body(event: Event, replay: bool) -> bytes:
    """The JSON object of an event, the same as in a webhook; `"replay":true` marks one that is repeated."""
    body = event.body()
    return body[:-1] + b',"replay":true}' if replay else body


def _secrets(config: SinkConfig) -> tuple[str, ...]:
    """Every form of a secret that an error message could repeat, longest first."""
    parts = urlsplit(config.url)
    found = [parts.password, *(value for name, value in parse_qsl(parts.query) if _is_secret(name))]
    if parts.password is None and parts.username is not None:  # nats://TOKEN@host
        found.append(parts.username)
    found += [str(value) for name, value in config.options.items() if _is_secret(name)]
    forms = {form for text in found if text for form in (text, unquote(text))}
    return tuple(sorted(forms, key=len, reverse=True))


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRET_WORDS)
