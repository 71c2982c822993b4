"""Interim answers (1xx), which may precede the final answer and do not decide anything."""

from __future__ import annotations

import re

STATUS_LINE_BYTES = 13  # `HTTP/1.1 200` and one more byte

_INTERIM = re.compile(rb"HTTP/\d\.\d 1(?!01)\d\d\b")
_BLANK_LINE = re.compile(rb"\n\r?\n")


def head_end(data: bytes) -> int | None:
    """Where the head of an answer ends; None if more is to come."""
    found = _BLANK_LINE.search(data)
    return found.end() if found is not None else None


def skip_interim(data: bytes) -> tuple[bytes, bool]:
    """The data after the interim answers, and whether it is certain that the final answer starts there.

    The parser takes `HTTP/1.0 100`, or one with `Connection: close`, for the last message of the connection and would
    drop the answer after it. 101 is a final answer: another protocol follows.

    >>> skip_interim(b"HTTP/1.0 100 Continue\\r\\n\\r\\nHTTP/1.1 204 No Content\\r\\n")
    (b'HTTP/1.1 204 No Content\\r\\n', True)
    >>> skip_interim(b"HTTP/1.1 1")
    (b'HTTP/1.1 1', False)
    """
    while True:
        data = data.lstrip(b"\r\n")
        if not _INTERIM.match(data):
            return data, len(data) >= STATUS_LINE_BYTES or not b"HTTP/".startswith(data[:5])
        end = head_end(data)
        if end is None:
            return data, False
        data = data[end:]
