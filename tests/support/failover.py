"""A primary and a standby that replicates from it, both of which a test may kill and promote."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from holdfast.proof.kills.processes import Stuck
from holdfast.proof.kills.server_pair import ServerPair
from postgres import newest, versions


class Pair(ServerPair):
    """`url` names both servers."""

    def url(self, schema: str) -> str:
        return f"{self.address}&schema={schema}"


@contextlib.contextmanager
def replicated() -> Iterator[Pair]:
    """Start both servers; replication is asynchronous at first."""
    programs = versions()[newest()]
    try:
        with Pair(programs, f"hf-pg{newest()}-") as pair:
            assert isinstance(pair, Pair)
            pair.make_asynchronous()
            yield pair
    except (OSError, subprocess.SubprocessError, Stuck) as error:
        reason = getattr(error, "stderr", None) or error
        pytest.fail(f"PostgreSQL {newest()} from {programs} did not replicate: {reason}", pytrace=False)
