"""Resolve: which session a message is for.

A session is named by one text: its id or the agent's own id, a chat bound to it (`telegram:42`), its name, or a
repository and perhaps a branch (`acme/shop@main`) that its folder is a checkout of; in this order. `auto` means the
chat or the repository that the message itself came from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from holdfast.agents.messages.checkout import Checkout, read_checkout
from holdfast.agents.messages.successor import find_successor
from holdfast.domain.errors import Ambiguous, Conflict, NotFound
from holdfast.domain.session import FINISHED_STATES, Binding, Session, SessionState
from holdfast.domain.text import short_repr
from holdfast.ports import in_thread
from holdfast.store.roles.sessions import SessionFilter, Sessions

AUTO = "auto"
SAME_MAX = 20
CHECKOUTS_MAX = 200
"""How many open sessions are searched for a repository, the most recently changed first."""


class Place(NamedTuple):
    """Where a message came from, as far as it decides which session is meant."""

    origin: str | None = None
    channel: str | None = None
    repository: str | None = None
    branch: str | None = None


NO_ORIGIN = Place()


class Resolver:
    """Finds sessions in the read model. Reads the folders of sessions on this machine."""

    def __init__(self, sessions: Sessions, checkout_of: Callable[[str], Checkout] = read_checkout) -> None:
        self._sessions, self._checkout_of = sessions, checkout_of

    async def resolve(self, wanted: str, place: Place = NO_ORIGIN) -> Session:
        """The session that `wanted` names. NotFound, Ambiguous with the candidates, or Conflict if it is closed."""
        found = await (self._by_place(place) if wanted == AUTO else self._by_text(wanted))
        successors = [await find_successor(self._sessions, session) for session in found]
        found = list({session.id: session for session in successors}.values())
        open_ones = [session for session in found if session.state is not SessionState.CLOSED]
        if not found:
            raise NotFound(_unknown(wanted, place))
        if not open_ones:
            raise Conflict(f"session {short_repr(found[0].id)} is closed and takes no more messages")
        if len(open_ones) > 1:
            ids = [session.id for session in open_ones]
            what = "the message's own channel" if wanted == AUTO else short_repr(wanted)
            raise Ambiguous(f"{what} fits several sessions: {', '.join(ids)}; name one by its id", candidates=ids)
        return open_ones[0]

    async def _by_text(self, wanted: str) -> list[Session]:
        if (session := await self._sessions.get(wanted)) is not None:
            return [session]
        if found := await self._find(SessionFilter(native_id=wanted)):
            return found
        origin, colon, channel = wanted.partition(":")
        if colon and (found := await self._by_binding(Binding(origin, channel))):
            return found
        if found := await self._find(SessionFilter(name=wanted)):
            return _open_first(found)
        repository, _, branch = wanted.partition("@")
        return await self._by_repository(repository, branch or None) if "/" in repository else []

    async def _by_place(self, place: Place) -> list[Session]:
        if place.origin and place.channel and (found := await self._by_binding(Binding(place.origin, place.channel))):
            return found
        return [] if place.repository is None else await self._by_repository(place.repository, place.branch)

    async def _by_binding(self, binding: Binding) -> list[Session]:
        id = await self._sessions.bound_to(binding)
        session = None if id is None else await self._sessions.get(id)
        return [] if session is None else [session]

    async def _by_repository(self, repository: str, branch: str | None) -> list[Session]:
        """Sessions that are not over, in a checkout of the repository."""
        page = await self._sessions.find(SessionFilter(), None, CHECKOUTS_MAX)
        fitting = []
        for session in page.items:
            if session.state not in FINISHED_STATES and session.cwd:
                checkout = await in_thread("files", partial(self._checkout_of, session.cwd))
                if checkout.fits(repository, branch):
                    fitting.append(session)
        return fitting

    async def _find(self, wanted: SessionFilter) -> list[Session]:
        return list((await self._sessions.find(wanted, None, SAME_MAX)).items)


def _open_first(found: list[Session]) -> list[Session]:
    """Sessions that are not over, or if there are none, those that may be resumed. A name is unique among open ones."""
    running = [session for session in found if session.state not in FINISHED_STATES]
    ended = [session for session in found if session.state is SessionState.ENDED]
    return running or ended[:1] or found


def _unknown(wanted: str, place: Place) -> str:
    if wanted != AUTO:
        return f"there is no session {short_repr(wanted)}: name it by id, name, bound chat (telegram:42) or repository"
    if place.repository is None and not place.channel:
        return "session auto needs a message with a channel or a repository"
    about = f"{place.origin}:{place.channel}" if place.channel else f"{place.repository}@{place.branch or '*'}"
    return f"no session is bound to or works on {short_repr(about)}; bind one with: holdfast sessions bind"
