"""A proxy in front of PostgreSQL that drops the response to COMMIT."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

NAME = ".s.PGSQL.5432"


@contextlib.contextmanager
def swallowing_commits(server: Path, folder: Path) -> Iterator[threading.Event]:
    """Listen in `folder` for one client. The event is set when a commit was executed and its response dropped."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / NAME))
    listener.listen(4)
    swallowed, stop = threading.Event(), threading.Event()
    accepting = threading.Thread(target=_accept, args=(listener, server, swallowed, stop), daemon=True)
    accepting.start()
    try:
        yield swallowed
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(10)


def _accept(listener: socket.socket, server: Path, swallowed: threading.Event, stop: threading.Event) -> None:
    pumps: list[threading.Thread] = []
    with contextlib.suppress(OSError):
        while not stop.is_set():
            client, _ = listener.accept()
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(str(server / NAME))
            deaf = threading.Event()
            for pump in (_ask, _answer):
                pumps.append(threading.Thread(target=pump, args=(client, upstream, deaf, swallowed), daemon=True))
                pumps[-1].start()
    for pump_thread in pumps:
        pump_thread.join(10)


def _ask(client: socket.socket, upstream: socket.socket, deaf: threading.Event, swallowed: threading.Event) -> None:
    """Forward the client's messages; after its COMMIT no response is forwarded."""
    with contextlib.suppress(OSError):
        while data := client.recv(65536):
            if b"COMMIT" in data.upper():
                deaf.set()
            upstream.sendall(data)
    _hang_up(upstream)


def _answer(client: socket.socket, upstream: socket.socket, deaf: threading.Event, swallowed: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := upstream.recv(65536):
            if deaf.is_set():
                swallowed.set()
                break
            client.sendall(data)
    for end in (client, upstream):
        _hang_up(end)
        end.close()


def _hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
