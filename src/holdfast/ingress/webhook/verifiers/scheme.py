"""Scheme: what a sender signs, with which algorithm, and where the signature and its time are found."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.domain.signature import TOLERANCE_S

ED25519 = "ed25519"
ALGORITHMS = ("sha256", "sha1", "sha384", "sha512", ED25519)
ENCODINGS = ("hex", "base64", "base64url")
RAW, BASE64, HEX = "raw", "base64", "hex"
SECRET_ENCODINGS = (RAW, BASE64, HEX)
TIMESTAMP_UNITS = ("s", "ms", "iso")


@dataclass(frozen=True, slots=True)
class Scheme:
    """The parts of a signature scheme; each is a key of `verify` in the configuration.

    `header` contains the signature: alone, after `prefix`, or, if `signature_key` is set, in a list such as
    `t=1700000000,v1=5257a8…`, whose members are separated by `separator`. The signed time is in the same
    list (`timestamp_key`), in a header of its own, or in a field of the JSON body (`timestamp_field`).
    """

    header: str = ""
    content: str = "{body}"
    algorithm: str = "sha256"
    encoding: str = "hex"
    prefix: str = ""
    separator: str = ","
    signature_key: str = ""
    timestamp_key: str = ""
    timestamp_header: str = ""
    timestamp_field: str = ""
    timestamp_unit: str = "s"
    tolerance_seconds: int = TOLERANCE_S
    secret_encoding: str = RAW


PLAIN = Scheme()
