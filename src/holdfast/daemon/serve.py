"""The HTTP server. It runs in the daemon's event loop and leaves signals to the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable

from holdfast.domain.errors import BadConfig

CONNECTIONS_MAX = 2000
FILES_WANTED = 8192
BACKLOG = 1024
SOCKET_MESSAGE_MAX = 64 * 1024
ACCEPT_MAX = 32
"""How many connections are accepted in one step of the event loop. Those above the limit are closed afterwards."""


def bind(host: str, port: int) -> socket.socket:
    """Open the port. Port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP explicitly: asyncio turns off Nagle's algorithm only if the listening socket names the protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise BadConfig(
            f"cannot listen on {host}:{port}: {error.strerror}. Another daemon may be running; "
            f"choose another port with --port"
        ) from None
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def connections_max() -> int:
    """At most half of the process's file descriptors: deliveries and the store need some too.

    Many systems start a process with 1,024 of them and let it have more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else max(8, min(CONNECTIONS_MAX, soft // 2))


class Server:
    """Uvicorn as a task of the running event loop. It does not wake up while idle."""

    def __init__(self, app: Callable[..., object], listener: socket.socket, connections: int | None = None) -> None:
        import uvicorn

        from holdfast.surfaces.rest.http_limits import connection_class, open_socket

        self._running, self._stopping = asyncio.Event(), asyncio.Event()
        most = connections_max() if connections is None else connections
        config = uvicorn.Config(
            app,
            http=connection_class(most, self._stopping.is_set),
            ws=open_socket,  # type: ignore[arg-type]
            ws_max_size=SOCKET_MESSAGE_MAX,
            ws_per_message_deflate=False,
            proxy_headers=False,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,  # the connection class adds it; uvicorn needs a timer for it
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
            backlog=ACCEPT_MAX,
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        self._server.main_loop = self._main_loop  # type: ignore[method-assign]  # uvicorn's own wakes up ten times a second
        self._listener = listener
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._server.serve([self._listener]), name="holdfast:http")
        running = asyncio.ensure_future(self._running.wait())
        await asyncio.wait([running, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            running.cancel()
            await self._task

    async def stop(self) -> None:
        """Answer the requests that have begun, for a limited time. Afterwards no connection is open."""
        if self._task is not None:
            self._stopping.set()
            await self._task
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()

    async def _main_loop(self) -> None:
        self._listener.listen(BACKLOG)  # asyncio has lowered it to ACCEPT_MAX
        self._running.set()
        await self._stopping.wait()
