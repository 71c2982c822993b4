"""TLS without a socket: bytes in, bytes out, so that it runs over TCP or inside another TLS connection.

asyncio's own TLS transport does not show whether part of a record has arrived. A connection that is used again must
know, because that part belongs to data that the receiver sent before the next request.
"""

from __future__ import annotations

import ssl

READ_BYTES = 256 * 1024
HEADER_BYTES = 5  # of a record: its type, the version, and the length of the rest in two bytes


class Tls:
    """The client side of one TLS connection."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._records = Records()
        self.closed = False
        self.error: ssl.SSLError | None = None

    @property
    def is_between_records(self) -> bool:
        return self._records.is_between

    def handshake(self) -> bool:
        """Continue the handshake; whether it is complete. Send `outgoing` afterwards, also after an error."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def feed(self, data: bytes) -> None:
        self._records.skip(data)
        self._incoming.write(data)

    def outgoing(self) -> bytes:
        return self._outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """The plain data of all complete records. Sets `closed` or `error` if the stream ended."""
        self.feed(data)
        parts = []
        try:
            while part := self._object.read(READ_BYTES):
                parts.append(part)
            self.closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Records:
    """Tracks where TLS records end in a stream of bytes.

    >>> records = Records()
    >>> records.skip(bytes.fromhex("170303 0002 ab"))
    >>> records.is_between
    False
    >>> records.skip(bytes.fromhex("cd"))
    >>> records.is_between
    True
    """

    def __init__(self) -> None:
        self._header = b""
        self._left = 0

    @property
    def is_between(self) -> bool:
        return not self._left and not self._header

    def skip(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                continue
            part = data[at : at + HEADER_BYTES - len(self._header)]
            self._header += part
            at += len(part)
            if len(self._header) == HEADER_BYTES:
                self._left, self._header = int.from_bytes(self._header[3:]), b""
