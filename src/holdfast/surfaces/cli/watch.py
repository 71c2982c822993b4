"""`--watch`: show an answer again and again on one screen, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from holdfast.domain.errors import HoldfastError
from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client, Unreachable
from holdfast.surfaces.cli.output import encode_json, silence, visible
from holdfast.surfaces.cli.text_width import cut

EVERY_S = 1.0
"""Times grow older and deliveries end without an event."""
PAUSE_S = 0.2
"""Between two looks, however many events there are."""
RETRY_S = 1.0

Query = Mapping[str, KnownJson]
Lines = Callable[[KnownJson], list[str]]


def watch_answer(
    client: Client, path: str, query: Query, lines: Lines, as_json: bool, wanted: Query | None = None
) -> None:
    """Show the answer of a path every second, and at once when an event comes that fits `wanted`.

    With `as_json` each answer is one line. The first failure to reach the daemon ends the command; later ones are
    shown, and the daemon is asked again.
    """
    changed = threading.Event()
    answer = client.get(path, query)
    listening = threading.Thread(target=_listen, args=(client, wanted or {}, changed), daemon=True)
    listening.start()
    screen = _JsonLines() if as_json else _Screen(sys.stdout) if terminal.is_terminal() else _Frames()
    try:
        with screen.open(changed):
            while True:
                screen.show(answer, lines)
                time.sleep(PAUSE_S)
                changed.wait(EVERY_S - PAUSE_S)
                changed.clear()
                answer = _read_again(client, path, query, screen)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:  # as in `holdfast status --watch --json | head`
        silence(1)


def _read_again(client: Client, path: str, query: Query, screen: _Output) -> KnownJson:
    while True:
        try:
            return client.renew().get(path, query)
        except Unreachable as error:
            screen.note(error.message)
            time.sleep(RETRY_S)


def _listen(client: Client, wanted: Query, changed: threading.Event) -> None:
    """Set `changed` when an event comes. Without a live view the answer is still read every second."""
    while True:
        try:
            with client.renew().follow("/api/feed", wanted) as lines:
                for line in lines:
                    if line.startswith("data:"):
                        changed.set()
        except Unreachable:
            pass
        except HoldfastError:
            return
        time.sleep(RETRY_S)


class _Output:
    """Where answers go."""

    @contextmanager
    def open(self, changed: threading.Event) -> Iterator[None]:
        yield

    def show(self, answer: KnownJson, lines: Lines) -> None:
        raise NotImplementedError

    def note(self, text: str) -> None:
        sys.stderr.write(f"holdfast: {visible(text)}\n")


class _JsonLines(_Output):
    """One JSON object in each line."""

    def show(self, answer: KnownJson, lines: Lines) -> None:
        _write(sys.stdout, encode_json(answer) + "\n")


class _Frames(_Output):
    """For a pipe: each answer that looks different from the one before, with an empty line after it."""

    def __init__(self) -> None:
        self._last: list[str] = []

    def show(self, answer: KnownJson, lines: Lines) -> None:
        shown = lines(answer)
        if shown != self._last:
            self._last = shown
            _write(sys.stdout, "\n".join([*shown, "", ""]))


class _Screen(_Output):
    """The terminal's second screen, written in one piece so that it does not flicker.

    The last answer stays on the first screen when the command ends.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: list[str] = []

    @contextmanager
    def open(self, changed: threading.Event) -> Iterator[None]:
        def resized(number: int, frame: FrameType | None) -> None:
            changed.set()

        def ended(number: int, frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        before = {number: signal.signal(number, handler) for number, handler in
                  ((signal.SIGWINCH, resized), (signal.SIGTERM, ended), (signal.SIGHUP, ended))}  # fmt: skip
        _write(self._stream, "\x1b[?1049h\x1b[?25l")
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            _write(self._stream, "\x1b[?25h\x1b[?1049l" + "\n".join([*self._last, ""]))

    def show(self, answer: KnownJson, lines: Lines) -> None:
        self._last = lines(answer)
        self._draw(self._last)

    def note(self, text: str) -> None:
        self._draw([*self._last, "", cut(f"! {visible(text)}", terminal.width())])

    def _draw(self, lines: list[str]) -> None:
        room = terminal.height() - 1
        if len(lines) > room:
            lines = [*lines[: room - 1], f"… {len(lines) - room + 1:,} more lines"]
        _write(self._stream, "\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines) + "\x1b[J")


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
