"""The command `holdfast demo`."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.options import Command, json_option


@click.command(cls=Command)
@json_option
def demo(as_json: bool) -> int:
    """Run a one-minute demonstration in a temporary home."""
    from holdfast.demo.story import main

    return main(as_json)
