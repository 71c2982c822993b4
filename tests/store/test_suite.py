"""SQLite keeps every promise of the store suite, with the daemon's driver and with the application's."""

from __future__ import annotations

from holdfast.testing import store_suite as suite


class TestEvents(suite.EventsSuite):
    pass


class TestContracts(suite.ContractsSuite):
    pass


class TestRouting(suite.RoutingSuite):
    pass


class TestClaims(suite.ClaimsSuite):
    pass


class TestLeases(suite.LeasesSuite):
    pass


class TestLanes(suite.LanesSuite):
    pass


class TestBursts(suite.BurstsSuite):
    pass


class TestGates(suite.GatesSuite):
    pass


class TestSessions(suite.SessionsSuite):
    pass


class TestSettlements(suite.SettlementsSuite):
    pass


class TestSweeps(suite.SweepsSuite):
    pass


class TestOperator(suite.OperatorSuite):
    pass


class TestPauses(suite.PausesSuite):
    pass


class TestReceipts(suite.ReceiptsSuite):
    pass


class TestCursors(suite.CursorsSuite):
    pass


class TestBookmarks(suite.BookmarksSuite):
    pass


class TestOwners(suite.OwnersSuite):
    pass


class TestTokens(suite.TokensSuite):
    pass


class TestMaintenance(suite.MaintenanceSuite):
    pass


class TestCounts(suite.CountsSuite):
    pass


class TestRandomHistories(suite.RandomHistoriesSuite):
    pass


def test_every_suite_is_run_here() -> None:
    here = {base for value in globals().values() if isinstance(value, type) for base in value.__bases__}
    shipped = {getattr(suite, name) for name in suite.__all__ if name.endswith("Suite") and name != "StoreSuite"}
    assert shipped <= here
