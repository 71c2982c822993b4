"""Runs every check. A check that raises is reported as a failed finding and does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.agents.install.environment import Environment
from holdfast.config.promote_at import PromoteAt
from holdfast.domain.errors import HoldfastError
from holdfast.domain.json_value import Json
from holdfast.domain.retry import Policy
from holdfast.home import Home
from holdfast.operations.doctor.agents import check_agents
from holdfast.operations.doctor.daemon import judge_daemon
from holdfast.operations.doctor.finding import Diagnosis, Finding, fail, ok, warn
from holdfast.operations.doctor.home import check_disk, check_filesystem, check_permissions
from holdfast.operations.doctor.machine import check_service, check_tmux
from holdfast.operations.doctor.sinks import check_sinks
from holdfast.operations.doctor.spool import check_receiver, check_spool, check_troubles
from holdfast.operations.doctor.store import check_library, check_store
from holdfast.streams.sinks.sink import SinkConfig
from holdfast.version import __version__


@dataclass(frozen=True, slots=True)
class Case:
    """The input of the checks, collected by the command line.

    `url` and the disk limits come from the configuration; `config_fault` is set if it cannot be read. `status` is the
    answer of a running daemon; `daemon_fault` is set if one runs but does not answer. `last_events` is the time of each
    agent's last event. `unreachable` is the masked URL of a store whose password only the daemon knows. `owns_store`:
    the daemon works on this store, so it reports the contracts itself.
    """

    home: Home
    environment: Environment
    url: str | None
    low_water_bytes: int
    ballast_bytes: int
    now_ms: int
    config_fault: str | None = None
    status: Mapping[str, Json] | None = None
    daemon_fault: str | None = None
    last_events: Mapping[str, str] | None = None
    unreachable: str | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict)
    sinks: Sequence[SinkConfig] = ()
    promote_at: PromoteAt | None = None
    owns_store: bool = False
    driver: str = "apsw"


async def examine(case: Case) -> Diagnosis:
    """Run every check."""
    home, url, alive = case.home, case.url, case.status is not None
    now_s = case.now_ms / 1000
    limits = (case.low_water_bytes, case.ballast_bytes)
    found = [
        *_run("config", lambda: [_judge_config(case)]),
        *_run("home.permissions", lambda: check_permissions(home)),
        *_run("home.filesystem", lambda: check_filesystem(home, url)),
        *_run("home.disk", lambda: check_disk(home, url, *limits, alive)),
        *_run("daemon", lambda: _judge_daemon(case)),
        *_run("service", lambda: check_service(case.environment, home, alive)),
        *_run("machine.tmux", lambda: check_tmux(case.environment)),
        *_run("spool.waiting", lambda: check_spool(home, alive, now_s)),
        *_run("receiver.trouble", lambda: check_troubles(home, case.now_ms)),
        *_run("receiver", check_receiver),
    ]
    if url is not None:
        found += _run("store.library", lambda: check_library(url))
        try:
            policies = None if case.owns_store else case.policies
            found += await check_store(url, case.now_ms, policies, case.driver, case.promote_at)
        except (HoldfastError, OSError, ValueError) as error:
            found.append(fail("store.reached", _sentence(error)))
    if case.unreachable is not None:
        text = f"not checked: the daemon uses {case.unreachable}, whose password is unknown here"
        found.append(ok("store.reached", text, "to check it too, set HOLDFAST_STORE to its full URL"))
    found += await check_sinks(case.sinks)
    found += _run("agents", lambda: check_agents(case.environment, home, case.last_events, now_s))
    healthy = not any(finding.level == "fail" for finding in found)
    return Diagnosis(healthy, __version__, [finding.shortened() for finding in found])


def _judge_config(case: Case) -> Finding:
    if case.config_fault is not None:
        return fail("config", case.config_fault, "fix it; until then no daemon starts, and the store is not checked")
    return ok("config", "the configuration is valid, and every variable it names is set")


def _judge_daemon(case: Case) -> list[Finding]:
    if case.status is None:
        if case.daemon_fault is not None:
            return [fail("daemon", case.daemon_fault, "check its log and restart it: holdfast up")]
        text = f"no daemon runs in {case.home.root}: events are stored but not delivered"
        return [warn("daemon", text, "run: holdfast up, or as a service: holdfast service install")]
    return judge_daemon(case.status)


def _run(id: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except (HoldfastError, OSError, ValueError) as error:
        return [fail(id, f"the check failed: {_sentence(error)}")]


def _sentence(error: Exception) -> str:
    if isinstance(error, HoldfastError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    return f"{type(error).__name__}: {error}"
