"""The behavioural test suite of a store, one class for each role.

A test module defines a fixture `open_store` and subclasses the suites it wants to run:

    pytest.register_assert_rewrite("holdfast.testing.suite")      # in conftest.py, for readable failures

    @pytest.fixture
    def open_store(tmp_path):
        async def open_store(name, clock, chance, keep):          # the same name opens the same data again
            return MyStore(tmp_path / name, clock, chance, keep)
        return open_store

    class TestEvents(EventsSuite): ...
    class TestLeases(LeasesSuite): ...

The suite closes every store it opened; closing twice must be harmless. Tests are coroutines: run them with
pytest-asyncio in `auto` mode. Tests of a feature that the store does not declare in `features` are skipped.
"""

from holdfast.testing.suite.bookmarks import BookmarksSuite
from holdfast.testing.suite.bursts import BurstsSuite
from holdfast.testing.suite.claims import ClaimsSuite
from holdfast.testing.suite.contracts import ContractsSuite
from holdfast.testing.suite.counts import CountsSuite
from holdfast.testing.suite.cursors import CursorsSuite
from holdfast.testing.suite.events import EventsSuite
from holdfast.testing.suite.gates import GatesSuite
from holdfast.testing.suite.harness import Harness, OpenStore, StoreSuite
from holdfast.testing.suite.lanes import LanesSuite
from holdfast.testing.suite.leases import LeasesSuite
from holdfast.testing.suite.maintenance import MaintenanceSuite
from holdfast.testing.suite.operator import OperatorSuite
from holdfast.testing.suite.owners import OwnersSuite
from holdfast.testing.suite.pauses import PausesSuite
from holdfast.testing.suite.random_histories import RandomHistoriesSuite
from holdfast.testing.suite.receipts import ReceiptsSuite
from holdfast.testing.suite.routing import RoutingSuite
from holdfast.testing.suite.sessions import SessionsSuite
from holdfast.testing.suite.settlements import SettlementsSuite
from holdfast.testing.suite.sweeps import SweepsSuite
from holdfast.testing.suite.tokens import TokensSuite

__all__ = [
    "BookmarksSuite",
    "BurstsSuite",
    "ClaimsSuite",
    "ContractsSuite",
    "CountsSuite",
    "CursorsSuite",
    "EventsSuite",
    "GatesSuite",
    "Harness",
    "LanesSuite",
    "LeasesSuite",
    "MaintenanceSuite",
    "OpenStore",
    "OperatorSuite",
    "OwnersSuite",
    "PausesSuite",
    "RandomHistoriesSuite",
    "ReceiptsSuite",
    "RoutingSuite",
    "SessionsSuite",
    "SettlementsSuite",
    "StoreSuite",
    "SweepsSuite",
    "TokensSuite",
]
