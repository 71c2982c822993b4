"""`holdfast receipts`: the book."""

from __future__ import annotations

from typing import Any

import click

from holdfast.surfaces.cli.client import LONG_S, find_client
from holdfast.surfaces.cli.options import NearGroup, json_option, page_options
from holdfast.surfaces.cli.output import many, say, show, show_page, visible


@click.group(cls=NearGroup)
def receipts() -> None:
    """Look at the receipts, and verify that they are whole."""


@receipts.command("list")
@click.option("--chain", help="Only this chain.")
@page_options
@json_option
def list_receipts(as_json: bool, **query: Any) -> None:
    """List receipts in order, chain by chain."""
    show(
        find_client().get("/api/receipts", query),
        as_json,
        lambda page: show_page(page, ("chain", "seq", "at", "transitions", "h_self")),
    )


@receipts.command("verify")
@json_option
def verify_receipts(as_json: bool) -> int:
    """Check every chain and print every fault; exit 1 where there is one."""
    answer = find_client(LONG_S).get("/api/receipts/verify")
    show(answer, as_json, _say_verdict)
    return 0 if answer["ok"] else 1


def _say_verdict(answer: dict[str, Any]) -> None:
    for fault in answer["faults"]:
        say(visible(f"{fault['chain']} {fault['seq']}: {fault['kind']}: {fault['message']}"))
    verdict = "whole" if answer["ok"] else f"NOT whole: {many(len(answer['faults']), 'fault')}"
    counts = (many(answer[f"{noun}s"], noun) for noun in ("chain", "link", "transition"))
    say(f"{verdict}; {', '.join(counts)}")
