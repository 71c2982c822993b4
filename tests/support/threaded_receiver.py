"""A webhook receiver in its own threads: it can send while the test's event loop is blocked."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

WAIT_S = 60.0

Stream = socket.socket | ssl.SSLSocket


class Plan(NamedTuple):
    """What is sent after a request has been read: the answer in pieces, then bytes that belong to no request.

    `early`: the answer is sent when the head has been read, and the body is read after it.
    """

    answer: tuple[bytes, ...]
    stray: tuple[bytes, ...] = ()
    close: bool = False
    early: bool = False


class ThreadedReceiver:
    """Requests are identified by the number `n` at the end of their event id. `plan` defines each answer."""

    def __init__(self, plan: Callable[[int], Plan], tls: ssl.SSLContext | None = None) -> None:
        self._plan, self._tls = plan, tls
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._threads: list[threading.Thread] = []
        self._done: set[int] = set()
        self._progress = threading.Condition()
        self.port = self._server.getsockname()[1]
        self.received: Counter[int] = Counter()
        self.first_reads: list[bytes] = []
        self.connections = 0

    @contextmanager
    def running(self) -> Iterator[ThreadedReceiver]:
        acceptor = threading.Thread(target=self._accept)
        acceptor.start()
        try:
            yield self
        finally:
            self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            for thread in (acceptor, *self._threads):
                thread.join(WAIT_S)

    def wait(self, n: int) -> None:
        """Block this thread, and with it the event loop, until the plan of a request has been sent completely."""
        with self._progress:
            assert self._progress.wait_for(lambda: n in self._done, WAIT_S), f"request {n} was not answered"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ConnectionError):
            sock.settimeout(WAIT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream: Stream = self._tls.wrap_socket(sock, server_side=True) if self._tls is not None else sock
            with stream:
                while self._serve_one(stream):
                    pass

    def _serve_one(self, stream: Stream) -> bool:
        """Whether another request may follow."""
        data = stream.recv(256 * 1024)
        self.first_reads.append(data)
        head, body = _read_until_body(stream, data)
        n = int(_header(head, b"webhook-id").removeprefix(b"evt_"), 16)
        plan = self._plan(n)
        try:
            if plan.early:
                _send(stream, plan.answer)
            _read_body(stream, body, int(_header(head, b"content-length")))
            self.received[n] += 1
            _send(stream, plan.stray if plan.early else plan.answer + plan.stray)
        finally:
            with self._progress:
                self._done.add(n)
                self._progress.notify_all()
        return not plan.close


def _send(stream: Stream, pieces: tuple[bytes, ...]) -> None:
    for piece in pieces:
        stream.sendall(piece)


def _read_until_body(stream: Stream, data: bytes) -> tuple[bytes, bytes]:
    """The head of a request, and as much of its body as came with it."""
    while b"\r\n\r\n" not in data:
        data += _more(stream)
    head, _, body = data.partition(b"\r\n\r\n")
    return head, body


def _read_body(stream: Stream, body: bytes, length: int) -> None:
    missing = length - len(body)
    while missing > 0:
        missing -= len(_more(stream))


def _more(stream: Stream) -> bytes:
    if not (data := stream.recv(65536)):
        raise ConnectionResetError("the sender closed the connection")
    return data


def _header(head: bytes, name: bytes) -> bytes:
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    return next(value.strip() for key, _, value in lines if key.lower() == name)
