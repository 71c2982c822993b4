"""`holdfast receipts`: list, verify and append receipts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import click

from holdfast.domain.canonical import parse_json
from holdfast.domain.json_value import KnownJson
from holdfast.domain.substrate_receipt import ACTOR_KINDS
from holdfast.progress import Progress
from holdfast.surfaces.cli.client import LONG_S, Client, find_client
from holdfast.surfaces.cli.client_options import store_of, with_client
from holdfast.surfaces.cli.options import (
    Group,
    app_option,
    direct_options,
    json_option,
    page_options,
    split_pairs,
    store_option,
)
from holdfast.surfaces.cli.output import echo, plural, show, visible
from holdfast.surfaces.cli.table import show_page, show_table

STEP = 100_000
VERIFY = "/api/receipts/verify"
_SUMS = ("links", "transitions", "anchors", "faults")


@click.group(cls=Group)
def receipts() -> None:
    """List, verify and append receipts."""


@receipts.command("list")
@click.option("--chain", help="Only receipts of this chain.")
@page_options
@with_client
@json_option
def list_receipts(client: Client, as_json: bool, **query: object) -> None:
    """List receipts by chain, in order."""
    show(
        client.get("/api/receipts", query),
        as_json,
        lambda page: show_page(page, ("chain", "seq", "at", "transitions", "h_self")),
    )


@receipts.command()
@click.option("--source-system", required=True, help="The system that the receipt is about.")
@click.option("--source-table", required=True, help="Its table or collection.")
@click.option("--source-id", required=True, help="The id in that table.")
@click.option("--source-version", help="The version, if the same action can happen again.")
@click.option("--action-type", required=True, help="What happened, such as task.complete.")
@click.option("--actor-id", help="Who did it.  [default: the token's id]")
@click.option("--actor-kind", type=click.Choice(ACTOR_KINDS), help="What did it.  [default: service]")
@click.option("--tenant-id", help="The tenant it belongs to.")
@click.option("--input", metavar="JSON", help="The input of the action. Only its digest is stored.")
@click.option("--input-hash", metavar="SHA256", help="The digest of the input.")
@click.option("--output", metavar="JSON", help="The output of the action. Only its digest is stored.")
@click.option("--output-hash", metavar="SHA256", help="The digest of the output.")
@click.option("--reference", "references", metavar="NAME=VALUE", multiple=True, help="A related thing. Repeatable.")
@with_client
@json_option
def append(client: Client, as_json: bool, references: tuple[str, ...], **fields: str | None) -> None:
    """Append a receipt of another system.

    A second receipt of the same source is not stored: the answer names the first one.
    """
    body: KnownJson = {name: value for name, value in fields.items() if value is not None}
    for name in ("input", "output"):
        if name in body:
            body[name] = parse_json(body[name].encode(), f"--{name}")
    if references:
        body["references"] = dict(split_pairs(references, "--reference"))
    show(client.post("/api/substrate/receipts", body), as_json, _print_appended)


@receipts.command()
@click.option("--source-system", help="Only receipts of this system.")
@click.option("--source-table", help="Only receipts of this table.")
@click.option("--source-id", help="Only receipts with this id.")
@click.option("--action-type", help="Only receipts of this action.")
@click.option("--tenant-id", help="Only receipts of this tenant.")
@page_options
@with_client
@json_option
def appended(client: Client, as_json: bool, **query: object) -> None:
    """List receipts of other systems, in order."""
    show(
        client.get("/api/substrate/receipts", query),
        as_json,
        lambda page: show_page(
            page, ("chain_seq", "at", "source_system", "source_table", "source_id", "action_type", "actor_id")
        ),
    )


@receipts.command()
@click.argument("folder", type=click.Path(path_type=Path))
@store_option
@app_option
@json_option
def export(folder: Path, store: str | None, app: str | None, as_json: bool) -> None:
    """Write all receipts into a new FOLDER that is verified without Holdfast.

    Verify it with: python FOLDER/verify.py FOLDER
    """
    from holdfast.operations import local

    with Progress("receipts", quiet=as_json):
        answer = local.export_receipts(store_of(store, app), folder.expanduser().absolute())
    counts = (
        f"{plural(answer.links, 'link')} of {plural(answer.chains, 'chain')}, {plural(answer.heads, 'signed head')}"
    )
    show(answer, as_json, lambda _: echo(visible(f"Exported to {answer.folder}: {counts}.")))


@receipts.command()
@click.option("--rotate", is_flag=True, help="Sign with a new key from now on. Old keys stay valid for old heads.")
@json_option
def keys(rotate: bool, as_json: bool) -> None:
    """Show the public keys that sign heads of receipt chains, the newest last."""
    from holdfast.operations import local

    show(local.receipt_keys(rotate), as_json, lambda answer: echo("\n".join(answer.keys) or "none"))


@receipts.command()
@with_client
@json_option
def heads(client: Client, as_json: bool) -> None:
    """Show the last receipt of each chain."""
    columns = ("chain", "seq", "checked_to", "checked_at", "faults", "h_self")
    answer = client.get("/api/receipts/heads")
    show(answer, as_json, lambda answer: show_table(answer["items"], columns))


@receipts.command("verify")
@click.option("--chain", help="Only this chain.")
@click.option("--from", "first", type=click.IntRange(min=1), default=1, help="First receipt.  [default: 1]")
@click.option("--to", "last", type=click.IntRange(min=1), help="Last receipt.  [default: the last one]")
@click.option("--rows", is_flag=True, help="Also compare deliveries, contracts, tokens and pauses with their receipts.")
@click.option("--heads", type=click.Path(path_type=Path), help="A file of signed heads. Needs --store.")
@click.option("--key", "keys", metavar="WHPK", multiple=True, help="A public key that signs heads. Repeatable.")
@direct_options
@json_option
def verify_receipts(
    chain: str | None,
    first: int,
    last: int | None,
    rows: bool,
    heads: Path | None,
    keys: tuple[str, ...],
    store: str | None,
    app: str | None,
    as_json: bool,
) -> int:
    """Verify the receipts and print every fault. Exits with 1 if there is one.

    With --store or --app, the store is read without a daemon.
    """
    query: KnownJson = {"chain": chain, "first": first, "last": last, "rows": rows}
    url = store_of(store, app)
    if url is None and (heads or keys):
        raise click.UsageError("--heads and --key need --store: a daemon uses the heads of its own home folder")
    with Progress("receipts", quiet=as_json) as progress:
        if url is None:
            client = find_client(LONG_S)
            answer = client.get(VERIFY, query) if rows or as_json else _verify_in_steps(client, query, progress)
        else:
            from holdfast.operations import local
            from holdfast.operations.answers.encode import encode

            answer = encode(local.verify_receipts(url, (chain, first, last), rows, heads, keys, progress))
    show(answer, as_json, _print_verdict)
    return 0 if answer["ok"] else 1


def _print_appended(answer: KnownJson) -> None:
    place = answer["receipt"]
    if not answer["duplicate"]:
        echo(f"Receipt {place['id']} appended as number {place['chain_seq']}.")
    elif answer["differs"]:
        echo(f"Not appended: receipt {place['id']} is of the same source, with another content.")
    else:
        echo(f"Receipt {place['id']} was appended before as number {place['chain_seq']}.")


def _verify_in_steps(client: Client, query: KnownJson, progress: Progress) -> KnownJson:
    """Verify a bounded number of receipts with each request, so that progress can be shown."""
    heads = client.get("/api/receipts/heads")["items"]
    ends = {head["chain"]: head["seq"] for head in heads if query["chain"] in (None, head["chain"])}
    total = sum(max(0, min(seq, query["last"] or seq) - query["first"] + 1) for seq in ends.values())
    if total <= STEP:
        whole: KnownJson = client.get(VERIFY, query)
        return whole
    answers: list[KnownJson] = []
    for step in _steps(ends, query):
        answers.append(client.get(VERIFY, step))
        progress(sum(answer["links"] for answer in answers), total)
    return reduce(_add, answers)


def _steps(ends: dict[str, int], query: KnownJson) -> Iterator[KnownJson]:
    for chain, seq in ends.items():
        wanted = range(query["first"], (query["last"] or seq) + 1)
        for start in wanted[::STEP]:
            stop = start + STEP - 1
            yield {"chain": chain, "first": start, "last": query["last"] if stop >= wanted.stop - 1 else stop}


def _add(one: KnownJson, other: KnownJson) -> KnownJson:
    return {
        **{name: one[name] + other[name] for name in _SUMS},
        "chains": one["chains"] + (other["chains"] if other["links"] < STEP else 0),
        "ok": one["ok"] and other["ok"],
        "complete": one["complete"] and other["complete"],
        "rows": None,
    }


def _print_verdict(answer: KnownJson) -> None:
    for fault in answer["faults"]:
        at = f"{fault['chain']} {fault['seq']}: " if fault["chain"] else ""
        echo(visible(f"{at}{fault['kind']}: {fault['message']}"))
    if not answer["complete"]:
        echo("The check stopped here: there are too many faults.")
    verdict = "intact" if answer["ok"] else f"NOT intact ({plural(len(answer['faults']), 'fault')})"
    counts = [plural(answer[f"{noun}s"], noun) for noun in ("chain", "link", "transition")]
    if answer["rows"] is not None:
        counts.append(plural(answer["rows"], "row"))
    echo(f"Receipts are {verdict}: {', '.join(counts)}.")
