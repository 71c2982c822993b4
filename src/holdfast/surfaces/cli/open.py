"""`holdfast open`: a login link for the web page."""

from __future__ import annotations

import os
import sys
import webbrowser

import click

from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import show


@click.command(cls=Command)
@click.option("--print", "only_print", is_flag=True, help="Print the link without starting a browser.")
@json_option
def open(only_print: bool, as_json: bool) -> None:
    """Open the web page in a browser.

    The link logs one person in as administrator. It works once and for 10 minutes.
    """
    client = find_client()
    link = client.post("/api/login-links")
    url = f"{client.url.rstrip('/')}{link['path']}"
    show({**link, "url": url}, as_json, lambda _: click.echo(url))
    has_display = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if has_display and not only_print and not as_json:
        webbrowser.open(url)
