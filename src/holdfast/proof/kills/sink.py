"""The receiver: a separate process that is never killed, fails by seed, and records every request.

It implements just enough HTTP to receive webhooks, and shares no code with the code under test.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
import socket
import struct
import sys
import time
from pathlib import Path

from holdfast.proof.kills.records import (
    LEASE_HEADER,
    SLOT_HEADER,
    UNKNOWN_LIFE,
    Answered,
    Received,
    RecordFile,
    digest_json,
)

FAULTS = ("503", "reset", "lost")
DELAY_S = 0.03
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


class Sink:
    """Fails a share `fail` of the requests. Which ones follows from the seed, the event's key and the attempt."""

    def __init__(self, records: RecordFile, seed: int, fail: float) -> None:
        self._records, self._seed, self._fail = records, seed, fail
        self._count = 0
        self._tries: dict[tuple[str, str], int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side closes it."""
        try:
            while await self._request(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the daemon died, or closed an idle connection
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *headers = head.split("\r\n")
        sizes = [text.partition(":")[2] for text in headers if text.lower().startswith("content-length:")]
        body = await reader.readexactly(int(sizes[0]) if sizes else 0)
        numbers = _number(headers, LEASE_HEADER), _number(headers, SLOT_HEADER)
        received = self._note(line.split(" ")[1].strip("/"), body, _sender(headers), *numbers)
        answer, delay_s = self._choose(received)
        await asyncio.sleep(delay_s)
        self._records.write(Answered(received.n, answer, time.monotonic_ns()))
        return await _reply(writer, answer)

    def _note(self, contract: str, body: bytes, life: int, token: int | None, slot_ns: int | None) -> Received:
        event = json.loads(body)
        self._count += 1
        received = Received(
            self._count, contract, event["id"], event["stream"], event["seq"], event["payload"]["key"],
            digest_json(event["payload"]), hashlib.sha256(body).hexdigest()[:32],
            time.time_ns() // 1_000_000, time.monotonic_ns(), life, token, slot_ns,
        )  # fmt: skip
        self._records.write(received)
        return received

    def _choose(self, received: Received) -> tuple[str, float]:
        delivery = (received.contract, received.key)
        turn = self._tries[delivery] = self._tries.get(delivery, 0) + 1
        chance = random.Random(f"{self._seed}/{received.contract}/{received.key}/{turn}")
        answer = chance.choice(FAULTS) if chance.random() < self._fail else "ok"
        return answer, chance.uniform(0, DELAY_S)


def _sender(headers: list[str]) -> int:
    """The life that sent this request, from its `User-Agent`."""
    agents = [text for text in headers if text.lower().startswith("user-agent:")]
    life = re.search(r"life-(\d+)", agents[0]) if agents else None
    return UNKNOWN_LIFE if life is None else int(life[1])


def _number(headers: list[str], name: str) -> int | None:
    """What the sender named in a header."""
    found = [text.partition(":")[2] for text in headers if text.lower().startswith(f"{name.lower()}:")]
    return int(found[0]) if found else None


async def _reply(writer: asyncio.StreamWriter, answer: str) -> bool:
    """Send the response. Returns whether the connection stays open."""
    if answer == "reset":
        wire = writer.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False
    if answer == "lost":
        return False
    writer.write(_BUSY if answer == "503" else _OK)
    await writer.drain()
    return True


async def run(path: Path, seed: int, fail: float) -> None:
    sink = Sink(RecordFile(path), seed, fail)
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0, backlog=256)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # The parent holds stdin open; the sink ends with it.
    await asyncio.to_thread(sys.stdin.read)
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--fail", type=float, required=True)
    given = parser.parse_args()
    asyncio.run(run(given.records, given.seed, given.fail))


if __name__ == "__main__":
    main()
