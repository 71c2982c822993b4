"""`manage.py holdfast_migrate`: make or update Holdfast's tables in the project's database."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from holdfast.django import migrate


class Command(BaseCommand):  # type: ignore[misc]
    help = "Make or update Holdfast's tables. Harmless to repeat."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--database", help="The alias in DATABASES; else the one HOLDFAST names.")

    def handle(self, *args: Any, database: str | None = None, **options: Any) -> None:
        before, after = migrate(database)
        came = "was up to date" if before == after else f"came from schema {before}"
        self.stdout.write(f"Holdfast has schema {after}; it {came}")
