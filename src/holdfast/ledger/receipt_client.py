"""Write receipts to a Holdfast elsewhere: published in your own transaction, delivered with retries.

    receipts = ReceiptClient(outbox, "https://ledger.example/api/substrate/receipts", source_system="shop", token=…)

    with connection:
        connection.execute("update tasks set state = 'done' …")
        receipts.append(connection, source_table="tasks", source_id="42", action_type="task.complete")

The receipt is stored with the change it is about, or not at all. It is sent under policy `receipt` until the ledger has
it. What the ledger refuses is a dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion, check_contract_id, check_headers
from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_name
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.registered_contracts import ContractWithHeaders
from holdfast.domain.substrate_receipt import SubstrateReceipt, parse_receipt

if TYPE_CHECKING:
    from holdfast.store.door import Published

SOURCE = "receipts"
TYPE = "receipt.append"
PRINCIPAL = "X-Substrate-Principal"
RETRY_ON = (401, 404, 409)  # a token that is being rotated, a deployment, a contended chain
_SENT = (
    "tenant_id", "source_system", "source_table", "source_id", "source_version", "action_type", "actor_id",
    "actor_kind", "input_hash", "output_hash", "references",
)  # fmt: skip
TEMPLATE = "{" + ",".join(f'"{name}":{{payload.{name}}}' for name in _SENT) + "}"


class ReceiptFields(TypedDict, total=False):
    """The fields of a receipt. Of `input` and `output` only the digests are stored and sent."""

    source_table: str
    source_id: str | int
    source_version: str | int | None
    action_type: str
    actor_id: str | None
    actor_kind: str | None
    tenant_id: str | None
    input: Json
    output: Json
    input_hash: str | None
    output_hash: str | None
    references: Mapping[str, Json] | None


class _Contracts(Protocol):
    def register(self, contract: Contract) -> None: ...


class _Outbox(Protocol):
    """The part of an `Outbox` that is used here."""

    @property
    def contracts(self) -> _Contracts: ...

    def publish(
        self, connection: object, type: str, payload: object, *, source: str, properties: JsonObject, dedup: str
    ) -> Published: ...

    async def publish_async(
        self, connection: object, type: str, payload: object, *, source: str, properties: JsonObject, dedup: str
    ) -> Published: ...


class ReceiptClient:
    """Appends receipts of one system. Creating it registers a contract that delivers them; it connects to nothing.

    `name` is the id of that contract; give each client of an application its own. `token` and `principal` are sent as
    headers. A receipt of a source tuple is sent once, under one id: a second `append` returns the first event, and one
    with another content raises `DedupConflict`.
    """

    def __init__(
        self,
        outbox: _Outbox,
        url: str,
        *,
        source_system: str,
        token: str | None = None,
        principal: str | None = None,
        name: str = "receipts",
        actor_id: str | None = None,
    ) -> None:
        self._outbox, self._name = outbox, check_contract_id(name)
        self._source_system = check_name(source_system, "source_system")
        self._actor_id = check_name(actor_id or principal or source_system, "actor_id")
        address = parse_address(url)
        if address.kind != "https":
            raise BadInput(f"receipts are sent to https://…, not to {address.kind}:")
        headers = {} if token is None else {"Authorization": f"Bearer {token.strip()}"}
        headers |= {} if principal is None else {PRINCIPAL: principal}
        outbox.contracts.register(
            ContractWithHeaders(
                id=self._name,
                address=address,
                source_criterion=Criterion(match=SOURCE),
                type_criterion=Criterion(match=TYPE),
                properties={"client": Criterion(match=self._name)},
                policy="receipt",
                headers=tuple(headers),
                header_values=check_headers(headers),
                format="template",
                template=TEMPLATE,
                retry_on=RETRY_ON,
            )
        )

    def append(self, connection: object, **fields: Unpack[ReceiptFields]) -> Published:
        """Publish a receipt in the caller's transaction. `BadInput` if the ledger could not accept it."""
        receipt = self._receipt(fields)
        return self._outbox.publish(connection, TYPE, _payload(receipt), **self._about(receipt))

    async def append_async(self, connection: object, **fields: Unpack[ReceiptFields]) -> Published:
        """The same on a connection that is awaited."""
        receipt = self._receipt(fields)
        return await self._outbox.publish_async(connection, TYPE, _payload(receipt), **self._about(receipt))

    def _receipt(self, fields: ReceiptFields) -> SubstrateReceipt:
        return parse_receipt({**fields, "source_system": self._source_system}, self._actor_id)

    def _about(self, receipt: SubstrateReceipt) -> _About:
        digest = sha256("\n".join((self._name, *receipt.source)).encode()).hexdigest()
        return {"source": SOURCE, "properties": {"client": self._name}, "dedup": f"receipt:{digest}"}


class _About(TypedDict):
    source: str
    properties: JsonObject
    dedup: str


def _payload(receipt: SubstrateReceipt) -> JsonObject:
    return {**receipt.as_object(), "source_version": receipt.source_version or None}
