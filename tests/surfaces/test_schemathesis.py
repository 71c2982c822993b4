"""The description is true: what it allows may be sent, and what comes back is in it. Schemathesis makes the requests.

Ids that exist are put among the made ones, and inbound requests are signed, so that more is reached than refusals.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import cached_patterns
from daemon import Daemon, shop
from holdfast.config.config import load_config
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens

pytestmark = pytest.mark.slow

cached_patterns.install()

EXAMPLES = 10
SECRET = "canary-of-inbound"
CONFIG = f"""
egress: {{allow: [127.0.0.0/8]}}
hooks:
  inbound:
    github: {{path: /hooks/github, secret: {SECRET}}}
    whatsapp: {{path: /hooks/whatsapp, secret: {SECRET}, verify_token: {SECRET}}}
    slack: {{insecure: true}}
    lamp: {{insecure: true}}
  subscriptions:
    - {{id: of-the-file, contract: {{type: {{pattern: "order.*"}}}}, target: {{handler: ship}}}}
"""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def described(folder: Path) -> dict[str, Any]:
    """The document as the application makes it from this configuration."""
    (folder / "holdfast.yml").write_text(CONFIG, encoding="utf-8")

    async def nobody(token: str) -> str | None:
        return None

    inbound = load_config(folder / "holdfast.yml").inbound
    return dict(build_app(None, BearerTokens(None, nobody), [], 1_000_000, inbound).openapi())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with shop(tmp_path_factory.mktemp("shop"), config=CONFIG) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def known(daemon: Daemon) -> dict[str, list[Any]]:
    """Things that exist, by the path they are found under."""
    for type in ("order.placed", "bad.order", "slow.order", "nobody.wants"):
        assert daemon.request("POST", "/api/events", {"type": type, "stream": "orders/1"})[0] == 201
    contract = {"id": "of-the-api", "target": {"url": "http://127.0.0.1:9/x", "secret": "whsec_" + "YWJj" * 8}}
    assert daemon.request("POST", "/hooks/contracts", {**contract, "type_criterion": "x.y"})[0] == 201
    daemon.wait_for("/api/dlq/count", lambda answer: answer["count"] >= 1)
    return {
        "/api/events/{id}": [item["id"] for item in daemon.request("GET", "/api/events")[1]["items"]],
        "/api/streams/{id}": ["orders/1"],
        "/api/deliveries/{id}": [item["id"] for item in daemon.request("GET", "/api/deliveries")[1]["items"]],
        "/hooks/contracts/{id}": ["of-the-api", "of-the-file", "ship"],
    }


def operations() -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        schema = schemathesis.openapi.from_dict(described(Path(folder)))
    return [found.ok() for found in schema.get_all_operations()]


OPERATIONS = operations()


def test_the_daemon_serves_the_description_that_is_tried_here(daemon: Daemon, tmp_path: Path) -> None:
    served = requests.get(daemon.url + "/openapi.json", timeout=60).json()
    assert served == json.loads(json.dumps(described(tmp_path)))
    assert len(OPERATIONS) == sum(len(verbs) for verbs in served["paths"].values()) > 30


def test_a_verb_that_needs_no_body_needs_no_kind_of_body(daemon: Daemon) -> None:
    headers = {"Authorization": f"Bearer {daemon.token}"}
    assert requests.post(daemon.url + "/api/prune", headers=headers, timeout=60).status_code == 200
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert requests.post(daemon.url + "/api/prune", headers=form, timeout=60).status_code == 415
    assert requests.post(daemon.url + "/api/prune", headers=headers, data=b"{}", timeout=60).status_code == 415


FITTING, MISFIT = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
# What takes anything, or nothing at all, cannot be sent the wrong thing.
REFUSING = [one for one in OPERATIONS if not one.path.endswith("z") and one.definition.raw.get("tags") != ["inbound"]]


@pytest.mark.parametrize(
    ("operation", "mode"),
    [
        pytest.param(one, mode, id=f"{one.method.upper()} {one.path} {mode.value}")
        for mode, found in ((FITTING, OPERATIONS), (MISFIT, REFUSING))
        for one in found
        if one.definition.raw.get("tags") != ["live"]  # such an answer has no end
    ],
)
def test_no_answer_is_a_server_error_or_undocumented(
    daemon: Daemon, known: dict[str, list[Any]], operation: Any, mode: GenerationMode
) -> None:
    ids = next((found for path, found in known.items() if operation.path.startswith(path)), [])
    session = requests.Session()
    made = st.tuples(operation.as_strategy(generation_mode=mode), st.sampled_from([None, *ids]))

    @given(made)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def try_it(chosen: tuple[Any, Any]) -> None:
        case, id = chosen
        if id is not None and "{id}" in operation.path:
            case.path_parameters["id"] = id
        headers = {"Authorization": f"Bearer {daemon.token}"}
        request = requests.Request(**case.as_transport_kwargs(base_url=daemon.url, headers=headers)).prepare()
        if operation.path in ("/hooks/github", "/hooks/whatsapp"):
            body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
            request.headers["X-Hub-Signature-256"] = (
                "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
            )
        case.validate_response(session.send(request, timeout=60), checks=CHECKS)

    try:
        try_it()
    finally:
        session.close()
    assert "Traceback" not in daemon.log, daemon.log[-3000:]
