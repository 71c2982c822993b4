"""What was read of the contracts before, so that a change of one does not mean reading all of them anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.domain.contract import Contract
from holdfast.store.rows import Stored, to_contract


class ContractCache:
    """Contracts as they were read last. A row that has not changed is not read anew: it gives the same object again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[Any, ...], Contract]] = {}

    def read(self, rows: Iterable[Stored]) -> list[Contract]:
        """All rows of `contract_all`; what is no longer among them is forgotten."""
        before, self._known = self._known, {}
        for stored in rows:
            row = tuple(stored)
            known = before.get(row[0])
            self._known[row[0]] = known if known is not None and known[0] == row else (row, to_contract(row))
        return [contract for _, contract in self._known.values()]
