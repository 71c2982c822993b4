"""Which statements keep the server busy: `pg_stat_activity`, read every few milliseconds while the work goes on."""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Self

from holdfast.store.postgres.statements import sql

EVERY_S = 0.004
PREFIX = 70
_ACTIVE = """
    SELECT query, wait_event FROM pg_stat_activity
    WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""


class Statements:
    """A context manager. `shares` gives each statement's share of the time, and what it mostly waited for."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._seen: Counter[tuple[str, str]] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stopping.wait(EVERY_S):
                for query, event in connection.execute(_ACTIVE).fetchall():
                    self._seen[name_of(query), event or "running"] += 1

    def shares(self) -> list[tuple[str, float, float]]:
        """Name, share of all active time, and the part of that in which it ran instead of waiting."""
        total = sum(self._seen.values()) or 1
        names: Counter[str] = Counter()
        for (name, _), count in self._seen.items():
            names[name] += count
        return [(name, count / total, self._seen[name, "running"] / count) for name, count in names.most_common()]


def plain(text: str) -> str:
    """The text without comments and extra blanks, in lower case.

    >>> plain("-- why\\nSELECT  1;\\nSELECT 2")
    'select 1; select 2'
    """
    lines = [line.partition("--")[0] for line in text.splitlines()]
    return " ".join(" ".join(lines).split()).lower()


def name_of(query: str) -> str:
    """The name of a statement of Holdfast, or its beginning.

    >>> name_of("COMMIT"), name_of("begin; set local synchronous_commit = off")
    ('COMMIT', 'BEGIN')
    """
    text = plain(query)
    for name, known in _known().items():
        if text.startswith(known):
            return name
    if found := re.match(r"(begin|commit|rollback)\b", text):
        return found[1].upper()
    return text[:PREFIX] or "nothing"


def _known() -> dict[str, str]:
    texts = {name: plain(getattr(sql, name)).replace("{schema}", "holdfast") for name in sql.names()}
    return {name: text[:PREFIX] for name, text in sorted(texts.items(), key=lambda item: -len(item[1]))}
