"""For every run: it tells what it did, also where several processes ran it, and nothing fails for being slow."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about us.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

LONG = ("crash", "acceptance")


class Tally:
    """Adds up what tests recorded as properties. Reports come to the process that the user sees; prints do not."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.servers: set[str] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":  # each report repeats what the earlier ones of its test say
            return
        for name, value in report.user_properties:
            if name == "postgresql":
                self.servers = (self.servers or set()) | set(value)
            elif name in ("simulated schedules", "faults"):
                self.counts[name] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.counts:
            told = ", ".join(f"{count} {name}" for name, count in self.counts.items())
            terminalreporter.write_line(told)
        if self.servers is not None:
            from postgres import versions

            tried = ", ".join(sorted(self.servers, key=int)) or "none"
            terminalreporter.write_line(f"PostgreSQL versions tried: {tried} (there are {', '.join(versions())})")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Tally())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background: our children would be deaf too
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where workers share a run, the first of them begins with the longest tests.

    So the run does not end waiting for one of them, and those that start many processes are not under way together.
    """
    places = {name: place for place, name in enumerate(LONG)}
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: places.get(item.path.parent.name, len(LONG)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    if support := sys.modules.get("postgres"):
        support.stop_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown" and (support := sys.modules.get("postgres")):
        report.user_properties.append(("postgresql", sorted(support.tried)))
    return report
