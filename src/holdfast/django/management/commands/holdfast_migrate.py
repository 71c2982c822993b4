"""`manage.py holdfast_migrate`: create or update Holdfast's tables in the project's database."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from holdfast.django import migrate


class Command(BaseCommand):  # type: ignore[misc]
    help = "Create or update Holdfast's tables. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database", help="Alias in DATABASES. Default: the one that the setting HOLDFAST names.")

    def handle(self, *args: object, database: str | None = None, **options: object) -> None:
        before, after = migrate(database)
        change = "already up to date" if before == after else f"updated from {before}"
        self.stdout.write(f"Holdfast schema {after} ({change})")
