"""`holdfast up`: one process from start to a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from holdfast.config.application import import_from_here
from holdfast.config.config import Config, load_config
from holdfast.config.secret_file import SecretFile
from holdfast.daemon import event_loop
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.daemon.stop_signals import StopSignals
from holdfast.domain.errors import HoldfastError, StoreBusy, StoreFailed
from holdfast.home import Home, Presence, shown_url, store_url, write_secret
from holdfast.ports import Application, Probe, SystemChance, in_thread, no_probe
from holdfast.store.open import open_store
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.surfaces.rest.app import App

STOP_S = 1.0  # beyond the grace time, to settle and to close
SWITCH_S = 0.0005
REACH_S, REACH_MAX_S = 0.2, 5.0

log = logging.getLogger("holdfast")


async def run_daemon(
    home: Home,
    host: str | None,
    port: int | None,
    app: Application | None,
    say: Callable[[str], None],
    probe: Probe = no_probe,
) -> int:
    """Run until a signal. Returns 0 after a clean stop and 1 if the store failed."""
    config = load_config(home.config)
    home.make()
    os.umask(0o077)
    url = app.url if app is not None else (os.environ.get("HOLDFAST_STORE") or config.store or store_url(home))
    listener = bind(host or config.host, config.port if port is None else port)
    runtime = _open_runtime(url, config, home, app, probe)
    stopping = asyncio.Event()
    signals = StopSignals(stopping.set, config.grace_s + STOP_S, runtime.describe_unfinished)
    with signals.installed(), _wake_socket(home, lambda: _wake_spool(runtime)):
        if not await _start(runtime, stopping, say):
            return 0
        with _short_switch_interval():
            await in_thread("files", _load_surfaces)
        surfaces = _surfaces(runtime, home, config, listener)
        server = Server(surfaces, listener)
        await server.start()
        address = _address(listener)
        presence = Presence(home.address_file, address)
        say(_greeting(address, shown_url(url), home))
        failed = await _wait_for_stop(stopping, runtime)
        deadline_s = time.monotonic() + config.grace_s
        say(f"Stopping: nothing new is started; running deliveries have {config.grace_s:g} s to finish.")
        await server.stop()
        presence.end()
        if failed is not None:
            say(f"Stopped because the store failed: {failed}")
            if runtime.engine.running():
                os._exit(1)  # a running handler may refuse to stop
            return 1
        if await runtime.stop(max(0.0, deadline_s - time.monotonic())):
            say(f"Stopped. {runtime.describe_unfinished()}")
            os._exit(0)  # the running handlers cannot be stopped in any other way
    say("Stopped cleanly.")
    return 0


def _open_runtime(url: str, config: Config, home: Home, app: Application | None, probe: Probe) -> Runtime:
    if any(":" in (source.normalizer or "") for source in config.inbound):
        import_from_here()
    driver = "sqlite3" if app is not None else "apsw"
    store = open_store(url, driver=driver, keep=True, own=app is None, probe=probe, **config.disk_limits)
    if app is None:
        return Runtime(store, config, home)
    return Runtime(
        store,
        config,
        home,
        handlers=app.handlers,
        normalizers=app.normalizers,
        contracts=app.contracts.all(),
        modules=app.modules,
    )


async def _start(runtime: Runtime, stopping: asyncio.Event, say: Callable[[str], None]) -> bool:
    """Start as soon as the store can be reached, without a time limit. False if a signal came first."""
    chance = SystemChance()
    for attempt in itertools.count():
        try:
            await runtime.start()
            return True
        except StoreBusy as error:
            if attempt == 0:
                say(f"Waiting for the store: {error.message}")
            pause_s = min(REACH_S * 2**attempt, REACH_MAX_S) * (1.0 + chance.fraction())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause_s)
        if stopping.is_set():
            say("Stopped before it started.")
            return False
    raise AssertionError("unreachable: the loop has no end")


def _load_surfaces() -> None:
    """Do the slow imports late and in a thread, while the engine already delivers."""
    importlib.import_module("holdfast.surfaces.rest.app")
    importlib.import_module("uvicorn")


@contextlib.contextmanager
def _short_switch_interval() -> Iterator[None]:
    """Switch threads more often: an importing thread releases the GIL at every file, and a busy loop holds it long."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _surfaces(runtime: Runtime, home: Home, config: Config, listener: socket.socket) -> App:
    from holdfast.surfaces.rest.app import build_app
    from holdfast.surfaces.rest.gate import Tokens

    if home.read_token() is None:
        write_secret(home.token, "hf_" + secrets.token_hex(32))
    host = listener.getsockname()[0]
    hosts = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host, *config.hosts}
    tokens = Tokens(SecretFile(home.token).text, runtime.operations.tokens.scope_of)
    return build_app(runtime.operations, tokens, hosts, config.body_max_bytes, config.inbound)


async def _wait_for_stop(stopping: asyncio.Event, runtime: Runtime) -> StoreFailed | None:
    runtime.loop.fatal.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    return runtime.loop.fatal.result() if runtime.loop.fatal.done() else None


def _wake_spool(runtime: Runtime) -> None:
    """Before the start there is no loop to wake; it reads the spool when it starts."""
    loop = getattr(runtime, "loop", None)
    if loop is not None:
        loop.wake("spool")


@contextlib.contextmanager
def _wake_socket(home: Home, wake: Callable[[], None]) -> Iterator[None]:
    """The datagram socket that short-lived processes write to after adding a spool file."""
    home.socket.unlink(missing_ok=True)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    try:
        receiver.bind(str(home.socket))
    except OSError as error:  # the path may be too long for a socket; the spool is polled anyway
        log.info("cannot open the wake-up socket %s (%s); the spool is polled instead", home.socket, error)
        receiver.close()
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(BlockingIOError):
            while receiver.recv(64):
                pass
        wake()

    loop.add_reader(receiver, read)
    try:
        yield
    finally:
        loop.remove_reader(receiver)
        receiver.close()
        home.socket.unlink(missing_ok=True)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _greeting(address: str, url: str, home: Home) -> str:
    return (
        f"holdfast {__version__} is up at {address}\n"
        f"  store   {url}\n"
        f"  home    {home.root}  (token, spool, holdfast.yml)\n"
        f"Try next, in another terminal:\n"
        f'  holdfast emit hello.world --payload \'{{"text": "hi"}}\'\n'
        f"  holdfast events list\n"
        f"  holdfast status\n"
        f"Press Ctrl-C to stop."
    )


def main(host: str | None, port: int | None, app: Application | None, home: Home) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # clients with malformed requests must not fill the log

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    try:
        return event_loop.run(run_daemon(home, host, port, app, say))
    except HoldfastError as error:
        sys.stderr.write(f"holdfast: {error.message}\n")
        return 1
