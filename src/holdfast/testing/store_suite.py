"""The behavioral test suite of a store, one class for each role.

A test module defines a fixture `open_store` and runs all suites, or subclasses those it wants:

    pytest.register_assert_rewrite("holdfast.testing.suite")      # in conftest.py, for readable failures

    @pytest.fixture
    def open_store(tmp_path):
        async def open_store(name, clock, chance, keep):          # the same name opens the same data again
            return MyStore(tmp_path / name, clock, chance, keep)
        return open_store

    globals().update(all_suites())                                # or: class TestEvents(EventsSuite): ...

The suite closes every store it opened; closing twice must be harmless. Tests are coroutines: run them with
pytest-asyncio in `auto` mode. Tests of a feature that the store does not declare in `features` are skipped.
"""

from holdfast.testing.suite.action_receipts import ActionReceiptsSuite
from holdfast.testing.suite.archives import ArchivesSuite
from holdfast.testing.suite.blobs import BlobsSuite
from holdfast.testing.suite.bookmarks import BookmarksSuite
from holdfast.testing.suite.bursts import BurstsSuite
from holdfast.testing.suite.claims import ClaimsSuite
from holdfast.testing.suite.contracts import ContractsSuite
from holdfast.testing.suite.counts import CountsSuite
from holdfast.testing.suite.cursors import CursorsSuite
from holdfast.testing.suite.events import EventsSuite
from holdfast.testing.suite.feed import FeedSuite
from holdfast.testing.suite.gates import GatesSuite
from holdfast.testing.suite.harness import Harness, OpenStore, StoreSuite
from holdfast.testing.suite.history import HistorySuite
from holdfast.testing.suite.lanes import LanesSuite
from holdfast.testing.suite.leases import LeasesSuite
from holdfast.testing.suite.maintenance import MaintenanceSuite
from holdfast.testing.suite.operator import OperatorSuite
from holdfast.testing.suite.owners import OwnersSuite
from holdfast.testing.suite.pauses import PausesSuite
from holdfast.testing.suite.queue_admin import QueueAdminSuite
from holdfast.testing.suite.random_histories import RandomHistoriesSuite
from holdfast.testing.suite.readers import ReadersSuite
from holdfast.testing.suite.receipts import ReceiptsSuite
from holdfast.testing.suite.routing import RoutingSuite
from holdfast.testing.suite.sessions import SessionsSuite
from holdfast.testing.suite.settlements import SettlementsSuite
from holdfast.testing.suite.substrate import SubstrateSuite
from holdfast.testing.suite.sweeps import SweepsSuite
from holdfast.testing.suite.tokens import TokensSuite

__all__ = [
    "ActionReceiptsSuite",
    "ArchivesSuite",
    "BlobsSuite",
    "BookmarksSuite",
    "BurstsSuite",
    "ClaimsSuite",
    "ContractsSuite",
    "CountsSuite",
    "CursorsSuite",
    "EventsSuite",
    "FeedSuite",
    "GatesSuite",
    "Harness",
    "HistorySuite",
    "LanesSuite",
    "LeasesSuite",
    "MaintenanceSuite",
    "OpenStore",
    "OperatorSuite",
    "OwnersSuite",
    "PausesSuite",
    "QueueAdminSuite",
    "RandomHistoriesSuite",
    "ReadersSuite",
    "ReceiptsSuite",
    "RoutingSuite",
    "SessionsSuite",
    "SettlementsSuite",
    "StoreSuite",
    "SubstrateSuite",
    "SweepsSuite",
    "TokensSuite",
    "all_suites",
]


def all_suites() -> dict[str, type[StoreSuite]]:
    """A test class for each suite, by the name under which pytest finds it: `TestEvents` for `EventsSuite`."""
    suites = {name: value for name, value in globals().items() if name in __all__ and name.endswith("Suite")}
    return {
        f"Test{name.removesuffix('Suite')}": type(f"Test{name.removesuffix('Suite')}", (suite,), {})
        for name, suite in suites.items()
        if suite is not StoreSuite
    }
