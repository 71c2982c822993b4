"""Signed heads of receipt chains, and the keys that sign them: files in the home folder, outside the database.

receipts/signing.key    the private key, mode 0600
receipts/public.keys    every public key so far, one per line, the newest last
receipts/heads.jsonl    the signed heads, oldest first
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.domain import ed25519
from holdfast.domain.canonical import dump_json
from holdfast.domain.chain_check import ChainFault, Head
from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.signed_head import SignedHead, parse_head
from holdfast.home import write_secret

KEPT_MAX = 10_000
CHECKED_MAX = 2000
LINE_MAX = 4096
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeptHeads:
    """Heads whose signature is valid, and a fault for each other one."""

    anchors: list[tuple[str, Head]] = field(default_factory=list)
    faults: list[ChainFault] = field(default_factory=list)


class SignedHeads:
    """The files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key_file, self.public_file = folder / "signing.key", folder / "public.keys"
        self.file = folder / "heads.jsonl"

    def signer(self, entropy: bytes) -> ed25519.Signer:
        """The signer of the present key, which is made from `entropy` if there is none."""
        try:
            secret = self.key_file.read_text("ascii").strip()
        except FileNotFoundError:
            return self.rotate(entropy)
        except (OSError, ValueError) as error:
            raise BadConfig(f"{self.key_file} cannot be read ({error}); it signs the heads of receipt chains") from None
        return ed25519.signer(secret)

    def rotate(self, entropy: bytes) -> ed25519.Signer:
        """Sign with a new key from now on. The old public keys stay valid for what they signed."""
        if len(entropy) != KEY_BYTES:
            raise ValueError(f"a key needs {KEY_BYTES} random bytes")
        signer = ed25519.signer(ed25519.PRIVATE_PREFIX + base64.b64encode(entropy).decode())
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(self.public_file, "\n".join([*self.public_keys(), signer.public_key]))
        write_secret(self.key_file, ed25519.PRIVATE_PREFIX + base64.b64encode(entropy).decode())
        return signer

    def public_keys(self) -> list[str]:
        try:
            return self.public_file.read_text("ascii").split()
        except FileNotFoundError:
            return []

    def read(self) -> list[SignedHead]:
        """The kept heads, oldest first."""
        return read_heads(self.file) if self.file.exists() else []

    def of(self, store: str) -> list[SignedHead]:
        """The kept heads of one store, by its URL."""
        return [head for head in self.read() if head.store == store]

    def check(self, store: str) -> KeptHeads:
        """The kept heads of one store, checked with the public keys so far. Without `cryptography` there are none."""
        if not ed25519.is_available():
            return KeptHeads()
        return check_heads(self.of(store)[-CHECKED_MAX:], self.public_keys())

    def add(self, heads: Sequence[SignedHead]) -> None:
        """Append heads and sync. When the file is long, its oldest half is dropped."""
        lines = [dump_json(head.as_object()) + b"\n" for head in heads]
        descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, b"".join(lines))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        kept = self.file.read_bytes().splitlines()
        if len(kept) > KEPT_MAX:
            write_secret(self.file, b"\n".join(kept[-KEPT_MAX // 2 :]).decode())


def read_heads(path: Path) -> list[SignedHead]:
    """Signed heads from a file with one JSON object per line."""
    heads = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number > 10 * KEPT_MAX:
                raise BadInput(f"{path} has more than {10 * KEPT_MAX:,} lines")
            if line.strip():
                try:
                    heads.append(parse_head(json.loads(line[:LINE_MAX])))
                except (ValueError, BadInput):
                    raise BadInput(f"{path}: line {number} is not a signed head") from None
    return heads


def check_heads(heads: Iterable[SignedHead], keys: Sequence[str]) -> KeptHeads:
    """Separate the heads that one of the keys signed from the others."""
    found = KeptHeads()
    for head in heads:
        if head.is_signed_by(keys):
            found.anchors.append((head.chain, head.head))
        else:
            message = "a kept head of this chain is not signed by a known key"
            found.faults.append(ChainFault(head.chain, head.seq, "unsigned_head", message))
    return found
