"""The bytes of one connection: TCP, and over it TLS with a proxy, with the receiver, or with both."""

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
        """How many of the bytes that the kernel took the other side's TCP has not acknowledged; read into `count`."""
        try:
            fcntl.ioctl(fd, termios.TIOCOUTQ, count)
        except OSError:  # not every system that calls itself Linux knows it
            return 0
        return count[0]

    def round_trip_s(sock: socket.socket) -> float:
        """How long a round trip to the other side takes, as measured by the kernel when it connected."""
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


class Reader(Protocol):
    """What a wire reports to."""

    def arrived(self, ended: bool) -> None:
        """Bytes have come, or the end. With TLS it is not known yet what they say."""

    def received(self, data: bytes) -> None: ...

    def lost(self, error: Exception | None) -> None: ...


class Wire(asyncio.BufferedProtocol):
    """Read with `more` while it is being set up, and by its `Reader` from then on.

    All wires of an event loop may share one `buffer`: what is read into it is taken out at once. Otherwise asyncio
    allocates 256 KiB for every read, which costs more than the rest of a small request.
    """

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = memoryview(buffer)
        self._transport: asyncio.Transport | None = None
        self._fd, self._count = -1, array("i", [0])
        self._poll = select.poll()
        self._layers: list[Tls] = []
        self._reader: Reader | None = None
        self._unread = b""
        self._arrival: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._counts = False
        self.is_open = False
        self.round_trip_s = 0.0

    # Setting up

    async def more(self) -> bytes:
        """What has arrived since; an `OSError` if the connection has ended."""
        while not self._unread:
            if not self.is_open:
                raise self._error or ConnectionResetError("the other side closed the connection")
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        data, self._unread = self._unread, b""
        return data

    async def secure(self, context: ssl.SSLContext, name: str) -> None:
        """Speak TLS from here on, with the host of this name."""
        tls = Tls(context, name)
        try:
            while not tls.handshake():
                self._send(tls.outgoing())
                tls.feed(await self.more())
        finally:
            self._send(tls.outgoing())  # the end of the handshake, or the alert that says why there is none
        self._layers.append(tls)
        self._unread = tls.decrypt(b"")

    def give_to(self, reader: Reader) -> None:
        """Hand over what arrives from now on, and what nobody has read so far."""
        self._reader = reader
        if self._unread:
            unread, self._unread = self._unread, b""
            reader.received(unread)

    # Use

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has arrived that nobody has read: not in the socket, and no part of a TLS record.

        The end of the connection counts as something, and so does a TLS session ticket.
        """
        return not self._poll.poll(0) and (not self._layers or all(tls.is_between_records for tls in self._layers))

    @property
    def unsent(self) -> int:
        """How many of the bytes written the kernel has not taken; 0 once the connection has ended."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def outstanding(self) -> int:
        """How many of the bytes written the other side's TCP has not acknowledged; 0 once the connection has ended.

        Whatever the other side sends after it has received a byte acknowledges that byte. So as long as none of a
        request is acknowledged, nothing that has arrived is an answer to it. Where the kernel does not say, this counts
        what the kernel has not taken.
        """
        if self._transport is None or not self._counts:
            return self.unsent
        return self.unsent + unacknowledged(self._fd, self._count)

    def write(self, data: bytes) -> int:
        """In one piece; how many bytes that makes on the wire."""
        if self._layers:
            for tls in reversed(self._layers):
                data = tls.encrypt(data)
        if self._transport is not None:
            self._transport.write(data)
        return len(data)

    def abort(self) -> None:
        """Close at once. Nothing waits to be sent, and an orderly end of TLS would wait for the other side."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _send(self, data: bytes, below: int | None = None) -> None:
        """Bytes of a TLS layer, over the layers below it."""
        if not data or not self.is_open:
            return
        for tls in reversed(self._layers[:below]):
            data = tls.encrypt(data)
        cast(asyncio.Transport, self._transport).write(data)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_open, self._transport = True, cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        self._fd, self.round_trip_s = sock.fileno(), round_trip_s(sock)
        self._poll.register(self._fd, select.POLLIN)
        self._counts = (
            unacknowledged(self._fd, self._count) == 0
        )  # nothing was written yet: any other number means nothing

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
            self._send(tls.outgoing(), number)  # a change of keys is answered by one
            if tls.closed or tls.error is not None:
                self._error = tls.error
                self.abort()
        return data

    def eof_received(self) -> None:
        self.is_open = False
        if self._reader is not None:
            self._reader.arrived(ended=True)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open, self._transport = False, None
        self._error = self._error or error
        self._wake()
        if self._reader is not None:
            self._reader.lost(self._error)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
