"""All facts about one webhook platform stand in one file: no other module names the platform."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.ingress.webhook.platforms import PLATFORMS
from holdfast.ingress.webhook.platforms.platform import Platform

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"
FOLDER = PACKAGE / "ingress" / "webhook" / "platforms"
GENERAL = {"standard": "standard_webhooks.py", "json": "any_json.py"}
"""Platforms for any sender: their names are ordinary words."""

OTHER_FACTS = {
    "agents/": "GitHub Copilot is an agent CLI",
    "domain/address.py": "tokens in the URLs of chats are masked",
    "domain/contract.py": "outbound formats",
    "egress/webhook/formats.py": "outbound formats",
    "config/contract_form.py": "outbound formats",
    "surfaces/rest/contract_bodies.py": "outbound formats",
    "surfaces/cli/": "outbound formats in help texts",
    "operations/": "outbound formats in schemas",
}
"""Where a platform is named for something other than its inbound webhooks."""


def modules() -> list[tuple[str, str]]:
    return [(str(path.relative_to(PACKAGE)), path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")]


def names(text: str, platform: str) -> bool:
    """Whether a text names the platform. Written like a word of a sentence, "slack" or "linear" is an ordinary word."""
    for match in re.finditer(rf"(?<![A-Za-z]){platform}(?![a-z])", text, re.IGNORECASE):
        around = text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]
        if match[0] != platform or set(around) & set("\"'`-./:"):
            return True
    return False


@pytest.mark.parametrize("platform", [name for name in PLATFORMS if name not in GENERAL])
def test_no_other_module_names_a_platform(platform: str) -> None:
    own = f"ingress/webhook/platforms/{platform}.py"
    naming = [name for name, text in modules() if name != own and names(text, platform)]
    assert [name for name in naming if not name.startswith(tuple(OTHER_FACTS))] == []


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=lambda platform: platform.name)
def test_the_parts_of_a_platform_are_defined_in_its_own_file(platform: Platform) -> None:
    file = FOLDER / GENERAL.get(platform.name, f"{platform.name}.py")
    text = file.read_text("utf-8")
    for part in (platform.normalize, platform.delivery_id, platform.answer, platform.challenge):
        if part is not None:
            assert part.__module__.rpartition(".")[2] in (file.stem, "platform"), part  # platform: the defaults
    for header in (*platform.headers, platform.verifier.scheme.header):
        assert header in ("x-hub-signature-256", "x-hook-signature", "webhook-id", "svix-id") or header in text


def test_a_header_that_a_platform_keeps_holds_no_secret() -> None:
    kept = {header for platform in PLATFORMS.values() for header in platform.headers}
    assert {header for header in kept if re.search("token|secret|auth|cookie|signature", header)} == {
        "i-twilio-idempotency-token"  # an id, in spite of its name
    }
