"""Reads contracts: the JSON object of the API, or a subscription of the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.domain.contract import (
    FORMATS,
    TEMPLATE_MAX,
    Contract,
    Criterion,
    check_contract_id,
    check_headers,
    for_session,
    parse_criteria,
    parse_criterion,
    parse_rate,
    parse_target,
)
from holdfast.domain.errors import BadInput
from holdfast.domain.event import parse_time
from holdfast.domain.retry import Policy
from holdfast.domain.senders import parse_senders
from holdfast.domain.signature import check_signing
from holdfast.domain.text import short_repr
from holdfast.egress.webhook.formats import telegram_chat
from holdfast.ingress.accept import reject_unknown_keys
from holdfast.store.roles.contracts import ContractInput

OPTIONS = (
    "ttl_seconds", "expires_at", "policy", "attempts", "ordered", "timeout", "concurrency", "rate", "headers",
    "format", "template", "retry_on", "active", "senders",
)  # fmt: skip
FIELDS = ("id", "target", "source_criterion", "type_criterion", "properties", *OPTIONS)
SUBSCRIPTION = ("id", "contract", "target", *OPTIONS)
CRITERIA = ("source", "type", "properties")
TTL_MAX_S = 10 * 365 * 86400
RETRY_ON_MAX = 50


def read_contract(body: object, policies: Mapping[str, Policy], now_ms: int, source: str = "api") -> ContractInput:
    """Read the JSON object of the API. Every error names the field and what it must be.

    The creation time is set by the store, whose clock all processes share.
    """
    if not isinstance(body, Mapping):
        raise BadInput(f"a contract is a JSON object with id and target, not {short_repr(body)}")
    reject_unknown_keys(body, FIELDS, "the contract")
    for name in ("id", "target"):
        if body.get(name) is None:
            raise BadInput(f"the contract has no {name}")
    address, secret = parse_target(body["target"])
    if secret is not None:
        check_signing(secret)
    headers = None if body.get("headers") is None else check_headers(body["headers"])
    contract = Contract(
        id=check_contract_id(body["id"]),
        address=address,
        source_criterion=_criterion(body, "source_criterion"),
        type_criterion=_criterion(body, "type_criterion"),
        properties=parse_criteria({} if body.get("properties") is None else body["properties"], "properties"),
        source=source,
        active=_flag(body, "active") is not False,
        expires_at_ms=_end(body, now_ms),
        policy=_policy(body.get("policy"), policies),
        attempts=_whole(body, "attempts", most=1000),
        ordered=_flag(body, "ordered"),
        timeout_s=_number(body, "timeout", most=3600),
        concurrency=_whole(body, "concurrency", most=1000),
        headers=tuple(headers or ()),
    )
    if address.kind == "session":
        return ContractInput(_for_session(contract, body), secret, headers)
    if body.get("senders") is not None:
        raise BadInput(f"senders is for targets of kind session: this contract delivers to {address.text}")
    return ContractInput(_with_request_options(contract, body), secret, headers)


def read_subscription(value: object, policies: Mapping[str, Policy], now_ms: int) -> ContractInput:
    """One entry of `hooks.subscriptions`. In `contract`, every key but `source` and `type` is a property."""
    if not isinstance(value, Mapping):
        raise BadInput(f"a subscription is a mapping with id, contract and target, not {short_repr(value)}")
    reject_unknown_keys(value, SUBSCRIPTION, "the subscription")
    criteria = value.get("contract") or {}
    if not isinstance(criteria, Mapping):
        raise BadInput(f"contract must be a mapping of source, type and properties, not {short_repr(criteria)}")
    _refuse_misspellings(criteria)
    nested = criteria.get("properties")
    properties = {name: criterion for name, criterion in criteria.items() if name not in CRITERIA}
    if isinstance(nested, Mapping) and not set(nested) & {"match", "pattern", "required"}:
        properties |= nested
    elif nested is not None:
        properties["properties"] = nested
    body = {name: item for name, item in value.items() if name != "contract"}
    body |= {
        "source_criterion": criteria.get("source"),
        "type_criterion": criteria.get("type"),
        "properties": properties,
    }
    return read_contract(body, policies, now_ms, source="config")


def _refuse_misspellings(criteria: Mapping[object, object]) -> None:
    """A misspelled `type` would become a criterion on a property of that name, and silently match nothing."""
    for name in criteria:
        near = next((word for word in CRITERIA if name != word and is_near(str(name).lower(), word)), None)
        if near is not None:
            raise BadInput(
                f"contract.{name}: did you mean {near}? To match a property of that name, write it under "
                "contract.properties"
            )


def is_near(name: str, word: str) -> bool:
    """Whether the words differ by one missing, added, changed or swapped letter.

    >>> is_near("typ", "type"), is_near("tpye", "type"), is_near("severity", "type")
    (True, True, False)
    """
    while name and word and name[0] == word[0]:
        name, word = name[1:], word[1:]
    while name and word and name[-1] == word[-1]:
        name, word = name[:-1], word[:-1]
    return max(len(name), len(word)) <= 1 or (len(name) == 2 and name == word[::-1])


def _for_session(contract: Contract, body: Mapping[str, object]) -> Contract:
    """A contract whose events become messages for a session. Its senders have to be listed."""
    given = [name for name in ("headers", "format", "retry_on") if body.get(name) is not None]
    if given:
        raise BadInput(f"{given[0]} is for targets of kind url: this contract delivers to {contract.address.text}")
    if body.get("senders") is None:
        raise BadInput(
            "a contract for a session needs senders: who may write to it, as ids per source, such as "
            '{"telegram": ["4711"]}; everyone else is refused'
        )
    senders = parse_senders(body["senders"], may_be_all=contract.source == "config")
    return for_session(contract, senders, _template(body.get("template")), _rate(body.get("rate")))


def _template(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= TEMPLATE_MAX):
        raise BadInput(f"template must be text of 1 to {TEMPLATE_MAX} characters")
    return value


def _with_request_options(contract: Contract, body: Mapping[str, object]) -> Contract:
    """Add the options about requests, which only URL targets have."""
    format, template, retry_on = (body.get(name) for name in ("format", "template", "retry_on"))
    given = [name for name in ("rate", "headers", "format", "template", "retry_on") if body.get(name) is not None]
    if given and contract.address.kind != "https":
        raise BadInput(f"{given[0]} is for targets of kind url: this contract delivers to {contract.address.text}")
    rate = _rate(body.get("rate"))
    if format is not None and format not in FORMATS:
        raise BadInput(f"format {short_repr(format)} is unknown; use one of {', '.join(FORMATS)}")
    if (format == "template") != (template is not None):
        raise BadInput("format: template requires a template, and a template requires format: template")
    if format == "telegram" and not telegram_chat(contract.address.text):
        raise BadInput(
            "format telegram needs the chat in the URL: https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>"
        )
    return replace(contract, rate=rate, format=format, template=_template(template), retry_on=_statuses(retry_on))


def _rate(value: object) -> str | None:
    if value is None:
        return None
    parse_rate(value)
    return str(value)


def _statuses(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    statuses = [_integer(item) for item in value] if isinstance(value, list) else None
    if statuses is None or len(statuses) > RETRY_ON_MAX or not all(_is_retryable(status) for status in statuses):
        raise BadInput(f"retry_on must list statuses from 400 to 499 to retry, except 410 (it ends a contract), "
                       f"not {short_repr(value)}")  # fmt: skip
    return tuple(sorted({status for status in statuses if isinstance(status, int)}))


def _is_retryable(status: object) -> bool:
    return type(status) is int and 400 <= status <= 499 and status != 410


def _end(body: Mapping[str, object], now_ms: int) -> int | None:
    ttl = _number(body, "ttl_seconds", most=TTL_MAX_S)
    moment = body.get("expires_at")
    if ttl is not None and moment is not None:
        raise BadInput("give ttl_seconds or expires_at, not both")
    if ttl is not None:
        return now_ms + round(ttl * 1000)
    if moment is None:
        return None
    end_ms = parse_time(moment, "expires_at")
    if end_ms <= now_ms:
        raise BadInput(f"expires_at {short_repr(moment)} is in the past")
    return end_ms


def _policy(name: object, policies: Mapping[str, Policy]) -> str | None:
    if name is not None and (not isinstance(name, str) or name not in policies):
        raise BadInput(f"policy {short_repr(name)} is unknown; use one of {', '.join(policies)}")
    return None if name is None else str(name)


def _criterion(body: Mapping[str, object], name: str) -> Criterion | None:
    return None if body.get(name) is None else parse_criterion(body[name], name)


def _flag(body: Mapping[str, object], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false, not {short_repr(value)}")
    return value


def _number(body: Mapping[str, object], name: str, most: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"{name} must be a number, not {short_repr(value)}")
    if not 0 < value <= most:
        raise BadInput(f"{name} must be positive and at most {most:,}, not {short_repr(value)}")
    return float(value)


def _whole(body: Mapping[str, object], name: str, most: int) -> int | None:
    value = _integer(body.get(name))
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
        raise BadInput(f"{name} must be a whole number from 1 to {most}, not {short_repr(value)}")
    return value


def _integer(value: object) -> object:
    """A number without a fraction as an integer: 5.0 is an integer in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
