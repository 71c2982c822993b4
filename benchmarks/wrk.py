"""HTTP load over kept-alive connections by `wrk`, a generator that is never the bottleneck here."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks import debian

_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


class Load(NamedTuple):
    """The rate and latencies measured by the clients."""

    per_second: float
    p50_ms: float
    p99_ms: float


def post(url: str, body: bytes, headers: Mapping[str, str], *, connections: int, seconds: float) -> Load:
    """POST the same body repeatedly over so many connections."""
    binary, environment = debian.find("wrk", "wrk", "libluajit-5.1-2", "libluajit-5.1-common")
    with tempfile.TemporaryDirectory(prefix="hf-wrk-") as folder:
        script = Path(folder) / "post.lua"
        lines = ['wrk.method = "POST"', f"wrk.body = {json.dumps(body.decode())}"]
        lines += [f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in headers.items()]
        script.write_text("\n".join(lines) + "\n")
        command = [binary, "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", script, url]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return read(done.stdout)


def read(output: str) -> Load:
    """Parse the output of `wrk --latency`.

    >>> read("50%  525.00us\\n 99%    1.40ms\\nRequests/sec:   1826.01\\n")
    Load(per_second=1826.01, p50_ms=0.525, p99_ms=1.4)
    """
    if trouble := re.search(r"(Non-2xx or 3xx responses: \d+|Socket errors: .*)", output):
        raise RuntimeError(f"the load met {trouble[1]}")
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", output)
    if rate is None:
        raise RuntimeError(f"wrk printed no rate: {output[-200:]}")
    return Load(float(rate[1]), _latency(output, "50%"), _latency(output, "99%"))


def _latency(output: str, percentile: str) -> float:
    found = re.search(rf"{percentile}\s+([0-9.]+)(us|ms|s|m)", output)
    if found is None:
        raise RuntimeError(f"wrk printed no latency of {percentile}: {output[-200:]}")
    return round(float(found[1]) * _UNITS[found[2]], 6)
