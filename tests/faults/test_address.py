"""The address file of a dead daemon: a process that takes over its port gets no token."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon import Daemon, run_cli
from holdfast.domain.errors import BadConfig
from holdfast.home import AddressFile, Home, read_address, read_secret, write_secret


class Stranger:
    """Listens on the port of a dead daemon, and records what it receives."""

    def __init__(self, port: int) -> None:
        self.received = b""
        self._line = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                caller, _ = self._line.accept()
            except OSError:
                return
            with caller:
                self.received += caller.recv(65536)
                caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def close(self) -> bytes:
        self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()
        self._thread.join(5)
        return self.received


def test_after_a_kill_no_token_goes_to_the_next_process_on_the_port(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        port = urlsplit(daemon.url).port
        assert port is not None
        daemon.kill9()
        assert (daemon.home / "address").exists(), "the scene is set wrong: a killed daemon leaves its address behind"
        stranger = Stranger(port)
        try:
            status = daemon.cli("status")
            emitted = daemon.cli("emit", "a.b", "--payload", '{"canary": 1}', "--json")
        finally:
            received = stranger.close()
        assert received == b""
        assert (status.code, emitted.code, emitted.json["spooled"]) == (4, 0, True)
        assert "no daemon runs in" in status.err


def test_without_a_daemon_the_default_port_is_not_contacted(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", "hf_canary")
    try:
        stranger = Stranger(4653)
    except OSError:
        pytest.skip("the usual port is taken on this machine")
    try:
        said = run_cli(tmp_path, "status")
    finally:
        received = stranger.close()
    assert (said.code, received) == (4, b"")


def test_an_address_is_trusted_while_its_writer_is_alive(tmp_path: Path) -> None:
    path = tmp_path / "address"
    assert read_address(path) is None
    first = AddressFile(path, "http://127.0.0.1:1")
    assert read_address(path) == "http://127.0.0.1:1"
    assert path.stat().st_mode & 0o777 == 0o600
    second = AddressFile(path, "http://127.0.0.1:2")
    first.end()
    assert read_address(path) == "http://127.0.0.1:2", "who goes must not take away another's"
    second.end()
    assert not path.exists()


def test_an_address_without_a_live_writer_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "address"
    write_secret(path, "http://127.0.0.1:1")
    assert read_address(path) is None
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert read_address(path) is None
    path.unlink()
    os.mkfifo(path)
    assert read_address(path) is None


def test_a_token_that_is_not_a_plain_file_of_the_owner_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_secret(tmp_path / "real", "canary")
    path.symlink_to(tmp_path / "real")
    with pytest.raises(BadConfig, match="plain file"):
        read_secret(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadConfig, match="plain file"):
        read_secret(path)
    path.unlink()
    path.touch(0o600)
    with pytest.raises(BadConfig, match="is empty"):
        read_secret(path)
    path.write_bytes(b"\xff\xfe canary")
    assert read_secret(path) is not None


def test_a_home_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(BadConfig, match="belongs to another user"):
        Home(tmp_path).make()
