"""The command `holdfast demo`."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.options import json_option


@click.command()
@json_option
def demo(as_json: bool) -> int:
    """Tell the whole story in one minute, in a temporary home."""
    from holdfast.demo.story import main

    return main(as_json)
