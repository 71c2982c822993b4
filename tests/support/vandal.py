"""Changes a store behind Holdfast's back, as a person with access to the database can."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from holdfast.domain.receipt import Link


class Vandal:
    """SQL with `{t}` before each table name and `?` for each value, on either store."""

    def __init__(self, sqlite: Path | None = None, postgres: tuple[str, str] | None = None) -> None:
        self._sqlite, self._postgres = sqlite, postgres

    async def run(self, text: str, *values: Any) -> list[Any]:
        if self._sqlite is not None:
            connection = sqlite3.connect(self._sqlite)
            try:
                rows = connection.execute(text.replace("{t}", "holdfast_"), values).fetchall()
                connection.commit()
                return rows
            finally:
                connection.close()
        assert self._postgres is not None
        address, schema = self._postgres
        raw = await asyncpg.connect(address)
        try:
            numbers = iter(range(1, 100))
            return list(
                await raw.fetch(
                    re.sub(r"\?", lambda _: f"${next(numbers)}", text.replace("{t}", f"{schema}.")), *values
                )
            )
        finally:
            await raw.close()

    async def links(self, chain: str) -> list[Link]:
        text = "SELECT chain, seq, at, prev, root, h_self, leaves FROM {t}receipts WHERE chain = ? ORDER BY seq"
        return [Link(*row) for row in await self.run(text, chain)]

    async def delete(self, link: Link) -> None:
        await self.run("DELETE FROM {t}receipts WHERE chain = ? AND seq = ?", link.chain, link.seq)

    async def insert(self, *links: Link) -> None:
        for link in links:
            await self.run(
                "INSERT INTO {t}receipts (chain, seq, at, prev, root, h_self, leaves) VALUES (?, ?, ?, ?, ?, ?, ?)",
                *link.as_row(),
            )

    async def replace(self, chain: str, links: Sequence[Link]) -> None:
        """Put these links in the place of all links of the chain."""
        await self.run("DELETE FROM {t}receipts WHERE chain = ?", chain)
        await self.insert(*links)

    async def set_head(self, link: Link) -> None:
        await self.run("UPDATE {t}nodes SET seq = ?, head = ? WHERE chain = ?", link.seq, link.hash, link.chain)

    async def allow_duplicates(self) -> None:
        """Take the unique key from the table of receipts."""
        if self._postgres is not None:
            await self.run("ALTER TABLE {t}receipts DROP CONSTRAINT receipts_pkey")
            return
        await self.run("CREATE TABLE copy AS SELECT * FROM {t}receipts")
        await self.run("DROP TABLE {t}receipts")
        await self.run("CREATE TABLE {t}receipts AS SELECT * FROM copy")

    async def clean_up(self) -> None:
        """Remove what no later check would accept."""
        for table in ("receipts", "nodes", "substrate", "deliveries", "ready", "lanes", "attempts"):
            await self.run(f"DELETE FROM {{t}}{table}")
