"""Runs the daemon's event loop in place of `asyncio.run`, for two reasons.

`SystemExit` or `KeyboardInterrupt` in any task ends `asyncio.run`, so one failing handler would end the daemon. And at
its end `asyncio.run` waits for the threads of the default pool, which a handler may occupy forever.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Coroutine
from typing import Any

from holdfast.logs import LogThrottle

JOIN_S = 0.5

log = logging.getLogger("holdfast.loop")


def run(main: Coroutine[object, object, int]) -> int:
    """Run the daemon to its end and return its exit code."""
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(_ExceptionLog())
        code = _run_to_end(loop, loop.create_task(main, name="holdfast"))
        _cancel_all(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    _exit_if_threads_run(code)
    return code


def _run_to_end(loop: asyncio.AbstractEventLoop, main: asyncio.Task[int]) -> int:
    while True:
        try:
            return loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt) as error:
            if main.done():
                raise
            log.error(
                "a handler raised %s, which would have ended the process; the daemon continues",
                type(error).__name__,
                exc_info=error,
            )


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=JOIN_S))


def _exit_if_threads_run(code: int) -> None:
    """Exit at once if threads are still running: the interpreter would wait for them without limit."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(JOIN_S)
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)


class _ExceptionLog:
    """Logs errors that asyncio reports, throttled: out of file descriptors, it reports every failed accept."""

    def __init__(self) -> None:
        self._throttle = LogThrottle(log, burst=3)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # asyncio's type
        message, error = context.get("message", "unexpected error"), context.get("exception")
        self._throttle.log(logging.ERROR, (message, type(error)), "%s: %s", message, error, error=error)
