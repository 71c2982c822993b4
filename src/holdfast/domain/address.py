"""Address: where a delivery goes. One text with a scheme: `https://…`, `handler:name`, `session:id`.

`KINDS` at the end of this file is the registry of address kinds: no other module lists them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.domain.errors import BadInput
from holdfast.domain.text import short_repr

ADDRESS_MAX = 2048
MASK = "…"

_TOKEN = re.compile(r"[^/]*[0-9][^/]*")
_TOKEN_MIN = 20
_TELEGRAM = re.compile(r"bot[0-9]+:.*")


@dataclass(frozen=True, slots=True)
class AddressKind:
    """Everything the rest of the package knows about one kind of address.

    `name` is the scheme and the key of a contract's `target`; with `target_key`, that key holds the whole address
    instead. `check` gets an address and returns something true if it is well-formed; it may raise `BadInput` to explain
    what is wrong. `policy`, `timeout_s`, `concurrency` and `ordered` are the defaults of contracts. `deliverer` is the
    class that delivers to this kind (`module:class`, see `holdfast.egress.deliverer`); contracts for a kind without one
    are refused.
    """

    name: str
    example: str  # for messages
    check: Callable[[str], object]
    policy: str
    timeout_s: float = 30.0
    concurrency: int = 16
    ordered: bool = False
    one_lane: bool = False  # all deliveries to one address are one lane, whatever their contract and stream
    gated: bool = False  # breakers and rate limits apply
    target_key: str = ""
    deliverer: str | None = None

    @property
    def key(self) -> str:
        """The key of a contract's `target` that holds such an address."""
        return self.target_key or self.name


class Address(NamedTuple):
    """An address and its kind. `http://` is of kind `https` too; the guard decides whether it is allowed."""

    kind: str
    text: str

    @property
    def name(self) -> str:
        return self.text.partition(":")[2]

    def as_target(self) -> dict[str, str | None]:
        """A contract's `target`: one key per kind, all but one of them null.

        >>> parse_address("handler:ship").as_target()
        {'url': None, 'handler': 'ship', 'session': None}
        """
        text = self.text if KINDS[self.kind].target_key else self.name
        return {kind.key: text if kind.name == self.kind else None for kind in KINDS.values()}


def kind_of(address: str) -> AddressKind:
    """The kind of an address that was parsed before; KeyError if there is no such kind."""
    return KINDS[_kind_name(address)]


def parse_address(text: object) -> Address:
    """Schemes are lower case, here and in the SQL door of each store.

    >>> parse_address("handler:ship")
    Address(kind='handler', text='handler:ship')
    """
    if not isinstance(text, str) or not text or len(text) > ADDRESS_MAX:
        raise BadInput(f"an address is text of 1 to {ADDRESS_MAX} characters, such as https://example.com/hook")
    scheme = text.partition(":")[0]
    if scheme != scheme.lower() and _kind_name(scheme.lower()) in KINDS:
        raise BadInput(f"the scheme of an address is lower case: write {scheme.lower()}:, not {scheme}:")
    kind = KINDS.get(_kind_name(text))
    if kind is None or not kind.check(text):
        examples = one_of(kind.example for kind in KINDS.values() if kind.deliverer is not None)
        raise BadInput(f"{ascii(text)[:100]} is not an address: use {examples}")
    return Address(kind.name, text)


def address_of_target(key: str, value: str) -> Address:
    """The address that a contract's `target` holds under one of its keys.

    >>> address_of_target("handler", "ship")
    Address(kind='handler', text='handler:ship')
    """
    kind = next(kind for kind in KINDS.values() if kind.key == key)
    address = parse_address(value if kind.target_key else f"{kind.name}:{value}")
    if address.kind != kind.name:
        raise BadInput(f"target.{key} is {short_repr(value)}; it must begin with {kind.example}")
    return address


def _kind_name(text: str) -> str:
    scheme = text.partition(":")[0]
    return "https" if scheme in ("http", "https") else scheme


def one_of(words: Iterable[str]) -> str:
    """
    >>> one_of(["url", "handler", "session"])
    'url, handler or session'
    """
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


@lru_cache(maxsize=1024)
def without_tokens(address: str) -> str:
    """An address for display. The URLs of chats and bots contain a token: parts that may hold one are masked.

    These are the query, a user name, the parts of the path where Slack, Discord and Telegram put the token, and any
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
    """Whether an address was copied from a display in which its secret was masked."""
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
    """The address of a bare queue. Only the queue's own worker serves it.

    >>> queue_address("receipts")
    'handler:queue.receipts'
    """
    if not isinstance(queue, str) or not queue:
        raise BadInput(f"queue must be a non-empty string, not {ascii(queue)[:100]}")
    try:
        return parse_address(f"handler:queue.{queue}").text
    except BadInput:
        name = ascii(queue)[:100]
        raise BadInput(f"queue {name} is not a valid queue name: use letters, digits and _ . : -") from None


def _check_url(url: str) -> str:
    if is_masked(url):
        raise BadInput(f"the URL has {MASK} in place of a masked secret; give the full URL")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise BadInput("the URL contains spaces, backslashes or non-ASCII characters; percent-encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"the URL cannot be read: {error}") from None
    if not parts.hostname:
        raise BadInput("the URL has no host")
    if parts.username is not None or parts.password is not None:
        raise BadInput("the URL contains a user name or password; put the secret into a header instead")
    if parts.fragment:
        raise BadInput("the URL has a #fragment, which is never sent to a server; remove it")
    if port == 0:
        raise BadInput("the URL has port 0")
    return url


KINDS: dict[str, AddressKind] = {
    kind.name: kind
    for kind in (
        AddressKind(
            "https", "https://…", _check_url, policy="webhook", gated=True, target_key="url",
            deliverer="holdfast.egress.webhook.deliverer:WebhookDeliverer",
        ),
        AddressKind(
            "handler", "handler:NAME", re.compile(r"handler:[A-Za-z_][A-Za-z0-9_.:<>-]{0,199}").fullmatch,
            policy="hook", concurrency=32, deliverer="holdfast.egress.handler.deliverer:HandlerDeliverer",
        ),
        AddressKind(
            "session", "session:ID", re.compile(r"session:[A-Za-z0-9][A-Za-z0-9_.:@/+-]{0,199}").fullmatch,
            policy="message", timeout_s=60.0, concurrency=1, ordered=True, one_lane=True,
            deliverer="holdfast.agents.messages.deliverer:SessionDeliverer",
        ),
    )
}  # fmt: skip
"""The kinds of address, by name. CONTRIBUTING.md shows how to add one."""
