"""`holdfast config`: where the settings are, what is in force, and whether the file is correct."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.config.config import Config, load_config
from holdfast.config.settings_file import settings_in_force
from holdfast.domain.errors import HoldfastError
from holdfast.domain.json_value import KnownJson
from holdfast.home import find_home
from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import Group, json_option
from holdfast.surfaces.cli.output import echo, show, visible

if TYPE_CHECKING:
    from holdfast.domain.contract import Contract
    from holdfast.operations.answers.contracts import ContractAnswer

ANSWER_S = 5.0
RUNNING = ("active", "created_at", "expires_at", "unserved", "retired", "misconfigured", "public_keys", "headers")


@click.group(cls=Group)
def config() -> None:
    """Show where the settings are, what is in force, and check them."""


@config.command("path")
@json_option
def config_path(as_json: bool) -> None:
    """Print the path of the configuration file."""
    path = find_home().config
    show({"path": str(path), "exists": path.exists()}, as_json, lambda answer: echo(visible(str(path))))


@config.command("show")
@json_option
def show_config(as_json: bool) -> None:
    """Print the settings in force: the defaults, overridden by the file.

    Variables such as ${TOKEN} are not filled in, and secrets are masked.
    """
    settings = settings_in_force(find_home().config)

    def render(answer: object) -> None:
        import yaml

        for line in yaml.safe_dump(answer, sort_keys=False, allow_unicode=True).splitlines():
            echo(visible(line))

    show(settings, as_json, render)


@config.command("check")
@json_option
def check_config(as_json: bool) -> None:
    """Check the configuration file. Exit 1 names the first mistake.

    Variables that the file names must be set, as for the daemon. If a daemon runs, the command also names the contracts
    that it would change.
    """
    path = find_home().config
    settings = load_config(path)
    changes = _changes(settings)
    show({"path": str(path), "ok": True, "changes": changes}, as_json, lambda _: _print_check(path, changes))


def _print_check(path: Path, changes: list[str] | None) -> None:
    echo(visible(f"{path} is correct." if path.exists() else f"{path} does not exist; the defaults apply."))
    if changes is not None:
        used = "The running daemon uses its contracts."
        echo(visible(f"The running daemon would change: {'; '.join(changes)}." if changes else used))


def _changes(config: Config) -> list[str] | None:
    """What differs from the contracts of the running daemon; None: none answers. Secrets cannot be compared."""
    try:
        found = find_client(ANSWER_S).get("/hooks/contracts", {"source": "config", "inactive": True})
    except (HoldfastError, OSError):
        return None
    from holdfast.config.changes import difference
    from holdfast.config.subscriptions import read_subscriptions
    from holdfast.operations.answers.encode import encode

    written = [given.contract for given in read_subscriptions(config.subscriptions, config.policies, now_ms=0)]
    before = {one["id"]: _compared(one) for one in found}
    after = {one.id: _compared(encode(_as_answer(one))) for one in written}
    return difference(before, after).text("contract")


def _as_answer(contract: Contract) -> ContractAnswer:
    from holdfast.operations.answers.contracts import contract_answer

    return contract_answer(contract, has_secret=False, active=True, unserved=False, fault=None)


def _compared(contract: KnownJson) -> KnownJson:
    """The parts of a contract that the file decides."""
    kept = {name: value for name, value in contract.items() if name not in RUNNING}
    return {**kept, "target": {name: value for name, value in contract["target"].items() if name != "has_secret"}}
