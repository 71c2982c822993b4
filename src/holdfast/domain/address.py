"""Address: where a delivery goes. One text with a scheme: `https://…`, `handler:name`, `session:id`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.domain.errors import BadInput

KINDS = ("https", "handler", "session")
ADDRESS_MAX = 2048
MASK = "…"

_HANDLER = re.compile(r"[A-Za-z_][A-Za-z0-9_.:<>-]{0,199}")
_TOKEN = re.compile(r"[^/]*[0-9][^/]*")
_TOKEN_MIN = 20
_TELEGRAM = re.compile(r"bot[0-9]+:.*")
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,199}")


class Address(NamedTuple):
    """An address and its kind; `http://` is of kind `https` too (the guard decides whether it may be used)."""

    kind: str
    text: str

    @property
    def name(self) -> str:
        return self.text.partition(":")[2]


def parse_address(text: object) -> Address:
    """
    >>> parse_address("handler:ship")
    Address(kind='handler', text='handler:ship')
    """
    if not isinstance(text, str) or not text or len(text) > ADDRESS_MAX:
        raise BadInput(f"an address is text of 1 to {ADDRESS_MAX} characters, such as https://example.com/hook")
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() in ("http", "https"):
        return Address("https", _check_url(text))
    if colon and scheme == "handler" and _HANDLER.fullmatch(rest):
        return Address("handler", text)
    if colon and scheme == "session" and _SESSION.fullmatch(rest):
        return Address("session", text)
    raise BadInput(f"{ascii(text)[:100]} is not an address: use https://… or handler:NAME")


@lru_cache(maxsize=1024)
def without_tokens(address: str) -> str:
    """An address as it is shown. Chats and bots put their token into the URL: parts that may hold one are masked.

    That is the query, a user name, and in the path what a Slack, Discord or Telegram URL keeps its token in, and any
    long part with digits.

    >>> without_tokens("https://chat.example/bot123456789:AAbbccddee/send?chat=1")
    'https://chat.example/…/send?…'
    """
    scheme, mark, rest = address.partition("://")
    if not mark:
        return address
    rest, question, _ = rest.partition("?")
    host, *parts = rest.split("/")
    path = "".join("/" + (MASK if _is_secret(parts, at) else part) for at, part in enumerate(parts))
    return f"{scheme}://{_without_user(host)}{path}{question and '?' + MASK}"


def is_masked(text: str) -> bool:
    """Whether an address was copied from where it is shown masked."""
    return MASK in text


def _is_secret(parts: list[str], at: int) -> bool:
    part = parts[at]
    if _TELEGRAM.fullmatch(part) or (len(part) >= _TOKEN_MIN and _TOKEN.fullmatch(part)):
        return True
    before = parts[:at]
    return bool(part) and (before[-3:-2] == ["services"] or before[-3:-1] == ["api", "webhooks"])


def _without_user(host: str) -> str:
    _, at, bare = host.rpartition("@")
    return f"{MASK}@{bare}" if at else host


def queue_address(queue: object) -> str:
    """The address of a bare queue, which nobody but its own worker serves.

    >>> queue_address("receipts")
    'handler:queue.receipts'
    """
    if not isinstance(queue, str) or not queue:
        raise BadInput(f"queue must be a non-empty string, not {ascii(queue)[:100]}")
    try:
        return parse_address(f"handler:queue.{queue}").text
    except BadInput:
        name = ascii(queue)[:100]
        raise BadInput(f"queue {name} is not a name for a queue: use letters, digits and _ . : -") from None


def _check_url(url: str) -> str:
    if is_masked(url):
        raise BadInput(f"the URL has {MASK} where a secret was masked; give the whole URL")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise BadInput("the URL holds spaces, backslashes or characters outside ASCII; percent-encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"the URL cannot be read: {error}") from None
    if not parts.hostname:
        raise BadInput("the URL has no host")
    if parts.username is not None or parts.password is not None:
        raise BadInput("the URL carries a user name or password; put the secret into a header instead")
    if parts.fragment:
        raise BadInput("the URL has a #fragment, which no server ever sees; remove it")
    if port == 0:
        raise BadInput("the URL has port 0")
    return url
