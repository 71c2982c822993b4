"""`holdfast up`: one process from start to a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import os
import secrets
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config.application import import_from_here
from holdfast.config.config import Config, load_config
from holdfast.config.secret_file import SecretFile
from holdfast.daemon import event_loop
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind, connections_max
from holdfast.daemon.stop_signals import StopSignals
from holdfast.domain.errors import HoldfastError, StoreBusy, StoreFailed
from holdfast.home import AddressFile, Home, masked_url, store_url, write_secret
from holdfast.ports import Application, Probe, SystemChance, in_thread, no_probe
from holdfast.progress import Progress
from holdfast.store.open import open_store
from holdfast.streams.live import CLIENTS_MAX
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
    loopback_ports: Collection[int] = (),
) -> int:
    """Run until a signal. Returns 0 after a clean stop and 1 if the store failed."""
    config = load_config(home.config)
    home.make()
    os.umask(0o077)
    url = app.url if app is not None else (os.environ.get("HOLDFAST_STORE") or config.store or store_url(home))
    listener = bind(host or config.host, config.port if port is None else port)
    with Progress("opening the store", log=log.info):
        runtime = _open_runtime(url, config, home, app, probe, loopback_ports)
    stopping = asyncio.Event()
    limit_s = config.grace_s + STOP_S
    signals = StopSignals(stopping.set, limit_s, runtime.describe_unfinished, lambda: _reload(runtime))
    with signals.installed(), _wake_socket(home, lambda: _wake_spool(runtime)):
        if not await _start(runtime, stopping, say):
            return 0
        server = await _start_server(runtime, home, config, listener)
        address = _address(listener)
        presence = AddressFile(home.address_file, address)
        page = address + (await runtime.operations.login.create()).path if sys.stdout.isatty() else "holdfast open"
        say(_greeting(address, masked_url(url), home, page))
        failed = await _wait_for_stop(stopping, runtime)
        deadline_s = time.monotonic() + config.grace_s
        say(f"Stopping: nothing new is started; running deliveries have {config.grace_s:g} s to finish.")
        runtime.live.stop()  # open event streams would keep the server from stopping
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


def _open_runtime(
    url: str, config: Config, home: Home, app: Application | None, probe: Probe, loopback_ports: Collection[int]
) -> Runtime:
    if any(":" in (source.normalizer or "") for source in config.inbound):
        import_from_here()
    driver = "sqlite3" if app is not None else "apsw"
    store = open_store(url, driver=driver, keep=True, own=app is None, probe=probe, **config.disk_limits)
    if app is None:
        return Runtime(store, config, home, loopback_ports=loopback_ports)
    return Runtime(
        store,
        config,
        home,
        handlers=app.handlers,
        normalizers=app.normalizers,
        contracts=app.contracts.all(),
        modules=app.modules,
        loopback_ports=loopback_ports,
    )


async def _start(runtime: Runtime, stopping: asyncio.Event, say: Callable[[str], None]) -> bool:
    """Start as soon as the store can be reached, without a time limit. False if a signal came first."""
    chance = SystemChance()
    for attempt in itertools.count():
        try:
            with Progress("starting", log=log.info):
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


async def _start_server(runtime: Runtime, home: Home, config: Config, listener: socket.socket) -> Server:
    with _short_switch_interval():
        await in_thread("files", _load_surfaces)
    surfaces = _surfaces(runtime, home, config, listener)
    if runtime.reload is not None:
        runtime.reload.show_inbound = surfaces.replace_inbound
    connections = connections_max()
    runtime.live.clients_max = min(CLIENTS_MAX, connections // 2)  # the other half is left to requests
    server = Server(surfaces, listener, connections)
    await server.start()
    return server


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
    from holdfast.surfaces.rest.request_filter import BearerTokens

    if home.read_token() is None:
        write_secret(home.token, "hf_" + secrets.token_hex(32))
    host = listener.getsockname()[0]
    hosts = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host, *config.hosts}
    admin = SecretFile(home.token).text
    tokens = BearerTokens(admin, runtime.operations.tokens.scope_of)
    return build_app(
        runtime.operations,
        tokens,
        hosts,
        config.body_max_bytes,
        config.inbound,
        open_metrics=config.open_metrics,
        page_secret=admin,
    )


async def _wait_for_stop(stopping: asyncio.Event, runtime: Runtime) -> StoreFailed | None:
    runtime.loop.fatal.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    return runtime.loop.fatal.result() if runtime.loop.fatal.done() else None


def _reload(runtime: Runtime) -> None:
    """Before the start there is nothing to reload: the file is read when it starts."""
    if runtime.reload is not None:
        runtime.reload.ask()


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


def _program() -> str:
    """How this program is called here, so that the commands of the greeting work as they are printed."""
    typed = Path(sys.argv[0])
    own = Path(sys.executable).with_name("holdfast")
    found = shutil.which("holdfast")
    if found is not None and Path(found).resolve() in (typed.resolve(), own.resolve()):
        return "holdfast"
    if typed.name != "holdfast":
        return f"{shlex.quote(sys.executable)} -m holdfast"
    return shlex.quote(str(typed.relative_to(Path.cwd()) if typed.is_relative_to(Path.cwd()) else typed))


def _greeting(address: str, url: str, home: Home, page: str) -> str:
    """`page`: a login link, or the command that prints one. A link must not get into the log of a service."""
    program = _program()
    return (
        f"holdfast {__version__} is up at {address}\n"
        f"  store   {url}\n"
        f"  home    {home.root}  (token, spool, holdfast.yml)\n"
        f"  page    {page}\n"
        f"Try next, in another terminal:\n"
        f'  {program} emit hello.world --payload \'{{"text": "hi"}}\'\n'
        f"  {program} events list\n"
        f"  {program} status\n"
        f"Press Ctrl-C to stop."
    )


def main(
    host: str | None, port: int | None, app: Application | None, home: Home, loopback_ports: Collection[int] = ()
) -> int:
    def say(text: str) -> None:
        with contextlib.suppress(OSError):  # a closed terminal must not keep the daemon from stopping cleanly
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    try:
        return event_loop.run(run_daemon(home, host, port, app, say, loopback_ports=loopback_ports))
    except HoldfastError as error:
        sys.stderr.write(f"holdfast: {error.message}\n")
        return 1
