"""Verify an exported bundle of receipts. Needs Python 3.11 and nothing else: it imports nothing of Holdfast.

    python verify.py FOLDER [--key whpk_…]

Prints every fault with its position. Exits with 0 if there is none, 1 if there are faults, 2 if the folder cannot be
read. Give the public keys that you know from elsewhere: the keys in the bundle come from its author.
"""

import base64
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

FORMAT = "holdfast.receipts.v1"
GENESIS = bytes(32)
SOURCE = ("source_system", "source_table", "source_id", "action_type")

# Ed25519 (RFC 8032): points of the curve in extended coordinates.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int, int, int]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def add(a: Point, b: Point) -> Point:
    left, right = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    cross, both = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = right - left, both - cross, both + cross, right + left
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(scalar: int, point: Point) -> Point:
    result: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def decode(data: bytes) -> Point:
    """A point from its 32 bytes. Raises ValueError if they are none."""
    number = int.from_bytes(data, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (not x and sign):
        raise ValueError("not a point of the curve")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        public, nonce = decode(key), decode(signature[:32])
    except ValueError:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or scalar >= ORDER:
        return False
    digest = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    one, other = multiply(scalar, BASE), add(nonce, multiply(digest, public))
    return (one[0] * other[2] - other[0] * one[2]) % P == 0 and (one[1] * other[2] - other[1] * one[2]) % P == 0


def merkle_root(leaves: bytes) -> bytes:
    level = [sha256(b"\x00" + line) for line in leaves.split(b"\n")] if leaves else [GENESIS]
    while len(level) > 1:
        pairs = [sha256(b"\x01" + level[at] + level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def link_faults(link: dict[str, object], seq: int, prev: str) -> Iterator[str]:
    """What is wrong with a link that should have this number and follow this hash."""
    leaves = bytes.fromhex(str(link["leaves_hex"])) if "leaves_hex" in link else str(link["leaves"]).encode()
    count = leaves.count(b"\n") + 1 if leaves else 0
    if link["seq"] != seq:
        yield f"gap: link {seq} is missing before it"
    elif link["prev"] != prev:
        yield "broken_link: its prev is not the hash of the previous link"
    if merkle_root(leaves).hex() != link["root"]:
        yield "edited_leaf: its leaves do not match its root"
    start = f"holdfast.link.v1\n{link['chain']}\n{link['seq']}\n{link['at']}\n{count}\n".encode()
    if sha256(start + bytes.fromhex(str(link["prev"])) + bytes.fromhex(str(link["root"]))).hex() != link["h_self"]:
        yield "edited_link: its hash does not match its content"
    if link["chain"] == "substrate":
        body = json.loads(leaves)
        if not all(body.get(name) for name in SOURCE):
            yield "missing_source: it does not say what it is about"
        if not isinstance(body.get("references"), dict):
            yield "malformed_references: its references cannot be read"


class Bundle:
    """One exported folder. `faults` are lines for the reader."""

    def __init__(self, folder: Path, keys: list[str]) -> None:
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        if self.manifest.get("format") != FORMAT:
            raise ValueError(f"the manifest does not say {FORMAT}")
        self.keys = keys or self.manifest["keys"]
        self.faults: list[str] = []
        self.links = self.heads = 0

    def verify(self) -> None:
        heads = self.signed_heads()
        ends: dict[str, tuple[int, str]] = {}
        sources: dict[tuple[object, ...], int] = {}
        for link in self.lines("receipts.jsonl"):
            chain = str(link["chain"])
            seq, prev = ends.get(chain, (0, GENESIS.hex()))
            try:
                found = list(link_faults(link, seq + 1, prev))
            except (ValueError, KeyError, TypeError) as error:
                found = [f"malformed: {error}"]
            if int(link["seq"]) in heads.get(chain, {}) and heads[chain].pop(int(link["seq"])) != link["h_self"]:
                found.append("rewritten: a signed head has another hash for this link")
            if chain == "substrate" and not found:
                body = json.loads(str(link["leaves"]))
                source = tuple(body.get(name) for name in (*SOURCE, "source_version"))
                if sources.setdefault(source, int(link["seq"])) != link["seq"]:
                    found.append(f"duplicate_source: receipt {sources[source]} has the same source")
            self.faults += [f"{chain} {link['seq']}: {fault}" for fault in found]
            ends[chain] = int(link["seq"]), str(link["h_self"])
            self.links += 1
        for chain, end in self.manifest["chains"].items():
            if ends.get(chain, (0, GENESIS.hex())) != (end["seq"], end["h_self"]):
                self.faults.append(f"{chain} {end['seq']}: cut: the chain does not end where the manifest ends it")
        for chain, missing in heads.items():
            if missing:
                self.faults.append(f"{chain} {min(missing)}: cut: a signed head names a link that is missing")

    def signed_heads(self) -> dict[str, dict[int, str]]:
        """The hashes that signed heads give to links, by chain and number."""
        heads: dict[str, dict[int, str]] = {}
        for head in self.lines("heads.jsonl"):
            key, signature = str(head["key"]), base64.b64decode(str(head["signature"]))
            names = ("store", "chain", "seq", "h_self", "at")
            message = "holdfast.head.v1\n" + "".join(f"{head[name]}\n" for name in names)
            public = base64.b64decode(key.removeprefix("whpk_"))
            if key in self.keys and is_signed(public, signature, message.encode()):
                heads.setdefault(str(head["chain"]), {})[int(head["seq"])] = str(head["h_self"])
                self.heads += 1
            else:
                self.faults.append(f"{head['chain']} {head['seq']}: unsigned_head: not signed by a known key")
        return heads

    def lines(self, name: str) -> Iterator[dict]:  # type: ignore[type-arg]
        with (self.folder / name).open("rb") as file:
            for line in file:
                yield json.loads(line)


def say(text: str | None) -> None:
    sys.stdout.write(f"{text}\n")


def main(arguments: list[str]) -> int:
    if not arguments or arguments[1::2] != ["--key"] * len(arguments[1::2]) or len(arguments) % 2 == 0:
        say(__doc__)
        return 2
    try:
        bundle = Bundle(Path(arguments[0]), arguments[2::2])
        bundle.verify()
    except (OSError, ValueError, KeyError, TypeError) as error:
        say(f"{arguments[0]} is not an exported bundle of receipts: {error}")
        return 2
    for fault in bundle.faults:
        say(fault)
    if not arguments[1:]:
        say("note: the keys are those of the bundle itself; give --key with a key that you know from elsewhere")
    verdict = "NOT intact" if bundle.faults else "intact"
    chains = len(bundle.manifest["chains"])
    say(f"Receipts are {verdict}: {chains} chains, {bundle.links} links, {bundle.heads} signed heads.")
    return 1 if bundle.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
