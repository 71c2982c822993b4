"""The transport of one connection: TCP, with TLS to a proxy, to the receiver, or to both on top of it."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import sys
from array import array
from typing import Protocol, cast

from holdfast.net.tls import Tls

SETUP_MAX = 1024 * 1024  # bytes that may wait to be read while a connection is being set up

RTT_AT = 68  # where Linux's tcp_info holds the round-trip time, in microseconds

if sys.platform == "linux":
    import fcntl
    import termios

    def unacknowledged(fd: int, count: array[int]) -> int:
        """How many sent bytes the peer's TCP has not acknowledged; `count` is a buffer for the result."""
        try:
            fcntl.ioctl(fd, termios.TIOCOUTQ, count)
        except OSError:  # some Linux emulations do not support it
            return 0
        return count[0]

    def round_trip_s(sock: socket.socket) -> float:
        """The round-trip time, as the kernel measured it when it connected."""
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RTT_AT + 4)
        except OSError:
            return 0.0
        return int.from_bytes(info[RTT_AT:], sys.byteorder) / 1e6
else:

    def unacknowledged(fd: int, count: array[int]) -> int:
        return 0

    def round_trip_s(sock: socket.socket) -> float:
        return 0.0


class TransportReader(Protocol):
    """Receives the data of a transport."""

    def arrived(self, ended: bool) -> None:
        """Bytes have arrived, or the end. With TLS they are not decrypted yet."""

    def received(self, data: bytes) -> None: ...

    def lost(self, error: Exception | None) -> None: ...


class Transport(asyncio.BufferedProtocol):
    """Read with `more` during set-up, and by its `TransportReader` from then on.

    All transports of an event loop may share one `buffer`, because data is taken out of it at once. Without a buffer,
    asyncio allocates 256 KiB for every read, which costs more than the rest of a small request.
    """

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = memoryview(buffer)
        self._tcp: asyncio.Transport | None = None
        self._fd, self._count = -1, array("i", [0])
        self._poll = select.poll()
        self._layers: list[Tls] = []
        self._reader: TransportReader | None = None
        self._unread = b""
        self._arrival: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._counts = False
        self.is_open = False
        self.round_trip_s = 0.0

    # Set-up

    async def more(self) -> bytes:
        """The data that has arrived since the last call; an `OSError` if the connection has ended."""
        while not self._unread:
            if not self.is_open:
                raise self._error or ConnectionResetError("the peer closed the connection")
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        data, self._unread = self._unread, b""
        return data

    async def secure(self, context: ssl.SSLContext, name: str) -> None:
        """Use TLS from here on, with the host of this name."""
        tls = Tls(context, name)
        try:
            while not tls.handshake():
                self._send(tls.outgoing())
                tls.feed(await self.more())
        finally:
            self._send(tls.outgoing())  # the end of the handshake, or the alert after a failure
        self._layers.append(tls)
        self._unread = tls.decrypt(b"")

    def give_to(self, reader: TransportReader) -> None:
        """Pass all further data to a reader, starting with what `more` has not returned yet."""
        self._reader = reader
        if self._unread:
            unread, self._unread = self._unread, b""
            reader.received(unread)

    # Use

    @property
    def is_quiet(self) -> bool:
        """Whether there is no unread data, neither in the socket nor as part of a TLS record.

        The end of the connection counts as data, and so does a TLS session ticket.
        """
        return not self._poll.poll(0) and (not self._layers or all(tls.is_between_records for tls in self._layers))

    @property
    def unsent(self) -> int:
        """How many written bytes the kernel has not accepted yet; 0 once the connection has ended."""
        return self._tcp.get_write_buffer_size() if self._tcp is not None else 0

    @property
    def outstanding(self) -> int:
        """How many written bytes the peer's TCP has not acknowledged; 0 once the connection has ended.

        Everything the peer sends after it has received a byte acknowledges that byte. So as long as no byte of a
        request is acknowledged, nothing that has arrived is an answer to it. If the kernel does not report this, it is
        the number of bytes that the kernel has not accepted.
        """
        if self._tcp is None or not self._counts:
            return self.unsent
        return self.unsent + unacknowledged(self._fd, self._count)

    def write(self, data: bytes) -> int:
        """Write the data in one piece; returns the number of bytes after encryption."""
        if self._layers:
            for tls in reversed(self._layers):
                data = tls.encrypt(data)
        if self._tcp is not None:
            self._tcp.write(data)
        return len(data)

    def abort(self) -> None:
        """Close at once. An orderly end of TLS would wait for the peer."""
        self.is_open = False
        if self._tcp is not None:
            self._tcp.abort()

    def _send(self, data: bytes, below: int | None = None) -> None:
        """Send bytes of a TLS layer through the layers below it."""
        if not data or not self.is_open:
            return
        for tls in reversed(self._layers[:below]):
            data = tls.encrypt(data)
        cast(asyncio.Transport, self._tcp).write(data)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_open, self._tcp = True, cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        self._fd, self.round_trip_s = sock.fileno(), round_trip_s(sock)
        self._poll.register(self._fd, select.POLLIN)
        # Nothing was written yet. If the kernel reports another number than 0, its numbers cannot be used.
        self._counts = unacknowledged(self._fd, self._count) == 0

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        if self._reader is not None:
            self._reader.arrived(ended=False)
        if self._layers:
            data = self._decrypt(data)
        if not data:
            return
        if self._reader is not None:
            self._reader.received(data)
            return
        self._unread += data
        if len(self._unread) > SETUP_MAX:
            self.abort()
        self._wake()

    def _decrypt(self, data: bytes) -> bytes:
        for number, tls in enumerate(self._layers):
            data = tls.decrypt(data)
            self._send(tls.outgoing(), number)  # a key update needs an answer
            if tls.closed or tls.error is not None:
                self._error = tls.error
                self.abort()
        return data

    def eof_received(self) -> None:
        self.is_open = False
        if self._reader is not None:
            self._reader.arrived(ended=True)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open, self._tcp = False, None
        self._error = self._error or error
        self._wake()
        if self._reader is not None:
            self._reader.lost(self._error)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
