"""Senders: whose events a contract may turn into messages for an agent session.

A webhook's signature proves the platform, not the person. Text in an agent's session can make it run tools, so a
contract for a session lists its senders by the ids that the platform gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.domain.errors import BadInput
from holdfast.domain.event import NAME_MAX
from holdfast.domain.json_value import Json
from holdfast.domain.text import short_repr

ALL = "*"
KEYS = ("actors", "associations", "channels")
ORIGINS_MAX = 50
IDS_MAX = 1000


class Sender(NamedTuple):
    """The sender of one event, as the platform names it. `login` is a name that the platform keeps unique."""

    origin: str
    actor_id: str | None = None
    login: str | None = None
    association: str | None = None
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class SenderRule:
    """The senders of one origin. Every list that is not empty must contain the sender's value.

    `actors`: ids or unique logins. `associations`: how the author relates to the repository, such as MEMBER.
    `channels`: chats.
    """

    actors: frozenset[str] = frozenset()
    associations: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()

    def allows(self, sender: Sender) -> bool:
        if self.actors and not self.actors & {sender.actor_id, sender.login}:
            return False
        if self.associations and sender.association not in self.associations:
            return False
        return not self.channels or sender.channel in self.channels


@dataclass(frozen=True, slots=True)
class Senders:
    """The allowed senders by origin, which is the source of the event. `everyone`: no list; only the operator may."""

    rules: Mapping[str, SenderRule]
    everyone: bool = False

    def allows(self, sender: Sender) -> bool:
        """
        >>> parse_senders({"chat": ["42"]}).allows(Sender("chat", actor_id="42"))
        True
        >>> parse_senders({"chat": ["42"]}).allows(Sender("forge", actor_id="42"))
        False
        """
        if self.everyone:
            return True
        rule = self.rules.get(sender.origin)
        return rule is not None and rule.allows(sender)

    def as_json(self) -> Json:
        if self.everyone:
            return ALL
        return {
            origin: {key: sorted(values) for key in KEYS if (values := getattr(rule, key))}
            for origin, rule in self.rules.items()
        }


def parse_senders(value: object, *, may_be_all: bool = False) -> Senders:
    """Read `senders`: for each origin a list of actor ids, or an object with actors, associations and channels."""
    if value == ALL:
        if may_be_all:
            return Senders({}, everyone=True)
        raise BadInput(
            'senders: "*" lets every sender write to the session; it can only be set in the configuration file'
        )
    if not isinstance(value, Mapping) or not 0 < len(value) <= ORIGINS_MAX:
        raise BadInput(
            f"senders must be an object of 1 to {ORIGINS_MAX} origins, each with the ids of the senders that may write "
            f'to the session, such as {{"chat": ["4711"]}}, not {short_repr(value)}'
        )
    return Senders({_origin(origin): _rule(str(origin), given) for origin, given in value.items()})


def _origin(origin: object) -> str:
    if not isinstance(origin, str) or not 0 < len(origin) <= NAME_MAX or not origin.isprintable():
        raise BadInput(f"senders has the origin {short_repr(origin)}; use the source of the events")
    return origin


def _rule(origin: str, given: object) -> SenderRule:
    if isinstance(given, list):
        given = {"actors": given}
    if not isinstance(given, Mapping):
        raise BadInput(f"senders.{origin} must be a list of actor ids, or an object with {', '.join(KEYS)}")
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise BadInput(f"senders.{origin} has an unknown key {short_repr(unknown[0])}: use {', '.join(KEYS)}")
    lists = {key: _ids(f"senders.{origin}.{key}", given[key]) for key in KEYS if given.get(key) is not None}
    if not lists:
        raise BadInput(f"senders.{origin} lists no sender; name at least one, or leave the origin out")
    return SenderRule(**lists)


def _ids(what: str, value: object) -> frozenset[str]:
    if not isinstance(value, list) or not 0 < len(value) <= IDS_MAX:
        raise BadInput(f"{what} must list 1 to {IDS_MAX} ids, not {short_repr(value)}")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, str | int) or not 0 < len(str(item)) <= NAME_MAX:
            raise BadInput(f"{what} must list texts or whole numbers, not {short_repr(item)}")
        if str(item) == ALL:
            raise BadInput(f'{what}: "*" is not an id; write senders: "*" in the configuration file to allow everyone')
    return frozenset(str(item) for item in value)
