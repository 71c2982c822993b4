"""SQLite keeps every promise of the store suite, with the daemon's driver and with the application's."""

from __future__ import annotations

from holdfast.testing.store_suite import all_suites

globals().update(all_suites())
