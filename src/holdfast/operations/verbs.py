"""All operator verbs. REST, the command line and other surfaces call nothing else."""

from __future__ import annotations

from holdfast.operations.context import OperationsContext
from holdfast.operations.contracts import ContractVerbs
from holdfast.operations.dead_letters import DeadLetterVerbs
from holdfast.operations.deliveries import DeliveryVerbs
from holdfast.operations.events import EventVerbs
from holdfast.operations.maintenance import MaintenanceVerbs
from holdfast.operations.receipts import ReceiptVerbs
from holdfast.operations.sessions import SessionVerbs
from holdfast.operations.status import StatusVerbs
from holdfast.operations.streams import StreamVerbs
from holdfast.operations.tokens import TokenVerbs


class Operations:
    """The verbs by subject, such as `operations.events.show(id)`."""

    def __init__(self, context: OperationsContext) -> None:
        self.events = EventVerbs(context)
        self.streams = StreamVerbs(context)
        self.deliveries = DeliveryVerbs(context)
        self.dead_letters = DeadLetterVerbs(context)
        self.contracts = ContractVerbs(context)
        self.sessions = SessionVerbs(context.store, context.clock)
        self.receipts = ReceiptVerbs(context)
        self.status = StatusVerbs(context)
        self.maintenance = MaintenanceVerbs(context)
        self.tokens = TokenVerbs(context.store.tokens, context.clock, context.chance)
