"""The operations of the REST surface: one line each, with what it takes and which verb answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from holdfast.domain.contract import SOURCES
from holdfast.domain.session import SessionState
from holdfast.domain.states import Reason, State
from holdfast.operations.contracts import ContractVerbs
from holdfast.operations.dead_letters import DeadLetterVerbs
from holdfast.operations.deliveries import DeliveryVerbs
from holdfast.operations.events import EventVerbs
from holdfast.operations.maintenance import MaintenanceVerbs
from holdfast.operations.receipts import ReceiptVerbs
from holdfast.operations.sessions import SessionVerbs
from holdfast.operations.status import StatusVerbs
from holdfast.operations.streams import StreamVerbs
from holdfast.surfaces.rest.parameters import (
    ID_MAX,
    NUMBER_CURSOR,
    NUMBER_ID,
    TEXT_CURSOR,
    TEXT_ID,
    Parameter,
    choice,
    flag,
    limit,
    text,
    whole,
)
from holdfast.surfaces.rest.request_bodies import (
    CONTRACT_BODY,
    EVENT_BODY,
    EVENT_IDS_BODY,
    PAUSE_BODY,
    ROTATION_BODY,
    SELECTION_BODY,
    TRIAL_BODY,
    Body,
)
from holdfast.surfaces.rest.value_schemas import NAME

Verb = Callable[..., Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `verb` is a method of `Operations.<group>`; `needs` is the scope of the token.

    `fixed`: arguments that the path implies. `statuses`: answers other than 200, success or error, that only this
    operation and a few others can give.
    """

    method: str
    path: str
    group: str
    verb: Verb
    needs: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    fixed: dict[str, object] = field(default_factory=dict)
    statuses: tuple[int, ...] = ()
    name: str = ""

    @property
    def id(self) -> str:
        return self.name or f"{self.group}_{self.verb.__name__}"


