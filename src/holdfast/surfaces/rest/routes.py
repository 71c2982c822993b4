"""The operations of the REST surface: one line each, with what it takes and which verb answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from holdfast.domain.contract import SOURCES
from holdfast.domain.session import SessionState
from holdfast.domain.states import Reason, State
from holdfast.operations.archives import ArchiveVerbs
from holdfast.operations.blobs import BlobVerbs
from holdfast.operations.contracts import ContractVerbs
from holdfast.operations.dead_letters import DeadLetterVerbs
from holdfast.operations.deliveries import DeliveryVerbs
from holdfast.operations.events import EventVerbs
from holdfast.operations.fleet import FleetVerbs
from holdfast.operations.history import SPANS, HistoryVerbs
from holdfast.operations.live import LiveVerbs
from holdfast.operations.login import LoginVerbs
from holdfast.operations.maintenance import MaintenanceVerbs
from holdfast.operations.messages import MessageVerbs
from holdfast.operations.readers import ReaderVerbs
from holdfast.operations.receipts import ReceiptVerbs
from holdfast.operations.replay import ReplayVerbs
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
    principal,
    text,
    whole,
)
from holdfast.surfaces.rest.request_bodies import (
    BINDING_BODY,
    CONTRACT_BODY,
    CONTRACT_PAGE_BODY,
    EVENT_BODY,
    EVENT_IDS_BODY,
    MESSAGE_BODY,
    PANE_BODY,
    PAUSE_BODY,
    RECEIPT_BODY,
    REPLAY_BODY,
    ROTATION_BODY,
    SELECTION_BODY,
    SESSION_IDS_BODY,
    SESSION_NAME_BODY,
    TRIAL_BODY,
    Body,
)
from holdfast.surfaces.rest.request_filter import BLOBS_PATH
from holdfast.surfaces.rest.value_schemas import NAME

Verb = Callable[..., Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `verb` is a method of `Operations.<group>`; `needs` is the scope of the token.

    `raw`: the argument that takes the bytes of the body as they are. `fixed`: arguments that the path implies.
    `statuses`: answers other than 200, success or error, that only this operation and a few others can give.
    """

    method: str
    path: str
    group: str
    verb: Verb
    needs: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    raw: str = ""
    fixed: dict[str, object] = field(default_factory=dict)
    statuses: tuple[int, ...] = ()
    name: str = ""

    @property
    def id(self) -> str:
        return self.name or f"{self.group}_{self.verb.__name__}"


