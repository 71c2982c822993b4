"""For every run: a summary of what all workers did, and no failures because a machine is slow."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# The time of an example depends on the machine more than on the code.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

LONG = ("crash", "acceptance")


class Tally:
    """Adds up the numbers that tests record as properties. Reports reach the main process; prints of workers do not."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.servers: set[str] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":  # each report repeats the earlier ones of its test
            return
        for name, value in report.user_properties:
            if name == "postgresql":
                self.servers = (self.servers or set()) | set(value)
            elif name in ("simulated schedules", "faults"):
                self.counts[name] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.counts:
            text = ", ".join(f"{count} {name}" for name, count in self.counts.items())
            terminalreporter.write_line(text)
        if self.servers is not None:
            from postgres import versions

            tried = ", ".join(sorted(self.servers, key=int)) or "none"
            terminalreporter.write_line(f"PostgreSQL versions tested: {tried} (found: {', '.join(versions())})")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Tally())
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a shell ignores SIGINT for background jobs, and child processes would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers, the first one starts with the longest tests.

    So the run does not end waiting for one of them, and tests that start many processes do not run at the same time.
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
