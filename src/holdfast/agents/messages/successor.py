"""A session may be continued by another one, with another id: after `/clear`, or when an agent resumes it."""

from __future__ import annotations

from holdfast.domain.session import FINISHED_STATES, Session
from holdfast.store.roles.sessions import SessionFilter, Sessions

SEARCHED_MAX = 200
LINKS_MAX = 20


async def find_successor(sessions: Sessions, session: Session) -> Session:
    """The session that continues this one, or this one itself if it goes on or none continues it."""
    if session.state not in FINISHED_STATES:
        return session
    page = await sessions.find(SessionFilter(agent=session.agent), None, SEARCHED_MAX)
    by_predecessor = {each.facts.get("continues"): each for each in reversed(page.items)}
    for _ in range(LINKS_MAX):
        following = by_predecessor.get(session.id)
        if following is None:
            break
        session = following
        if session.state not in FINISHED_STATES:
            break
    return session
