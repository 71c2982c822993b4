"""Signed head: the end of a receipt chain at one moment, signed with a key that is not in the database.

    message = "holdfast.head.v1\\n" store "\\n" chain "\\n" seq "\\n" hash in hex "\\n" time "\\n"

A head that is kept elsewhere shows that a chain was cut, rewritten, or replaced by an old copy.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.domain import ed25519
from holdfast.domain.chain_check import Head
from holdfast.domain.errors import BadInput
from holdfast.domain.json_value import Json, JsonObject, text_in

_HASH = re.compile("[0-9a-f]{64}")


class SignedHead(NamedTuple):
    """`store` is the URL of the store, `key` the public key as `whpk_…`, `signature` base64."""

    store: str
    chain: str
    seq: int
    h_self: str
    at: str
    key: str
    signature: str

    @property
    def head(self) -> Head:
        return Head(self.seq, bytes.fromhex(self.h_self))

    def as_object(self) -> JsonObject:
        return self._asdict()

    def is_signed_by(self, keys: Iterable[str]) -> bool:
        """Whether one of these public keys signed it."""
        if self.key not in set(keys):
            return False
        message = head_message(self.store, self.chain, self.head, self.at)
        return ed25519.verify_v1a([self.key], [f"v1a,{self.signature}"], message)


def head_message(store: str, chain: str, head: Head, at: str) -> bytes:
    return f"holdfast.head.v1\n{store}\n{chain}\n{head.seq}\n{head.hash.hex()}\n{at}\n".encode()


def sign_head(store: str, chain: str, head: Head, at: str, signer: ed25519.Signer) -> SignedHead:
    signature = base64.b64encode(signer.sign(head_message(store, chain, head, at))).decode()
    return SignedHead(store, chain, head.seq, head.hash.hex(), at, signer.public_key, signature)


def parse_head(value: Json) -> SignedHead:
    """Read a signed head, as `receipts.head` events and the file of heads hold it."""
    if isinstance(value, dict):
        texts = [text_in(value, name) for name in ("store", "chain", "h_self", "at", "key", "signature")]
        seq = value.get("seq")
        if isinstance(seq, int) and all(texts) and _HASH.fullmatch(texts[2] or ""):
            store, chain, h_self, at, key, signature = (text or "" for text in texts)
            return SignedHead(store, chain, seq, h_self, at, key, signature)
    raise BadInput("this is not a signed head of a receipt chain")
