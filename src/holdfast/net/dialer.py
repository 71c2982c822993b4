"""New connections: to the very address that the guard vetted, or through a proxy's tunnel."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

import aiohappyeyeballs

from holdfast.net.answer import Answer, RequestError
from holdfast.net.connection import Connection
from holdfast.net.guard import ANSWERS_MAX, Guard, lookup
from holdfast.net.interim import head_end, skip_interim
from holdfast.net.proxy import Proxy, connect_status
from holdfast.net.route import Route
from holdfast.net.transport import Transport
from holdfast.ports import in_thread

STAGGER_S = 0.25  # then the next address of a name is tried in parallel with one that does not answer
TUNNEL_HEAD_MAX = 16 * 1024
BUFFER_BYTES = 64 * 1024


class Dialer:
    """Opens connections. TCP, the proxy's answer and TLS together take at most `connect_s`."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, connect_s: float) -> None:
        self._guard, self._tls, self._connect_s = guard, tls, connect_s
        self._buffer = bytearray(BUFFER_BYTES)

    async def start(self) -> ssl.SSLContext:
        """Load the system's certificates without blocking the event loop."""
        if self._tls is None:
            self._tls = await in_thread("files", _default_context)
        return self._tls

    async def dial(self, route: Route, answer: Answer) -> Connection:
        addresses = await (self._vetted(route) if route.proxy is None else self._vetted_proxy(route, route.proxy))
        proxy = route.proxy
        if not route.rule.plain or (proxy is not None and proxy.secured):
            await self.start()
        answer.restart_silence(self._connect_s)
        try:
            async with asyncio.timeout(self._connect_s) as limit:
                return await self._connect(route, addresses)
        except OSError as error:
            if limit.expired():
                through = f" through the proxy {proxy.name}" if proxy is not None else ""
                raise RequestError(f"no connection{through} within {self._connect_s:g} s") from None
            peer = f" to the proxy {proxy.name}" if proxy is not None else ""
            raise RequestError(f"could not connect{peer}: {_reason(error)}") from None

    async def _vetted(self, route: Route) -> list[str]:
        target, (plain, trusted) = route.target, route.rule
        if target.address is not None:
            self._guard.vet([target.address], port=target.port, plain=plain, trusted=trusted)
            return [target.address]
        try:
            return await self._guard.resolve(target.host, target.port, plain=plain, trusted=trusted)
        except OSError as error:
            raise RequestError(f"the host's name was not found: {error.strerror or 'no answer'}") from None

    async def _vetted_proxy(self, route: Route, proxy: Proxy) -> list[str]:
        """The proxy's addresses. A target that the guard forbids is refused here too, before the proxy is asked.

        The proxy's own address is not vetted: the operator chose it, and it is mostly a private one.
        """
        await self._guard.check_resolved(route.target, trusted=route.rule.trusted)
        try:
            addresses = await lookup(proxy.host, proxy.port)
        except OSError as error:
            why = error.strerror or "no answer"
            raise RequestError(f"the name of the proxy {proxy.name} was not found: {why}") from None
        return addresses[:ANSWERS_MAX]

    async def _connect(self, route: Route, addresses: list[str]) -> Connection:
        target, proxy = route.target, route.proxy
        port = target.port if proxy is None else proxy.port
        sock = await aiohappyeyeballs.start_connection(
            [_address_info(address, port) for address in addresses],
            happy_eyeballs_delay=STAGGER_S,
            interleave=1,
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, transport = await asyncio.get_running_loop().create_connection(lambda: Transport(self._buffer), sock=sock)
        try:
            if proxy is not None:
                await self._tunnel(transport, proxy, route.authority)
            if not target.plain:
                await self._secure(transport, target.host.rstrip("."), "")
        except BaseException:
            transport.abort()
            raise
        return Connection(transport)

    async def _tunnel(self, transport: Transport, proxy: Proxy, authority: str) -> None:
        if proxy.secured:
            await self._secure(transport, proxy.host.rstrip("."), f" to the proxy {proxy.name}")
        transport.write(proxy.connect_request(authority))
        try:
            head, rest = await _read_head(transport)
        except OSError as error:
            raise RequestError(f"the proxy {proxy.name} closed the connection: {_reason(error)}") from None
        match connect_status(head):
            case None:
                raise RequestError(f"the proxy {proxy.name} did not answer in HTTP")
            case 407:
                raise RequestError(
                    f"the proxy {proxy.name} demands a user and a password, or refuses those it was sent (407)"
                )
            case status if not 200 <= status <= 299:
                raise RequestError(f"the proxy {proxy.name} refused to connect to {authority}: it answered {status}")
        if rest:
            raise RequestError(f"the receiver behind the proxy {proxy.name} sent data before it was sent a request")

    async def _secure(self, transport: Transport, name: str, peer: str) -> None:
        try:
            await transport.secure(await self.start(), name)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message or type(error).__name__
            raise RequestError(f"TLS{peer}: the certificate is not valid: {why}") from None
        except ssl.SSLError as error:
            raise RequestError(f"TLS{peer} failed: {error.reason or 'the handshake broke off'}") from None
        except OSError as error:
            raise RequestError(f"TLS{peer} failed: {_reason(error)}") from None


async def _read_head(transport: Transport) -> tuple[bytes, bytes]:
    """The head of the proxy's answer, and what followed it. A head that is too long counts as not HTTP."""
    head, read = b"", 0
    while (end := head_end(head)) is None:
        if read > TUNNEL_HEAD_MAX:
            return b"", b""
        data = await transport.more()
        read += len(data)
        head, _ = skip_interim(head + data)
    return head[:end], head[end:]


def _reason(error: OSError) -> str:
    """Why a connection failed. asyncio's message names only the address; the error number gives the reason."""
    return (os.strerror(error.errno) if error.errno else str(error)) or type(error).__name__


def _address_info(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


def _default_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
