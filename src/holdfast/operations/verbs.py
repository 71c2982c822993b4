"""All operator verbs. REST, the command line and other surfaces call nothing else."""

from __future__ import annotations

from holdfast.operations.archives import ArchiveVerbs
from holdfast.operations.blobs import BlobVerbs
from holdfast.operations.context import LOCAL, OperationsContext
from holdfast.operations.contracts import ContractVerbs
from holdfast.operations.dead_letters import DeadLetterVerbs
from holdfast.operations.deliveries import DeliveryVerbs
from holdfast.operations.events import EventVerbs
from holdfast.operations.fleet import FleetVerbs
from holdfast.operations.history import HistoryVerbs
from holdfast.operations.live import LiveVerbs
from holdfast.operations.login import LoginVerbs
from holdfast.operations.maintenance import MaintenanceVerbs
from holdfast.operations.messages import MessageVerbs
from holdfast.operations.metrics import MetricVerbs
from holdfast.operations.readers import ReaderVerbs
from holdfast.operations.receipts import ReceiptVerbs
from holdfast.operations.replay import ReplayVerbs
from holdfast.operations.sessions import SessionVerbs
from holdfast.operations.status import StatusVerbs
from holdfast.operations.streams import StreamVerbs
from holdfast.operations.tokens import TokenVerbs


class Operations:
    """The verbs by subject, such as `operations.events.show(id)`."""

    def __init__(self, context: OperationsContext) -> None:
        self.events = EventVerbs(context)
        self.streams = StreamVerbs(context)
        self.readers = ReaderVerbs(context)
        self.archives = ArchiveVerbs(context)
        self.replays = ReplayVerbs(context)
        self.live = LiveVerbs(context)
        self.login = LoginVerbs(context.clock)
        self.history = HistoryVerbs(context)
        self.deliveries = DeliveryVerbs(context)
        self.dead_letters = DeadLetterVerbs(context)
        self.contracts = ContractVerbs(context)
        self.messages = MessageVerbs(context)
        self.blobs = BlobVerbs(context)
        self.sessions = SessionVerbs(context.store, context.clock, context.owner)
        self.receipts = ReceiptVerbs(context)
        self.status = StatusVerbs(context)
        self.maintenance = MaintenanceVerbs(context)
        self.metrics = MetricVerbs(context)
        self.fleet = FleetVerbs(context)
        self.tokens = TokenVerbs(context.store.tokens, context.clock, context.chance, context.owner.acting(LOCAL))
