"""The location of the tables: a database, given by a URL, and a schema in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.domain.errors import BadConfig

SCHEMA_DEFAULT = "holdfast"
SCHEMES = ("postgresql", "postgres")
_HOST_PORT = re.compile(r"([^\s:,@?#]+)(?::(\d{1,5}))?")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")


class Place(NamedTuple):
    """`dsn` is for the driver; `shown` is without a password, for display; `direct` leads past a pooler."""

    dsn: str
    schema: str
    shown: str
    direct: str | None = None


def parse_place(url: str) -> Place:
    """
    >>> parse_place("postgresql://ann:secret@db/app?schema=jobs")[1:3]
    ('jobs', 'postgresql://ann@db/app?schema=jobs')
    >>> parse_place("postgresql://ann@pooler:6432/app?direct=db:5433").direct
    'postgresql://ann@/app?host=db&port=5433'
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise BadConfig(
            "the URL of a PostgreSQL store is postgresql://USER@HOST/DATABASE, optionally with ?schema=NAME"
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = query.pop("schema", SCHEMA_DEFAULT)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_") or schema == "information_schema":
        raise BadConfig(f"schema={schema!r} is not a valid name: use a-z, 0-9 and _, at most 48 of them")
    direct = query.pop("direct", None)
    dsn = urlunsplit(parts._replace(query=urlencode(query)))
    user, at, host = parts.netloc.rpartition("@")
    shown = parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}")
    if "password" in query:
        shown = shown._replace(query=urlencode({k: v for k, v in parse_qsl(parts.query) if k != "password"}))
    return Place(dsn, schema, urlunsplit(shown), None if direct is None else _direct(parts, query, direct))


def _direct(parts: SplitResult, query: Mapping[str, str], direct: str) -> str:
    """The same database and user, reached at another HOST[:PORT], or at the folder of a socket."""
    match = _HOST_PORT.fullmatch(direct)
    if match is None:
        raise BadConfig(f"direct={direct!r} is not the address of a server: use HOST, HOST:PORT or /FOLDER:PORT")
    user, at, _ = parts.netloc.rpartition("@")
    where = {"host": match[1], "port": match[2] or "5432"}
    others = {name: value for name, value in query.items() if name not in where}
    return urlunsplit(parts._replace(netloc=user + at, query=urlencode({**others, **where}, safe="/")))


def in_schema(text: str, schema: str) -> str:
    """Fill the slot `{schema}` of a statement. Every name in SQL has one, so that no search_path matters.

    Other braces are left as they are: SQL has array and JSON literals.

    >>> in_schema("SELECT '{}' FROM {schema}.events", "jobs")
    'SELECT \'{}\' FROM "jobs".events'
    """
    return text.replace("{schema}", quoted(schema))


def quoted(schema: str) -> str:
    """The schema as an SQL identifier. Quoted, because the name may be an SQL keyword, such as user."""
    return schema if schema == SCHEMA_DEFAULT else f'"{schema}"'
