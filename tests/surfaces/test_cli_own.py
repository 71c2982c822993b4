"""The commands that run a process of their own: up, db, token; and what is wrong with a home, said plainly."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon, run_cli, shop

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.db"


def emitted(daemon: Daemon) -> str:
    return str(daemon.cli("emit", "a.b", "--json").json["id"])


def test_up_stops_in_order_and_leaves_no_address(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        assert stat.S_IMODE((daemon.home / "token").stat().st_mode) == 0o600
        assert daemon.stop() == 0
        assert not (daemon.home / "address").exists()
        assert "Stopped cleanly." in daemon.log
        assert (tmp_path / "home" / "token").read_text().strip() not in daemon.log


def test_a_second_daemon_gets_an_error_that_names_the_keeper(daemon: Daemon) -> None:
    said = run_cli(daemon.home, "up", "--port", "0")
    assert said.code == 1
    assert f"process {daemon.pid}" in said.err
    assert daemon.request("GET", "/api/status")[0] == 200, "the first one goes on"


def test_a_port_in_use_is_said(daemon: Daemon, tmp_path: Path) -> None:
    said = run_cli(tmp_path, "up", "--port", daemon.url.rpartition(":")[2])
    assert said.code == 1
    assert "--port" in said.err


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("serverr: {port: 1}", ("serverr", "did you mean server?")),
        ("server: {prt: 1}", ("server.prt", "did you mean server.port?")),
        ("store: ${NOT_SET_ANYWHERE}", ("NOT_SET_ANYWHERE", "not set")),
        ("store: [1]", ("store", "text")),
        ("a: [", ("not valid YAML", "line")),
    ],
)
def test_a_wrong_setting_names_itself(config: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "holdfast.yml").write_text(config)
    said = run_cli(tmp_path, "up", "--port", "0")
    assert (said.code, said.out) == (1, "")
    assert all(word in said.err for word in words), said.err
    assert "Traceback" not in said.err


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    assert run_cli(tmp_path, "db", "migrate").code == 0
    with sqlite3.connect(tmp_path / "holdfast.db") as connection:
        connection.execute("UPDATE holdfast_meta SET value = '999' WHERE key = 'schema_version'")
        connection.execute("UPDATE holdfast_meta SET value = '9.9.9' WHERE key = 'made_by'")
    connection.close()
    for command in (("up", "--port", "0"), ("db", "migrate"), ("token", "list")):
        said = run_cli(tmp_path, *command)
        assert said.code == 1
        assert "newer or unreleased version of holdfast (9.9.9): it has schema 999" in said.err


def test_a_command_beside_the_daemon_never_migrates(tmp_path: Path) -> None:
    """A program that is newer than the daemon at work must not change the store under it."""
    assert run_cli(tmp_path, "db", "migrate").code == 0
    with sqlite3.connect(tmp_path / "holdfast.db") as connection:
        connection.execute("UPDATE holdfast_meta SET value = '0' WHERE key = 'schema_version'")
    connection.close()
    before = (tmp_path / "holdfast.db").read_bytes()
    for command in (("token", "list"), ("db", "backup", str(tmp_path / "copy.db"))):
        said = run_cli(tmp_path, *command)
        assert said.code == 1
        assert "holdfast db migrate" in said.err
    assert (tmp_path / "holdfast.db").read_bytes() == before


@pytest.mark.parametrize(
    ("spec", "word", "code"),
    [
        ("shop", "module:name", 2),
        ("shop:", "module:name", 2),
        (":outbox", "module:name", 2),
        ("shop.py:outbox:x", "module:name", 2),
        ("no_such_module:outbox", "no_such_module", 1),
        ("json:dumps", "Outbox", 1),
    ],
)
def test_an_app_that_cannot_be_loaded_is_said(spec: str, word: str, code: int, tmp_path: Path) -> None:
    said = run_cli(tmp_path, "up", "--port", "0", "--app", spec)
    assert said.code == code
    assert word in said.err
    assert "Traceback" not in said.err


def test_migrate_prepares_a_store_and_may_be_repeated(store: str, tmp_path: Path) -> None:
    first = run_cli(tmp_path, "db", "migrate", "--store", store, "--json").json
    assert (first["store"], first["before"]) == (store, 0)
    again = run_cli(tmp_path, "db", "migrate", "--store", store, "--json").json
    assert again["before"] == again["after"] == first["after"]
    assert "already up to date" in run_cli(tmp_path, "db", "migrate", "--store", store).out


def test_only_the_daemons_own_file_shows_the_seeds_views(store: str, tmp_path: Path) -> None:
    run_cli(tmp_path, "db", "migrate", "--store", store)
    run_cli(tmp_path, "db", "migrate")
    assert views(tmp_path / "app.db") == []
    assert "hook_outbox" in views(tmp_path / "holdfast.db")


def views(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view' AND name NOT LIKE 'holdfast%'")
        names = [str(name) for (name,) in rows]
    connection.close()
    return names


def test_migrate_registers_the_contracts_of_an_app(tmp_path: Path) -> None:
    daemon = shop(tmp_path)
    assert daemon.cli("db", "migrate", "--app", "shop:outbox", "--json").json["contracts"] == [
        "ship",
        "refuse",
        "later",
    ]
    with sqlite3.connect(daemon.home / "holdfast.db") as connection:
        kept = connection.execute("SELECT id FROM holdfast_contracts ORDER BY id").fetchall()
    connection.close()
    assert kept == [("later",), ("refuse",), ("ship",)]


def test_print_is_sql_that_runs(tmp_path: Path) -> None:
    for extra, shown in (((), True), (("--application",), False)):
        text = run_cli(tmp_path, "db", "print", *extra).out
        with sqlite3.connect(":memory:") as connection:
            connection.executescript(text)
        connection.close()
        assert ("VIEW hook_outbox" in text) is shown


def test_a_backup_is_made_while_the_daemon_runs(daemon: Daemon, tmp_path: Path) -> None:
    id = emitted(daemon)
    copy = tmp_path / "copy.db"
    said = daemon.cli("db", "backup", str(copy), "--json")
    assert said.json == {
        "store": f"sqlite:///{daemon.home}/holdfast.db",
        "backup": str(copy),
        "bytes": copy.stat().st_size,
    }
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT count(*) FROM holdfast_events WHERE id = ?", (id,)).fetchone() == (1,)
    connection.close()
    assert daemon.cli("db", "backup", str(copy)).code == 1, "it never writes over a file"
    assert daemon.cli("db", "backup", str(tmp_path / "none" / "copy.db")).code == 3


def test_restore_is_refused_while_a_daemon_keeps_the_store(daemon: Daemon, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    daemon.cli("db", "backup", str(copy))
    said = daemon.cli("db", "restore", str(copy))
    assert said.code == 1
    assert f"process {daemon.pid}" in said.err


def test_restore_brings_back_what_was_and_keeps_what_is(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        before = emitted(daemon)
        assert daemon.cli("db", "backup", str(tmp_path / "copy.db")).code == 0
        after = emitted(daemon)
        daemon.kill9()  # so that the log still holds the last commits
        assert (daemon.home / "holdfast.db-wal").stat().st_size > 0
        bytes_before = (tmp_path / "copy.db").read_bytes()
        said = daemon.cli("db", "restore", str(tmp_path / "copy.db"), "--json")
        assert said.code == 0, said
        assert (tmp_path / "copy.db").read_bytes() == bytes_before, "the backup itself is not touched"
        kept = Path(said.json["kept"])
        assert kept.name.startswith("holdfast.db.before-restore-2")
        with sqlite3.connect(kept) as connection:
            assert connection.execute("SELECT count(*) FROM holdfast_events").fetchone() == (2,)
        connection.close()
        daemon.start()
        assert daemon.cli("events", "show", before).code == 0
        assert daemon.cli("events", "show", after).code == 3
        left = [path.name for path in daemon.home.iterdir() if ".restore-" in path.name]
        assert left == []


def test_restore_replaces_a_damaged_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_cli(home, "db", "migrate")
    run_cli(home, "db", "backup", str(tmp_path / "copy.db"))
    (home / "holdfast.db").write_bytes(b"not a database at all" * 500)
    assert "db restore" in run_cli(home, "token", "list").err
    assert run_cli(home, "db", "restore", str(tmp_path / "copy.db")).code == 0
    assert run_cli(home, "token", "list").code == 0


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a token of bob's, and a backup of it."""
    folder = tmp_path_factory.mktemp("backed-up")
    for command in (("db", "migrate"), ("token", "create", "bob"), ("db", "backup", str(folder / "copy.db"))):
        assert run_cli(folder / "home", *command).code == 0
    return folder


