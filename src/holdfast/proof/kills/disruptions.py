"""The kinds of disruption on PostgreSQL, with the weight each is drawn with."""

from __future__ import annotations

DAEMON, BACKEND, POSTMASTER = "daemon killed", "backend killed", "postmaster killed"
TERMINATED, STOPPED = "sessions terminated", "daemon stopped"
KINDS = {DAEMON: 30, STOPPED: 20, TERMINATED: 20, BACKEND: 18, POSTMASTER: 12}
SERVER_KINDS = frozenset({BACKEND, POSTMASTER})
"""These kill processes of the server itself; used only on a server that the proof started."""
