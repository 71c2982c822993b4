"""`holdfast receipts`: list and verify receipts."""

from __future__ import annotations

import click

from holdfast.domain.json_value import JsonObject
from holdfast.surfaces.cli.client import LONG_S, find_client
from holdfast.surfaces.cli.options import Group, json_option, page_options
from holdfast.surfaces.cli.output import echo, plural, show, show_page, visible


@click.group(cls=Group)
def receipts() -> None:
    """List and verify receipts."""


@receipts.command("list")
@click.option("--chain", help="Only receipts of this chain.")
@page_options
@json_option
def list_receipts(as_json: bool, **query: object) -> None:
    """List receipts by chain, in order."""
    show(
        find_client().get("/api/receipts", query),
        as_json,
        lambda page: show_page(page, ("chain", "seq", "at", "transitions", "h_self")),
    )


@receipts.command("verify")
@json_option
def verify_receipts(as_json: bool) -> int:
    """Verify every chain and print every fault. Exits with 1 if there is one."""
    answer = find_client(LONG_S).get("/api/receipts/verify")
    show(answer, as_json, _print_verdict)
    return 0 if answer["ok"] else 1


def _print_verdict(answer: JsonObject) -> None:
    for fault in answer["faults"]:
        echo(visible(f"{fault['chain']} {fault['seq']}: {fault['kind']}: {fault['message']}"))
    verdict = "intact" if answer["ok"] else f"NOT intact ({plural(len(answer['faults']), 'fault')})"
    counts = (plural(answer[f"{noun}s"], noun) for noun in ("chain", "link", "transition"))
    echo(f"Receipts are {verdict}: {', '.join(counts)}.")
