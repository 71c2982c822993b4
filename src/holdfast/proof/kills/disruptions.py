"""The kinds of trouble on PostgreSQL, and how often each is drawn."""

from __future__ import annotations

DAEMON, BACKEND, POSTMASTER = "daemon killed", "backend killed", "postmaster killed"
TERMINATED, STOPPED = "sessions terminated", "daemon stopped"
KINDS = {DAEMON: 30, STOPPED: 20, TERMINATED: 20, BACKEND: 18, POSTMASTER: 12}
SERVER_KINDS = frozenset({BACKEND, POSTMASTER})
"""These strike the server itself, and only one of our own."""
