"""Export the receipts into a folder that is verified without Holdfast and without the database."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

from holdfast.domain.chain_check import LinkRow
from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.event import iso_time
from holdfast.domain.json_value import JsonObject
from holdfast.domain.signed_head import SignedHead
from holdfast.ledger.verifier import pages
from holdfast.ledger.verify_bundle import FORMAT
from holdfast.store.roles.store import Store


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    chains: int
    links: int
    heads: int


async def export_receipts(store: Store, folder: Path, heads: list[SignedHead], keys: list[str], now_ms: int) -> Export:
    """Write all chains, the signed heads, the public keys and a program that verifies them. The folder must be new."""
    _make(folder)
    ends = [end for end in await store.receipts.ends() if end.head is not None and end.last]
    links = 0
    with _create(folder / "receipts.jsonl") as file:
        for end in ends:
            async for page in pages(store.receipts, end.chain, 1, end.last):
                file.writelines(_line(_link(row)) for row in page)
                links += len(page)
    with _create(folder / "heads.jsonl") as file:
        file.writelines(_line(head.as_object()) for head in heads)
    manifest: JsonObject = {
        "format": FORMAT,
        "store": store.url,
        "exported_at": iso_time(now_ms),
        "keys": [*keys],
        "chains": {end.chain: {"seq": end.head.seq, "h_self": end.head.hash.hex()} for end in ends if end.head},
    }
    with _create(folder / "manifest.json") as file:
        file.write(json.dumps(manifest, indent=2).encode() + b"\n")
    with _create(folder / "verify.py") as file:
        file.write(files("holdfast.ledger").joinpath("verify_bundle.py").read_bytes())
    return Export(len(ends), links, len(heads))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise Conflict(f"{folder} exists already; choose another name, or remove it first") from None
    except FileNotFoundError:
        raise NotFound(f"the folder {folder.parent} does not exist; create it first") from None


def _create(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _line(value: JsonObject) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _link(row: LinkRow) -> JsonObject:
    chain, seq, at_ms, prev, root, hash, leaves = row
    link: JsonObject = {
        "chain": chain,
        "seq": seq,
        "at": at_ms,
        "prev": prev.hex(),
        "root": root.hex(),
        "h_self": hash.hex(),
    }
    try:
        return {**link, "leaves": leaves.decode("utf-8")}
    except UnicodeDecodeError:  # not written by Holdfast; kept as it is, so that the fault is found
        return {**link, "leaves_hex": leaves.hex()}
