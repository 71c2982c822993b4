"""The command `holdfast up`."""

from __future__ import annotations

import click

from holdfast.home import find_home
from holdfast.log_output import FORMATS, LEVELS, start_logging
from holdfast.surfaces.cli.options import Command, app_option


@click.command(cls=Command)
@click.option("--host", help="Address to listen on. Default: as configured, initially 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one.")
@app_option
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="info", help="Least severe lines to log. Default: info."
)
@click.option(
    "--allow-loopback", "loopback_ports", metavar="PORT", type=click.IntRange(1, 65535), multiple=True,
    help="Allow targets on this port of this machine, for this run. Repeatable.",
)  # fmt: skip
@click.option("--log-format", type=click.Choice(FORMATS), default="text", help="Form of log lines. Default: text.")
def up(
    host: str | None,
    port: int | None,
    app: str | None,
    loopback_ports: tuple[int, ...],
    log_level: str,
    log_format: str,
) -> int:
    """Run the daemon in the foreground.

    With --app it works on the application's own database and also delivers to the application's handlers.
    """
    from holdfast.config.application import load_app
    from holdfast.daemon.run import main

    start_logging(log_level, log_format)
    return main(host, port, None if app is None else load_app(app), find_home(), loopback_ports)
