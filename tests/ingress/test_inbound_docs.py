"""The page on inbound webhooks: its recipes load, and it names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.config.config import load_config
from holdfast.config.inbound_config import KEYS
from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook.platforms import NAMED_VERIFIERS, PLATFORMS, find_normalizer

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks" / "inbound.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_loads_and_has_its_normalizer(recipe, tmp_path, monkeypatch):
    for name in re.findall(r"\$\{(\w+)\}", recipe):
        monkeypatch.setenv(name, "0a" * 32 if "PUBLIC_KEY" in name else "whsec_QUJDRA==")
    path = tmp_path / "holdfast.yml"
    path.write_text(recipe, encoding="utf-8")
    for source in load_config(path).inbound:
        assert find_normalizer(source.normalizer, source.name, {})


def test_every_platform_but_the_plain_one_has_its_recipe():
    recipes = "\n".join(RECIPES)
    for name in PLATFORMS:
        assert name == "json" or re.search(rf"\b{name}\b", recipes), name


@pytest.mark.parametrize("name", [*KEYS, *NAMED_VERIFIERS])
def test_every_key_and_every_verifier_is_explained(name):
    assert f"`{name}`" in PAGE


def test_the_normalizer_in_the_page_works():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    scope: dict = {}
    exec(code, scope)
    made = find_normalizer("own", "x", {"own": scope["normalize"]})({"topic": "paid", "id": 7}, {})
    assert made == HookEvent("shop", "shop.paid", None, {"order": 7}, {"topic": "paid", "id": 7}, "order:7")
