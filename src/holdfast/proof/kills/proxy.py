"""The network between one daemon and the database servers: a separate process that can be cut and healed.

A line on stdin says what to do: `cut both`, `cut up` (only what the daemon sends), `cut down` (only the answers),
`heal` (all that was held arrives late) or `reset` (connections break, and new ones work).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

PIECE = 65536
UP, DOWN = "up", "down"


class Proxy:
    """Connections wait while their direction is cut, as packets would on a network without a route."""

    def __init__(self) -> None:
        self._open = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self._writers: set[asyncio.StreamWriter] = set()
        self.heal()

    def cut(self, direction: str) -> None:
        for name in (UP, DOWN) if direction == "both" else (direction,):
            self._open[name].clear()

    def heal(self) -> None:
        for event in self._open.values():
            event.set()

    def reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self.heal()

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection to the server at `port`."""
        self._writers.add(writer)
        try:
            await self._open[UP].wait()
            there, upward = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self._end(writer)
            return
        self._writers.add(upward)
        try:
            await asyncio.gather(self._pipe(UP, reader, upward), self._pipe(DOWN, there, writer))
        finally:
            self._end(writer)
            self._end(upward)

    async def _pipe(self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE):
                await self._open[direction].wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()


async def run(ports: list[int]) -> None:
    proxy = Proxy()
    servers = []
    for port in ports:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = port) -> None:
            await proxy.serve(port, reader, writer)

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
    sys.stdout.write(" ".join(str(server.sockets[0].getsockname()[1]) for server in servers) + "\n")
    sys.stdout.flush()
    # The parent holds stdin open; the proxy ends with it.
    while words := (await asyncio.to_thread(sys.stdin.readline)).split():
        match words:
            case ["cut", direction]:
                proxy.cut(direction)
            case ["heal"]:
                proxy.heal()
            case ["reset"]:
                proxy.reset()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, action="append", required=True)
    asyncio.run(run(parser.parse_args().port))


if __name__ == "__main__":
    main()
