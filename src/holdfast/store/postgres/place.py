"""The location of the tables: a database, given by a URL, and a schema in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.domain.errors import BadConfig
from holdfast.domain.store_url import PGMQ_PREFIX, POSTGRES
from holdfast.store.roles.queue_admin import QueueKind

SCHEMA_DEFAULT = "holdfast"
WRITABLE = ("read-write", "primary")
HOSTS_MAX = 8
_HOST_PORT = re.compile(r"([^\s:,@?#]+)(?::(\d{1,5}))?")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")


class Place(NamedTuple):
    """`dsn` may name several hosts; `shown` is without a password, for display; `direct` leads past a pooler.

    `queue`: the kind of ready queue that the URL asks for; None: whichever is in force.
    """

    dsn: str
    schema: str
    shown: str
    direct: str | None = None
    queue: QueueKind | None = None


def parse_place(url: str) -> Place:
    """
    >>> parse_place("postgresql://ann:secret@db/app?schema=jobs")[1:3]
    ('jobs', 'postgresql://ann@db/app?schema=jobs')
    >>> parse_place("postgresql://ann@pooler:6432/app?direct=db:5433").direct
    'postgresql://ann@/app?host=db&port=5433'
    >>> parse_place("postgresql://ann@db1:5432,db2:5433/app").dsn
    'postgresql://ann@db1:5432,db2:5433/app?target_session_attrs=read-write'
    >>> parse_place("pgmq+postgresql://ann@db/app").queue
    <QueueKind.PGMQ: 'pgmq'>
    """
    queue = QueueKind.PGMQ if url.startswith(PGMQ_PREFIX) else None
    parts = _split(url.removeprefix(PGMQ_PREFIX))
    if parts.scheme not in POSTGRES:
        raise BadConfig(
            "the URL of a PostgreSQL store is postgresql://USER@HOST/DATABASE, optionally with ?schema=NAME"
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = query.pop("schema", SCHEMA_DEFAULT)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_") or schema == "information_schema":
        raise BadConfig(f"schema={schema!r} is not a valid name: use a-z, 0-9 and _, at most 48 of them")
    direct = query.pop("direct", None)
    _choose_writable(parts, query)
    dsn = urlunsplit(parts._replace(query=urlencode(query)))
    user, at, host = parts.netloc.rpartition("@")
    shown = parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}")
    if "password" in query:
        shown = shown._replace(query=urlencode({k: v for k, v in parse_qsl(parts.query) if k != "password"}))
    masked_url = (PGMQ_PREFIX if queue else "") + urlunsplit(shown)
    return Place(dsn, schema, masked_url, None if direct is None else _direct(parts, query, direct), queue)


def each_host(dsn: str) -> list[str]:
    """The URL of each of the hosts that a URL names.

    >>> each_host("postgresql://ann@db1:5432,db2/app")
    ['postgresql://ann@db1:5432/app', 'postgresql://ann@db2/app']
    >>> each_host("postgresql://ann@/app?host=db1,db2&port=1,2")
    ['postgresql://ann@/app?host=db1&port=1', 'postgresql://ann@/app?host=db2&port=2']
    """
    parts = _split(dsn)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    user, at, _ = parts.netloc.rpartition("@")
    named, listed = _hosts(parts, query)
    if len(named) > 1:
        return [urlunsplit(parts._replace(netloc=user + at + host)) for host in named]
    if len(listed) < 2:
        return [dsn]
    ports = query.pop("port", "5432").split(",")
    ports *= len(listed) if len(ports) == 1 else 1
    if len(ports) != len(listed):
        raise BadConfig(f"the store's URL names {len(listed)} hosts and {len(ports)} ports")
    return [
        urlunsplit(parts._replace(query=urlencode({**query, "host": host, "port": port}, safe="/")))
        for host, port in zip(listed, ports, strict=True)
    ]


def _hosts(parts: SplitResult, query: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The hosts before the path, and those of `host=`."""
    return parts.netloc.rpartition("@")[2].split(","), query.get("host", "").split(",")


def _choose_writable(parts: SplitResult, query: dict[str, str]) -> None:
    """With several hosts, connect to the one that accepts writes, whatever the driver's default is."""
    hosts = max(_hosts(parts, query), key=len)
    if len(hosts) == 1:
        return
    if len(hosts) > HOSTS_MAX or not all(hosts):
        raise BadConfig(f"the store's URL names its hosts as HOST:PORT,HOST:PORT/DATABASE, at most {HOSTS_MAX}")
    attribute = query.setdefault("target_session_attrs", WRITABLE[0])
    if attribute not in WRITABLE:
        raise BadConfig(
            f"target_session_attrs={attribute} may lead to a server that refuses writes: use {WRITABLE[0]}, the default"
        )


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise BadConfig("the store's URL cannot be read; an IPv6 address needs brackets, such as [::1]") from None


def _direct(parts: SplitResult, query: Mapping[str, str], direct: str) -> str:
    """The same database and user, reached at other servers: HOST[:PORT] or /FOLDER[:PORT], separated by commas."""
    matches = [_HOST_PORT.fullmatch(one) for one in direct.split(",")]
    if len(matches) > HOSTS_MAX or not all(matches):
        raise BadConfig(f"direct={direct!r} is not the address of a server: use HOST, HOST:PORT or /FOLDER:PORT")
    user, at, _ = parts.netloc.rpartition("@")
    where = {
        "host": ",".join(match[1] for match in matches if match),
        "port": ",".join(match[2] or "5432" for match in matches if match),
    }
    others = {name: value for name, value in query.items() if name not in where}
    if len(matches) > 1:
        others.setdefault("target_session_attrs", WRITABLE[0])
    return urlunsplit(parts._replace(netloc=user + at, query=urlencode({**others, **where}, safe="/,")))


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