@pytest.mark.parametrize("fault", ["missing", "text", "empty", "foreign", "newer", "damaged", "itself"])
def test_a_bad_backup_is_refused_and_nothing_changes(fault: str, backed_up: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(backed_up / "home", home)
    copy = spoil(Path(shutil.copy(backed_up / "copy.db", tmp_path)), fault, home)
    before = (home / "holdfast.db").read_bytes()
    said = run_cli(home, "db", "restore", str(copy))
    assert said.code == (3 if fault == "missing" else 1), said
    assert str(copy) in said.err or fault == "newer"
    assert "Traceback" not in said.err
    assert (home / "holdfast.db").read_bytes() == before
    assert not [path for path in home.iterdir() if "restore" in path.name]


def spoil(copy: Path, fault: str, home: Path) -> Path:
    if fault == "missing":
        copy.unlink()
    elif fault == "text":
        copy.write_text("this is no database\n" * 100)
    elif fault == "empty":
        copy.write_bytes(b"")
    elif fault == "itself":
        return home / "holdfast.db"
    elif fault == "damaged":
        raw = bytearray(copy.read_bytes())
        for at in range(len(raw) // 8192 * 4096, len(raw), 4096):
            raw[at : at + 200] = b"\xff" * 200
        copy.write_bytes(raw)
    else:
        if fault == "foreign":
            copy.unlink()
        with sqlite3.connect(copy) as connection:
            if fault == "foreign":
                connection.execute("CREATE TABLE orders (id)")
            else:
                connection.execute("UPDATE holdfast_meta SET value = '999' WHERE key = 'schema_version'")
        connection.close()
    return copy


def test_a_hand_made_copy_brings_its_log(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        id = emitted(daemon)
        daemon.kill9()
        for suffix in ("", "-wal"):
            shutil.copy(daemon.home / f"holdfast.db{suffix}", tmp_path / f"copy.db{suffix}")
        other = tmp_path / "other"
        run_cli(other, "db", "migrate")
        assert run_cli(other, "db", "restore", str(tmp_path / "copy.db")).code == 0
        with Daemon(other) as second:
            assert second.cli("events", "show", id).code == 0


def test_a_token_works_at_once_and_ends_when_revoked(daemon: Daemon) -> None:
    name = f"ci-{next(_numbers)}"
    made = daemon.cli("token", "create", name, "--scope", "operate", "--json").json
    assert set(made) == {"id", "name", "scope", "token"}
    assert daemon.request("POST", "/api/events", {"type": "a.b"}, token=made["token"])[0] == 201
    assert daemon.request("POST", "/api/prune", {}, token=made["token"])[0] == 403
    listed = daemon.cli("token", "list")
    assert name in listed.out
    assert made["token"] not in listed.out + daemon.cli("token", "list", "--json").out
    assert daemon.cli("token", "revoke", made["id"], "--json").json == {"revoked": made["id"]}
    daemon.wait_for("/healthz", lambda _: daemon.request("GET", "/api/status", token=made["token"])[0] == 401)
    assert daemon.cli("token", "revoke", made["id"]).code == 3
    raw = (daemon.home / "holdfast.db").read_bytes() + (daemon.home / "holdfast.db-wal").read_bytes()
    assert made["token"].encode() not in raw, "only its hash is kept"


def test_tokens_are_listed_page_by_page(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run_cli(home, "db", "migrate").code == 0
    made = sorted(run_cli(home, "token", "create", f"t{n}", "--json").json["id"] for n in range(3))
    first = run_cli(home, "token", "list", "--limit", "2", "--json").json
    assert [item["id"] for item in first["items"]] == made[:2]
    assert f"--after {made[1]}" in run_cli(home, "token", "list", "--limit", "2").out
    rest = run_cli(home, "token", "list", "--after", first["next"], "--json").json
    assert ([item["id"] for item in rest["items"]], rest["next"]) == (made[2:], None)
    assert run_cli(home, "token", "list", "--limit", "0").code == 2


def test_a_command_that_needs_only_the_store_needs_no_secret_of_the_daemons(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    text = "store: ${PLACE}\nhooks: {inbound: {github: {secret: '${NOBODY_SET_THIS}'}}}\n"
    (home / "holdfast.yml").write_text(text)
    place = {"PLACE": f"sqlite:///{home}/holdfast.db"}
    assert run_cli(home, "db", "migrate", env=place).code == 0
    assert run_cli(home, "token", "list", env=place).code == 0
    assert "PLACE is not set" in run_cli(home, "token", "list").err
    assert "NOBODY_SET_THIS is not set" in run_cli(home, "up", "--port", "0", env=place).err
    (home / "holdfast.yml").write_text("store: [a]\n")
    assert "store must be text" in run_cli(home, "token", "list").err


def test_for_people_only_the_tokens_text_is_on_stdout(daemon: Daemon) -> None:
    said = daemon.cli("token", "create", "pipe")
    assert said.out.startswith("hf_")
    assert len(said.out.split()) == 1
    assert "cannot be shown again" in said.err


def test_a_store_that_is_not_there_is_said_and_not_made(tmp_path: Path) -> None:
    for command in (("token", "list"), ("db", "backup", str(tmp_path / "copy.db"))):
        said = run_cli(tmp_path / "home", *command, "--store", f"sqlite:///{tmp_path}/none.db")
        assert said.code == 1
        assert "holdfast db migrate" in said.err
        assert not (tmp_path / "none.db").exists()
