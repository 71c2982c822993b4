"""The command `holdfast prove`."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.options import Command, json_option


@click.command(cls=Command)
@click.option("--quick", "size", flag_value="quick", help="About two minutes.")
@click.option("--full", "size", flag_value="full", help="200,000 schedules and 1,000 kills, without a time limit.")
@click.option("--seed", type=click.IntRange(0), help="Seed of an earlier run, to repeat its random choices.")
@click.option("--store", metavar="URL", help="Run only on this PostgreSQL, or on the disk of this SQLite file.")
@json_option
def prove(size: str | None, seed: int | None, store: str | None, as_json: bool) -> int:
    """Crash Holdfast on this machine and account for every event.

    Kills and stops daemons under load, terminates database sessions and servers, and simulates power cuts. It
    works in its own folder or schema and removes it afterwards; your stores are not touched.
    """
    from holdfast.proof.kills.__main__ import run
    from holdfast.proof.kills.prove import SIZES, ProofRequest, draw_seed

    return run(ProofRequest(SIZES[size or "default"], draw_seed() if seed is None else seed, store), as_json)
