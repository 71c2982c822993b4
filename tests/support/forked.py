"""Runs a function in a forked child."""

from __future__ import annotations

import faulthandler
import os
import warnings
from collections.abc import Callable

HANGS_S = 60


def in_fork(work: Callable[[], object]) -> str | None:
    """Call `work` in a child. Returns None, or the text of its exception. A child that hangs shows where, and ends."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that other threads are running is what is tested
        child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            work()
            code = 0
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode()[:4096])
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == 0 else text or f"the child ended with {code}"
