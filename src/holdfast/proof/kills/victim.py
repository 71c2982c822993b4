"""The daemon with an identity, and optionally a probe in its store that kills the process at a chosen point.

Its settings are environment variables. `HOLDFAST_PROVE_LIFE=12`: its number, sent in the `User-Agent`; each request
also carries its lease token in a header. `…_TAG`: the name of its PostgreSQL sessions. `…_LEASE_MS`: shorter leases, so
that a stop of a few seconds outlasts them. `…_CRASH=before_commit:57`: kill itself when it reaches this point for the
57th time, and `…_NOTE`: the record file to write that to first. `…_FAULT`: a known fault to inject.
`…_CLOCK_MS`: by how much its wall clock is wrong.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from contextvars import ContextVar
from pathlib import Path

import holdfast.daemon.deliverers as deliverers_module
import holdfast.egress.engine as engine_module
from holdfast.daemon.run import run_daemon
from holdfast.domain.delivery import Claim, Outcome
from holdfast.egress.deliverer import Attempt
from holdfast.egress.gatekeeper import Gatekeeper
from holdfast.egress.lease_renewal import lease_times_ms
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.home import find_home
from holdfast.net.answer import Answer
from holdfast.net.client import Client
from holdfast.net.route import Route
from holdfast.ports import Probe, no_probe
from holdfast.proof.kills.faults import inject
from holdfast.proof.kills.records import LEASE_HEADER, SLOT_HEADER, Crashed, RecordFile
from holdfast.version import __version__

POINTS = ("begun", "before_commit", "after_commit")


def crash_at(point: str, nth: int, note: Path) -> Probe:
    """A probe that ends the process with SIGKILL: no handlers run and nothing is flushed."""
    if point not in POINTS or nth < 1:
        raise ValueError(f"{point}:{nth} is not a crash point: use one of {', '.join(POINTS)} and a number from 1")
    records, passed = RecordFile(note), 0

    def probe(passing: str) -> None:
        nonlocal passed
        passed += passing == point
        if passed == nth:
            records.write(Crashed(point, nth))
            os.kill(os.getpid(), signal.SIGKILL)

    return probe


def set_identity(life: str, tag: str) -> None:
    """Put the life into the User-Agent, and the tag into the names of PostgreSQL sessions."""
    setattr(deliverers_module, "__version__", f"{__version__} life-{life}")  # noqa: B010 - what the User-Agent is made of
    if tag:
        from holdfast.store.postgres import hosts

        setattr(hosts, "APPLICATION", tag)  # noqa: B010


def send_lease_tokens() -> None:
    """Send the token of the lease in a header of every request, and the time at which a rate limit let it pass."""
    token: ContextVar[int] = ContextVar("token")
    slot: ContextVar[int | None] = ContextVar("slot", default=None)
    deliver, post, wait = WebhookDeliverer.deliver, Client.post, Gatekeeper.wait_for_slot

    async def wait_and_note(self: Gatekeeper, address: str, interval_us: int) -> None:
        await wait(self, address, interval_us)
        slot.set(time.monotonic_ns())

    async def deliver_named(self: WebhookDeliverer, claim: Claim, attempt: Attempt) -> Outcome:
        token.set(claim.token)
        return await deliver(self, claim, attempt)

    async def post_named(
        self: Client, route: Route, headers: dict[str, str], body: bytes, answer: Answer, *, reuse: bool = True
    ) -> None:
        passed_ns = slot.get()
        slot.set(None)
        named = {LEASE_HEADER: str(token.get())} | ({} if passed_ns is None else {SLOT_HEADER: str(passed_ns)})
        await post(self, route, {**headers, **named}, body, answer, reuse=reuse)

    setattr(WebhookDeliverer, "deliver", deliver_named)  # noqa: B010
    setattr(Client, "post", post_named)  # noqa: B010
    setattr(Gatekeeper, "wait_for_slot", wait_and_note)  # noqa: B010


def set_clock(wrong_by_ms: int) -> None:
    """Let the wall clock of this process be wrong, from its start on."""
    true_ns = time.time_ns
    setattr(time, "time_ns", lambda: true_ns() + wrong_by_ms * 1_000_000)  # noqa: B010
    setattr(time, "time", lambda: time.time_ns() / 1e9)  # noqa: B010


def setting(name: str) -> str:
    return os.environ.get(f"HOLDFAST_PROVE_{name}", "")


def main() -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    probe: Probe = no_probe
    if crash := setting("CRASH"):
        point, _, nth = crash.partition(":")
        probe = crash_at(point, int(nth), Path(setting("NOTE")))
    if fault := setting("FAULT"):
        inject(fault)
    if lease_ms := setting("LEASE_MS"):
        short = dict.fromkeys(lease_times_ms(), int(lease_ms))
        setattr(engine_module, "lease_times_ms", lambda: short)  # noqa: B010
    if wrong_by_ms := setting("CLOCK_MS"):
        set_clock(int(wrong_by_ms))
    set_identity(setting("LIFE"), setting("TAG"))
    send_lease_tokens()
    return asyncio.run(run_daemon(find_home(), None, 0, None, lambda text: None, probe))


if __name__ == "__main__":
    sys.exit(main())
