"""A local nginx that answers every POST with 200: a receiver with minimal cost.

If it is not installed, the Debian package is downloaded once into a cache folder; nothing is installed.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import debian

READY_S = 20.0
_LOG = "{} received buffer=64k flush=50ms"
_CONFIG = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  log_format received '$msec $http_webhook_id'; access_log {log};
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000; client_body_buffer_size 64k;
  server {{ listen 127.0.0.1:{port} backlog=1024; location / {{ return 200 "ok"; }} }}
}}
"""


@contextlib.contextmanager
def running(log: Path | None = None) -> Iterator[str]:
    """Its address, such as `http://127.0.0.1:8080`. It writes the time and `webhook-id` of each request to `log`."""
    binary, environment = debian.find("nginx", "nginx")
    with tempfile.TemporaryDirectory(prefix="hf-nginx-") as folder:
        port = _free_port()
        config = Path(folder) / "nginx.conf"
        config.write_text(_CONFIG.format(folder=folder, port=port, log=_LOG.format(log) if log else "off"))
        process = subprocess.Popen([binary, "-c", config, "-p", folder, "-e", f"{folder}/error.log"], env=environment)
        try:
            _wait(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(10)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > ends:
            raise RuntimeError("nginx did not start")
        time.sleep(0.02)
