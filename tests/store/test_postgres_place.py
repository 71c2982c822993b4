"""A store's URL: one host or several, a schema, the direct address behind a pooler."""

from __future__ import annotations

import pytest

from holdfast.domain.errors import BadConfig
from holdfast.store.postgres.place import each_host, parse_place


def test_a_url_may_name_several_hosts() -> None:
    place = parse_place("postgresql://ann:secret@db1:5432,db2:5433/app?schema=jobs")
    assert place.schema == "jobs"
    assert place.shown == "postgresql://ann@db1:5432,db2:5433/app?schema=jobs"
    assert each_host(place.dsn) == [
        "postgresql://ann:secret@db1:5432/app?target_session_attrs=read-write",
        "postgresql://ann:secret@db2:5433/app?target_session_attrs=read-write",
    ]


def test_several_hosts_may_be_given_as_options() -> None:
    place = parse_place("postgresql://ann@/app?host=/run/a,/run/b&port=5432")
    assert [dsn.partition("?")[2] for dsn in each_host(place.dsn)] == [
        "host=/run/a&target_session_attrs=read-write&port=5432",
        "host=/run/b&target_session_attrs=read-write&port=5432",
    ]


def test_one_host_stays_as_it_was_given() -> None:
    url = "postgresql://ann@db/app?sslmode=require"
    assert parse_place(url).dsn == url
    assert each_host(url) == [url]


def test_the_direct_address_may_name_several_hosts() -> None:
    direct = parse_place("postgresql://ann@pooler:6432/app?direct=db1:5433,db2").direct
    assert direct is not None
    assert [dsn.partition("?")[2] for dsn in each_host(direct)] == [
        "target_session_attrs=read-write&host=db1&port=5433",
        "target_session_attrs=read-write&host=db2&port=5432",
    ]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://a@db1,,db2/app", "HOST:PORT,HOST:PORT"),
        ("postgresql://a@" + ",".join(["db"] * 9) + "/app", "at most 8"),
        ("postgresql://a@db1,db2/app?target_session_attrs=any", "use read-write"),
        ("postgresql://a@pooler/app?direct=db1,,db2", "not the address of a server"),
        ("postgresql://a@[::1/app", "needs brackets"),
    ],
)
def test_a_url_that_cannot_work_is_refused(url: str, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        parse_place(url)


def test_hosts_and_ports_must_fit_each_other() -> None:
    with pytest.raises(BadConfig, match="3 hosts and 2 ports"):
        each_host("postgresql://a@/app?host=x,y,z&port=1,2")
