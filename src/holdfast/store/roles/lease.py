"""Lease: the right to settle one delivery, held by one process at a time."""

from __future__ import annotations

from typing import NamedTuple


class Lease(NamedTuple):
    """Both parts identify it: one batch may settle a delivery twice, by its former and its present holder."""

    delivery: int
    token: int