_REASON, _STREAM = choice("reason", Reason), text("stream")
_FILTERS = (_REASON, text("contract"), text("address", "^[^\\u0000…]*$"), _STREAM, text("event"))
_PAGE = (NUMBER_CURSOR, limit(50))
_LONG_PAGE = (TEXT_CURSOR, limit(1000))

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/api/events", "events", EventVerbs.append, "operate",
        "Append an event. 201 means that it is stored; 200 that its dedup_key or Idempotency-Key was known.",
        (Parameter("Idempotency-Key", str, NAME, "header"),), EVENT_BODY, statuses=(201, 409),
    ),
    Operation(
        "GET", "/api/events", "events", EventVerbs.find, "read", "List events, newest first.",
        (text("source"), text("type"), _STREAM, flag("unmatched"), *_PAGE),
    ),
    Operation(
        "POST", "/api/events/route", "events", EventVerbs.route, "operate",
        "Route events that matched no contract again.", body=EVENT_IDS_BODY,
    ),
    Operation("GET", "/api/events/{id}", "events", EventVerbs.show, "read", "Show an event and its deliveries.",
              (TEXT_ID,)),
    Operation(
        "GET", "/api/events/{id}/explain", "events", EventVerbs.explain, "read",
        "Explain why an event went where it went.", (TEXT_ID, limit(20)),
    ),
    Operation("GET", "/api/streams", "streams", StreamVerbs.find, "read", "List streams by name.",
              (TEXT_CURSOR, limit(50))),
    Operation(
        "GET", "/api/streams/{id:path}/events", "streams", StreamVerbs.events, "read",
        "Read a stream's events in order. 409: `after` is beyond its end.",
        (TEXT_ID, whole("after", 0, ID_MAX, 0), limit(50)), statuses=(409,),
    ),
    Operation("GET", "/api/streams/{id:path}", "streams", StreamVerbs.show, "read",
              "Show a stream. Its name may hold slashes.", (TEXT_ID,)),
    Operation(
        "GET", "/api/deliveries", "deliveries", DeliveryVerbs.find, "read", "List deliveries, newest first.",
        (choice("state", State), *_FILTERS, *_PAGE),
    ),
    Operation("GET", "/api/deliveries/{id}", "deliveries", DeliveryVerbs.show, "read",
              "Show a delivery and its attempts.", (NUMBER_ID,)),
    Operation(
        "POST", "/api/deliveries/{id}/retry", "deliveries", DeliveryVerbs.retry, "operate",
        "Make a pending delivery due now, or requeue a settled one.", (NUMBER_ID,),
    ),
    Operation(
        "POST", "/api/deliveries/{id}/cancel", "deliveries", DeliveryVerbs.cancel, "operate",
        "End a pending delivery as dropped(cancelled). 409: it is settled.", (NUMBER_ID,), statuses=(409,),
    ),
    Operation("GET", "/api/dlq/count", "dead_letters", DeadLetterVerbs.count, "read",
              "Count dead letters, in all and by queue.", _FILTERS),
    Operation(
        "GET", "/api/dlq", "dead_letters", DeadLetterVerbs.inspect, "read",
        "List dead letters with payload and attempts, newest first.", (*_FILTERS, *_PAGE),
    ),
    Operation(
        "POST", "/api/dlq/reprocess", "dead_letters", DeadLetterVerbs.reprocess, "operate",
        "Requeue at most 1,000 dead letters: by ids, by filter, or all.", body=SELECTION_BODY,
    ),
    Operation(
        "POST", "/api/dlq/discard", "dead_letters", DeadLetterVerbs.discard, "operate",
        "Discard at most 1,000 dead letters: by ids, by filter, or all.", body=SELECTION_BODY,
    ),
    Operation(
        "GET", "/hooks/contracts", "contracts", ContractVerbs.find, "read",
        "List contracts by id. The header Link with rel=next names the next page.",
        (text("property"), text("value", needs="property"), choice("source", SOURCES), flag("inactive"), *_LONG_PAGE),
    ),
    Operation(
        "POST", "/hooks/contracts", "contracts", ContractVerbs.add, "admin",
        "Create a contract, or replace the one with that id.", body=CONTRACT_BODY, statuses=(201, 409),
    ),
    Operation(
        "POST", "/hooks/contracts/test", "contracts", ContractVerbs.test, "operate",
        "Try a contract on past events. It needs no id and no target, and is not created.", (limit(100),), TRIAL_BODY,
    ),
    Operation("GET", "/hooks/contracts/{id}", "contracts", ContractVerbs.show, "read", "Show a contract.", (TEXT_ID,)),
    Operation(
        "DELETE", "/hooks/contracts/{id}", "contracts", ContractVerbs.remove, "admin",
        "Remove a contract and drop its pending deliveries. 409: it belongs to the configuration file.", (TEXT_ID,),
        statuses=(409,),
    ),
    Operation(
        "POST", "/hooks/contracts/{id}/enable", "contracts", ContractVerbs.enable, "operate",
        "Enable a contract and resume its parked deliveries. 409: it has expired.", (TEXT_ID,),
        fixed={"active": True}, statuses=(409,),
    ),
    Operation(
        "POST", "/hooks/contracts/{id}/disable", "contracts", ContractVerbs.enable, "operate",
        "Disable a contract and park its pending deliveries.", (TEXT_ID,), fixed={"active": False},
        name="contracts_disable",
    ),
    Operation(
        "POST", "/hooks/contracts/{id}/rotate", "contracts", ContractVerbs.rotate, "admin",
        "Sign with a new secret, and for a while with the old one too.", (TEXT_ID,), ROTATION_BODY, statuses=(409,),
    ),
    Operation(
        "GET", "/hooks/properties", "contracts", ContractVerbs.properties, "read",
        "List property names and values of active contracts. The header Link with rel=next names the next page.",
        _LONG_PAGE,
    ),
    Operation(
        "GET", "/api/sessions", "sessions", SessionVerbs.find, "read", "List agent sessions, last changed first.",
        (text("agent"), choice("state", SessionState), text("native_id"), text("cwd"),
         text("after", "^[0-9]{1,18}\\.[^\\u0000]*$"), limit(50)),
    ),
    Operation("GET", "/api/sessions/{id}", "sessions", SessionVerbs.show, "read",
              "Show a session, by its id or by the agent's own.", (TEXT_ID,)),
    Operation("POST", "/api/sessions/{id}/close", "sessions", SessionVerbs.close, "operate", "Close a session.",
              (TEXT_ID,)),
    Operation(
        "GET", "/api/receipts", "receipts", ReceiptVerbs.find, "read", "List receipts in order, chain by chain.",
        (text("chain"), text("after", "^(?:[^\\u0000]*:)?[0-9]{1,18}$"), limit(50)),
    ),
    Operation("GET", "/api/receipts/verify", "receipts", ReceiptVerbs.verify, "read",
              "Check every chain of receipts and list every fault."),
    Operation("GET", "/api/status", "status", StatusVerbs.show, "read", "Show daemon health and queue counts."),
    Operation(
        "POST", "/api/pause", "maintenance", MaintenanceVerbs.pause, "operate",
        "Pause deliveries of a contract, an address or a lane.", body=PAUSE_BODY, statuses=(404,),
    ),
    Operation("POST", "/api/resume", "maintenance", MaintenanceVerbs.resume, "operate",
              "Resume deliveries of a contract, an address or a lane.", body=PAUSE_BODY),
    Operation("POST", "/api/prune", "maintenance", MaintenanceVerbs.prune, "admin",
              "Remove rows past their retention now."),
)  # fmt: skip
