"""The URL of a store: which kinds there are, checked before anything is opened."""

from __future__ import annotations

from holdfast.domain.errors import BadConfig
from holdfast.domain.text import short_repr

SQLITE, POSTGRES, PGMQ_PREFIX = "sqlite", ("postgresql", "postgres"), "pgmq+"
_USAGE = "use sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://USER@HOST/DATABASE"


def is_postgres(url: str) -> bool:
    """Whether a store's URL names a PostgreSQL database, with either kind of queue.

    >>> is_postgres("pgmq+postgresql://db/app"), is_postgres("sqlite:///app.db")
    (True, False)
    """
    return url.removeprefix(PGMQ_PREFIX).partition(":")[0] in POSTGRES


def check_store_url(url: object) -> str:
    """The URL, if it is one of a store. The message shows its scheme only: the rest may hold a password.

    >>> check_store_url("sqlite:///app.db")
    'sqlite:///app.db'
    """
    if not isinstance(url, str):
        raise BadConfig(f"an outbox needs the URL of its database as text, not a {type(url).__name__}; {_USAGE}")
    scheme, found, rest = url.partition("://")
    base, _, driver = scheme.partition("+")
    if not url.strip():
        raise BadConfig(f"the URL of the outbox's database is empty; {_USAGE}")
    if not found:
        raise BadConfig(f"the given value is not the URL of a database; {_USAGE}")
    if driver and base in (SQLITE, *POSTGRES):
        raise BadConfig(f"write {base}:// instead of {short_repr(scheme)[1:-1]}://: the URL names no driver")
    if scheme != SQLITE and not is_postgres(url):
        raise BadConfig(f"Holdfast stores events in SQLite or PostgreSQL, not in {short_repr(scheme)}; {_USAGE}")
    if scheme == SQLITE and len(rest) < 2:
        raise BadConfig(f"{url!r} names no file; {_USAGE}")
    if scheme == SQLITE and not rest.startswith("/"):
        raise BadConfig(f"sqlite:// is followed by a third slash and the path of a file; {_USAGE}")
    return url