_REASON, _STREAM = choice("reason", Reason), text("stream")
_FILTERS = (_REASON, text("contract"), text("address", "^[^\\u0000…]*$"), _STREAM, text("event"))
_PAGE = (NUMBER_CURSOR, limit(50))
_LAST_EVENT_ID = Parameter("Last-Event-ID", str, {"type": "string", "pattern": "^[0-9]{0,18}$"}, "header")
_LONG_PAGE = (TEXT_CURSOR, limit(1000))

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/api/events", "events", EventVerbs.append, "append",
        "Append an event. 201 means that it is stored; 200 that its dedup_key or Idempotency-Key was known.",
        (Parameter("Idempotency-Key", str, NAME, "header"),), EVENT_BODY, statuses=(201, 409),
    ),
    Operation(
        "GET", "/api/events", "events", EventVerbs.find, "read", "List events, newest first.",
        (text("source"), text("type"), _STREAM, flag("unmatched"), text("search"), *_PAGE),
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
        "POST", "/api/streams/{id:path}/replay", "replays", ReplayVerbs.run, "operate",
        "Send a part of a stream to a sink or a contract again. 410: the events were removed.",
        (TEXT_ID,), REPLAY_BODY, statuses=(404, 410),
    ),
    Operation("GET", "/api/archives", "archives", ArchiveVerbs.find, "read", "List archives, oldest first.",
              (TEXT_CURSOR, limit(50))),
    Operation("GET", "/api/archives/verify", "archives", ArchiveVerbs.verify, "read",
              "Read every archive and list every fault. 404: no archive folder is configured.", statuses=(404,)),
    Operation("GET", "/api/readers", "readers", ReaderVerbs.find, "read",
              "List readers of streams, sinks among them, with their lag."),
    Operation(
        "GET", "/api/streams/{id:path}/events", "streams", StreamVerbs.events, "read",
        "Read a stream's events in order. 409: `after` is beyond its end; 410: events after it were removed.",
        (TEXT_ID, whole("after", 0, ID_MAX), limit(50)), statuses=(409, 410),
    ),
    Operation(
        "GET", "/api/streams/{id:path}/tail", "live", LiveVerbs.tail, "read",
        "Follow a stream: server-sent events, until it is closed. 409: `after` is beyond its end. 410: it was pruned.",
        (TEXT_ID, whole("after", 0, ID_MAX), flag("wait"), _LAST_EVENT_ID), statuses=(409, 410, 429),
    ),
    Operation(
        "GET", "/api/feed", "live", LiveVerbs.feed, "read",
        "Follow all events as they become visible: server-sent events. A client that resumes may see some twice.",
        (text("source"), text("type"), _STREAM, whole("after", 0, ID_MAX), _LAST_EVENT_ID), statuses=(429,),
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
        "GET", "/hooks/contracts/{id}/statistics", "contracts", ContractVerbs.statistics, "read",
        "Show what waits for a contract, and what became of its deliveries in the last day and in all.", (TEXT_ID,),
    ),
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
        "POST", "/hooks/contracts/{id}/ping", "contracts", ContractVerbs.ping, "operate",
        "Send a sample event through this contract alone and wait for its one attempt. 409: it cannot deliver.",
        (TEXT_ID, whole("wait_seconds", 1, 25, 10)), statuses=(409,),
    ),
    Operation(
        "POST", "/hooks/contracts/{id}/rebuild", "contracts", ContractVerbs.rebuild, "operate",
        "Create deliveries of stored events that this contract should have and does not have, page by page.",
        (TEXT_ID,), CONTRACT_PAGE_BODY,
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
              "Show a session and its last events, by its id, the agent's own id or its name.", (TEXT_ID, limit(50))),
    Operation(
        "POST", "/api/sessions/rebuild", "sessions", SessionVerbs.rebuild, "operate",
        "Rebuild the rows of sessions from their events, at most 100 at a time. 404: there are no events of one.",
        body=SESSION_IDS_BODY, statuses=(404,),
    ),
    Operation("POST", "/api/sessions/{id}/close", "sessions", SessionVerbs.close, "operate",
              "Close a session. Messages that wait for it expire.", (TEXT_ID,), statuses=(409,)),
    Operation("POST", "/api/sessions/{id}/name", "sessions", SessionVerbs.name, "message",
              "Name a session. 409: an open session has that name.", (TEXT_ID,), SESSION_NAME_BODY, statuses=(409,)),
    Operation("POST", "/api/sessions/{id}/bind", "sessions", SessionVerbs.bind, "message",
              "Bind a chat to a session, or end that with bound: false.", (TEXT_ID,), BINDING_BODY, statuses=(409,)),
    Operation("POST", "/api/sessions/{id}/attach", "sessions", SessionVerbs.attach, "message",
              "Name the tmux pane in which a session's agent runs.", (TEXT_ID,), PANE_BODY, statuses=(409,)),
    Operation(
        "POST", "/api/messages", "messages", MessageVerbs.send, "message",
        "Queue a message for an agent session. 404: there is none; 409: it is closed, or several fit; 429: 1,000 wait.",
        body=MESSAGE_BODY, statuses=(202, 404, 409, 429),
    ),
    Operation("PUT", BLOBS_PATH, "blobs", BlobVerbs.put, "message",
              "Store a file of at most 10 MB for a message of type voice or file.", raw="data", statuses=(413, 422)),
    Operation("GET", "/api/messages/{id}", "messages", MessageVerbs.show, "read",
              "Show a message and what became of it.", (TEXT_ID,)),
    Operation(
        "GET", "/api/receipts", "receipts", ReceiptVerbs.find, "read", "List receipts in order, chain by chain.",
        (text("chain"), text("after", "^(?:[^\\u0000]*:)?[0-9]{1,18}$"), limit(50)),
    ),
    Operation("GET", "/api/receipts/heads", "receipts", ReceiptVerbs.heads, "read",
              "Show the last link of each chain of receipts."),
    Operation(
        "GET", "/api/receipts/verify", "receipts", ReceiptVerbs.verify, "read",
        "Check every chain of receipts, or some links, and list every fault.",
        (text("chain"), whole("first", 1, ID_MAX, 1), whole("last", 1, ID_MAX), flag("rows")),
    ),
    Operation(
        "POST", "/api/substrate/receipts", "receipts", ReceiptVerbs.append, "append",
        "Append a receipt of another system. A second one of the same source answers with the first. "
        "409: the next place of the chain is taken.",
        (Parameter("X-Substrate-Principal", principal, NAME, "header"),), RECEIPT_BODY,
        statuses=(409,),
    ),
    Operation(
        "GET", "/api/substrate/receipts", "receipts", ReceiptVerbs.find_appended, "read",
        "List receipts of other systems, in the order of their chain.",
        (text("source_system"), text("source_table"), text("source_id"), text("action_type"), text("tenant_id"),
         *_PAGE),
    ),
    Operation(
        "GET", "/api/substrate/receipts/verify", "receipts", ReceiptVerbs.verify, "read",
        "Check the chain of receipts of other systems and list every fault.",
        (whole("first", 1, ID_MAX, 1), whole("last", 1, ID_MAX), flag("rows")), fixed={"chain": "substrate"},
        name="receipts_verify_substrate",
    ),
    Operation("GET", "/api/fleet", "fleet", FleetVerbs.show, "read",
              "Show every configured component with its dead letters and queues."),
    Operation("GET", "/api/status", "status", StatusVerbs.show, "read", "Show daemon health and queue counts."),
    Operation(
        "POST", "/api/pause", "maintenance", MaintenanceVerbs.pause, "operate",
        "Pause deliveries of a contract, an address or a lane.", body=PAUSE_BODY, statuses=(404,),
    ),
    Operation("POST", "/api/resume", "maintenance", MaintenanceVerbs.resume, "operate",
              "Resume deliveries of a contract, an address or a lane.", body=PAUSE_BODY),
    Operation("GET", "/api/history", "history", HistoryVerbs.show, "read",
              "Show counts of the last hour by minute, or of the last day by quarter of an hour.",
              (choice("span", SPANS),)),
    Operation("POST", "/api/login-links", "login", LoginVerbs.create, "admin",
              "Create a link with which one person can log in to the web page."),
    Operation("POST", "/api/prune", "maintenance", MaintenanceVerbs.prune, "admin",
              "Remove rows past their retention now."),
)  # fmt: skip
