"""Substrate receipt: what another system did, appended to the shared chain `substrate`.

Inputs and outputs are kept as digests: SHA-256 over their canonical JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import NamedTuple

from holdfast.domain.canonical import dump_json
from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_name
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.text import short_repr

CHAIN = "substrate"
ACTOR_KINDS = ("human", "agent", "service", "substrate")
REFERENCES_MAX = 100
REFERENCES_BYTES_MAX = 16 * 1024
LEAF_MAX = 64 * 1024
SOURCE = ("source_system", "source_table", "source_id", "action_type", "source_version")
"""The source tuple: there is one receipt for each."""
DIGESTED = ("input", "output")

_DIGEST = re.compile(r"[0-9a-f]{64}")


class SourceTuple(NamedTuple):
    """What a receipt is about. Two receipts with the same tuple are the same receipt."""

    source_system: str
    source_table: str
    source_id: str
    action_type: str
    source_version: str


@dataclass(frozen=True, slots=True)
class SubstrateReceipt:
    """The part of a receipt that its writer chooses. `source_version` is empty unless the source counts versions."""

    tenant_id: str | None
    source_system: str
    source_table: str
    source_id: str
    source_version: str
    action_type: str
    actor_id: str
    actor_kind: str
    input_hash: str
    output_hash: str
    references: JsonObject

    @property
    def source(self) -> SourceTuple:
        return SourceTuple(*(getattr(self, name) for name in SOURCE))

    def leaf(self, id: str, chain_seq: int, at_ms: int, written_by: str) -> bytes:
        """The canonical line of which the hash of the link is made."""
        written: JsonObject = {"at": at_ms, "chain_seq": chain_seq, "id": id, "written_by": written_by}
        return dump_json({**self.as_object(), **written}, "receipt", LEAF_MAX)

    def as_object(self) -> JsonObject:
        return asdict(self)

    def is_in(self, leaf: bytes) -> bool:
        """Whether this line records the same receipt."""
        try:
            stored = json.loads(leaf)
        except (ValueError, RecursionError):
            return False
        return isinstance(stored, dict) and all(stored.get(name) == value for name, value in self.as_object().items())


KEYS = (*(item.name for item in fields(SubstrateReceipt)), *DIGESTED)


def parse_receipt(body: object, actor_id: str) -> SubstrateReceipt:
    """Read a receipt that a caller wants to append. `actor_id`: the actor, if the body names none."""
    if not isinstance(body, Mapping):
        raise BadInput(f"a receipt must be a JSON object, not {short_repr(body)}")
    if unknown := sorted(str(key) for key in body.keys() - set(KEYS)):
        raise BadInput(f"a receipt has no field {short_repr(unknown[0])}; it has {', '.join(KEYS)}")
    tenant, version = body.get("tenant_id"), body.get("source_version")
    actor, kind = body.get("actor_id"), body.get("actor_kind")
    if kind is not None and kind not in ACTOR_KINDS:
        raise BadInput(f"actor_kind must be one of {', '.join(ACTOR_KINDS)}, not {short_repr(kind)}")
    return SubstrateReceipt(
        tenant_id=None if tenant is None else check_name(tenant, "tenant_id"),
        source_system=check_name(body.get("source_system"), "source_system"),
        source_table=check_name(body.get("source_table"), "source_table"),
        source_id=_id(body.get("source_id"), "source_id"),
        source_version="" if version is None else _id(version, "source_version"),
        action_type=check_name(body.get("action_type"), "action_type"),
        actor_id=check_name(actor_id if actor is None else actor, "actor_id"),
        actor_kind="service" if kind is None else str(kind),
        input_hash=_digest(body, "input"),
        output_hash=_digest(body, "output"),
        references=_references(body.get("references")),
    )


def leaf_faults(leaf: bytes, chain_seq: int) -> Iterator[tuple[str, str]]:
    """Kinds and descriptions of what is wrong with the content of a stored receipt."""
    try:
        stored = json.loads(leaf)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict) or not {*SOURCE, "id", "chain_seq"} <= stored.keys():
        yield "malformed", "it cannot be read as a receipt of another system"
        return
    if stored["chain_seq"] != chain_seq:
        yield "malformed", f"it says that it is receipt {short_repr(stored['chain_seq'])}"
    missing = [name for name in SOURCE[:4] if not isinstance(stored[name], str) or not stored[name]]
    if missing:
        yield "missing_source", f"it does not say what it is about: {', '.join(missing)}"
    try:
        _references(stored.get("references"))
    except BadInput as error:
        yield "malformed_references", error.message


def _id(value: object, what: str) -> str:
    """Ids are texts; a whole number is written as its digits."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return str(value)
    return check_name(value, what)


def _digest(body: Mapping[str, Json], name: str) -> str:
    """The digest that was given, or that of the value that was given."""
    digest = body.get(f"{name}_hash")
    if digest is None:
        return sha256(dump_json(body.get(name), name)).hexdigest()
    if name in body:
        raise BadInput(f"give {name} or {name}_hash, not both")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise BadInput(f"{name}_hash must be 64 hex digits in lower case, not {short_repr(digest)}")
    return digest


def _references(value: object) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadInput(f"references must be an object of names and values, not {short_repr(value)}")
    if len(value) > REFERENCES_MAX:
        raise BadInput(f"references has {len(value)} names; the limit is {REFERENCES_MAX}")
    for name, reference in value.items():
        check_name(name, "the name of a reference")
        items = reference if isinstance(reference, list) else [reference]
        if not all(isinstance(item, str | int | float | None) for item in items):
            raise BadInput(f"reference {short_repr(name)} must be a string, number, boolean, null, or a list of those")
    dump_json(dict(value), "references", REFERENCES_BYTES_MAX)
    return dict(value)
