"""The command `holdfast prove`."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.options import Command, json_option


@click.command(cls=Command)
@click.option("--quick", "size", flag_value="quick", help="About two minutes.")
@click.option("--full", "size", flag_value="full", help="As long as it takes: 200,000 schedules, 1,000 kills.")
@click.option("--seed", type=click.IntRange(0), help="Repeat the chances of an earlier proof.")
@click.option("--store", metavar="URL", help="Only this kind: your PostgreSQL, or the disk of this SQLite file.")
@json_option
def prove(size: str | None, seed: int | None, store: str | None, as_json: bool) -> int:
    """Crash Holdfast on this machine and account for every event.

    Daemons are killed and stopped under load, sessions and servers cut off, disks lose power. It works in
    a folder or schema of its own, and removes it: no store of yours is touched.
    """
    from holdfast.proof.kills.__main__ import run
    from holdfast.proof.kills.prove import SIZES, ProofRequest, draw_seed

    return run(ProofRequest(SIZES[size or "default"], draw_seed() if seed is None else seed, store), as_json)
