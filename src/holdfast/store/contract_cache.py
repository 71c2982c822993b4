"""A cache of parsed contracts, so that a change of one does not mean parsing all of them again."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.domain.contract import Contract
from holdfast.store.rows import Stored, to_contract


class ContractCache:
    """The contracts of the last read. A row that has not changed yields the same object again."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[tuple[object, ...], Contract]] = {}

    def read(self, rows: Iterable[Stored]) -> list[Contract]:
        """Parse all rows of `contract_all`; contracts that are no longer among them leave the cache."""
        before, self._parsed = self._parsed, {}
        for stored in rows:
            row = tuple(stored)
            cached = before.get(row[0])
            self._parsed[row[0]] = cached if cached is not None and cached[0] == row else (row, to_contract(row))
        return [contract for _, contract in self._parsed.values()]
