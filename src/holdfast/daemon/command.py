"""The command `holdfast up`."""

from __future__ import annotations

import click

from holdfast.home import find_home
from holdfast.surfaces.cli.options import Command, app_option


@click.command(cls=Command)
@click.option("--host", help="Address to listen on. Default: as configured, initially 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one.")
@app_option
def up(host: str | None, port: int | None, app: str | None) -> int:
    """Run the daemon in the foreground.

    With --app it works on the application's own database and also delivers to the application's handlers.
    """
    from holdfast.config.application import load_app
    from holdfast.daemon.run import main

    return main(host, port, None if app is None else load_app(app), find_home())
