"""Lease: the right to settle one delivery, held by one process at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.domain.delivery import Claim


class Lease(NamedTuple):
    """Both parts identify it: one batch may settle a delivery twice, by its former and its present holder."""

    delivery: int
    token: int


def leases_of(claims: Sequence[Claim]) -> list[Lease]:
    return [Lease(claim.delivery.id, claim.token) for claim in claims]
