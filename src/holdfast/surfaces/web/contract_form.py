"""The form that creates a contract, and tries it on past events before."""

from __future__ import annotations

import json
from urllib.parse import quote

from holdfast.domain.errors import BadInput, HoldfastError
from holdfast.operations.answers.contracts import ContractAnswer, CriterionAnswer
from holdfast.surfaces.web.actions import Fields, one
from holdfast.surfaces.web.page import Go, Page, Visit

OPTIONS = ("attempts", "timeout", "concurrency", "rate", "format", "template", "retry_on")
NAMES = ("id", "kind", "address", "source", "type", "properties", "secret", "policy", "ordered", "more")


def read_form(fields: Fields) -> dict[str, object]:
    """The body of a contract, as `POST /hooks/contracts` takes it."""
    kind = one(fields, "kind") or "url"
    target: dict[str, object] = {kind: one(fields, "address")}
    if secret := one(fields, "secret"):
        target["secret"] = secret
    body: dict[str, object] = {"target": target}
    for name in ("id", "policy"):
        if value := one(fields, name):
            body[name] = value
    for name in ("source", "type"):
        if value := one(fields, name):
            body[f"{name}_criterion"] = {"pattern": value} if "*" in value or "?" in value else {"match": value}
    if properties := _properties(one(fields, "properties")):
        body["properties"] = properties
    if one(fields, "ordered"):
        body["ordered"] = True
    if more := one(fields, "more"):
        body |= _more(more)
    return body


async def submit(visit: Visit, fields: Fields) -> Page | Go:
    """Try the contract and show the form again, or create it and show the new contract."""
    form = {name: "" if name == "secret" else one(fields, name) for name in NAMES}
    trial, problem = None, None
    try:
        body = read_form(fields)
        if one(fields, "do") == "create":
            created = await visit.operations.contracts.add(body, actor=visit.actor)
            return Go(f"/contracts/{quote(created.id, safe='')}", "created")
        trial = await visit.operations.contracts.test(body, limit=100)
    except HoldfastError as error:
        problem = error.message
    edited = one(fields, "edited") or None
    title = f"Edit {edited}" if edited else "New contract"
    return Page("contract_form.html", title, {"edited": edited, "trial": trial, "form": form, "problem": problem})


def filled(contract: ContractAnswer) -> dict[str, str]:
    """The form with the values of a contract. Its secret is not shown; if the field stays empty, it stays as it is."""
    kind = next(key for key in ("url", "handler", "session") if contract.target.get(key))
    properties = "\n".join(f"{name}={_value(criterion)}" for name, criterion in contract.properties.items())
    more = {name: getattr(contract, name) for name in OPTIONS if getattr(contract, name)}
    return dict.fromkeys(NAMES, "") | {
        "id": contract.id,
        "kind": kind,
        "address": str(contract.target[kind]),
        "source": _value(contract.source_criterion),
        "type": _value(contract.type_criterion),
        "properties": properties,
        "policy": contract.policy,
        "ordered": "1" if contract.ordered else "",
        "more": json.dumps(more) if more else "",
    }


def _value(criterion: CriterionAnswer | None) -> str:
    if criterion is None:
        return ""
    return str(criterion.pattern or criterion.match or "*")


def _properties(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, mark, value = line.partition("=")
        if not mark:
            raise BadInput(f"write a property as name=value, not {line[:80]!r}")
        value = value.strip()
        found[name.strip()] = {"pattern": value} if "*" in value or "?" in value else {"match": value}
    return found


def _more(text: str) -> dict[str, object]:
    try:
        more = json.loads(text)
    except ValueError as error:
        raise BadInput(f"the other options are not JSON: {error}") from None
    if not isinstance(more, dict):
        raise BadInput("the other options are a JSON object")
    return more
