"""One WebSocket connection. Imported when the first client connects: most daemons never need it."""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from holdfast.surfaces.rest.event_stream import ABORT


class SocketConnection(WebSocketsSansIOProtocol):
    """Uvicorn's connection, which the application can abort if its client reads nothing."""

    async def run_asgi(self) -> None:
        self.scope[ABORT] = self._abort  # type: ignore[literal-required]
        await super().run_asgi()

    def _abort(self, last: bytes) -> None:
        self.transport.abort()
