"""The kinds of disruption on PostgreSQL, with the weight each is drawn with."""

from __future__ import annotations

DAEMON, BACKEND, POSTMASTER = "daemon killed", "backend killed", "postmaster killed"
TERMINATED, STOPPED, RESTARTED = "sessions terminated", "daemon stopped", "daemon restarted"
CUT, MOVED, FAILOVER = "network cut", "queue moved", "failover"
KINDS = {
    DAEMON: 24, STOPPED: 14, TERMINATED: 14, BACKEND: 12, POSTMASTER: 8, RESTARTED: 8, CUT: 12, MOVED: 5, FAILOVER: 3,
}  # fmt: skip
SERVER_KINDS = frozenset({BACKEND, POSTMASTER, FAILOVER})
"""These kill processes of the server itself, and may lose what was committed without a flush."""
OWN_KINDS = SERVER_KINDS | {CUT, MOVED}
"""Used only on servers that the proof started: a user's server keeps its processes, its network and its extensions."""
