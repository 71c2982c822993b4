"""Every setting and every variable is documented with its actual default."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from holdfast.config.config import load_config
from holdfast.config.settings_file import FREE_SECTIONS, default_text
from holdfast.domain.address import KINDS
from holdfast.domain.retry import POLICIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
INTERNAL = re.compile(r"HOLDFAST_(DEMO|PROVE_\w+)")  # between a parent and the process it starts
VARIABLES = ("HOLDFAST_HOME", "HOLDFAST_STORE", "HOLDFAST_CONFIG", "HOLDFAST_URL", "HOLDFAST_TOKEN")


def flat(settings, prefix=""):
    for name, value in settings.items():
        if isinstance(value, dict) and prefix + name not in FREE_SECTIONS:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


SETTINGS = dict(flat(yaml.safe_load(default_text())))


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_its_heading_and_its_default(name):
    section = re.search(rf"^### `{re.escape(name)}`\n\nDefault: `([^`]*)`", PAGE, re.MULTILINE)
    assert section, f"docs/reference/configuration.md has no heading for {name}"
    default = SETTINGS[name]
    assert section[1] == (default if isinstance(default, str) and default else json.dumps(default))


def test_no_setting_is_described_that_does_not_exist():
    assert set(re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)) == set(SETTINGS)


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_has_its_line(name):
    assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE)


def test_no_variable_is_read_that_is_not_described():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)\s*"(HOLDFAST_\w+)"', source))
    assert {name for name in read if not INTERNAL.fullmatch(name)} == set(VARIABLES)


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_every_example_file_is_accepted(tmp_path, monkeypatch, example):
    for variable in re.findall(r"\$\{(\w+)\}", example):
        monkeypatch.setenv(variable, "value")
    path = tmp_path / "holdfast.yml"
    path.write_text(example, encoding="utf-8")
    assert load_config(path) != load_config(None)


def test_the_built_in_policies_are_those_in_the_table():
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (\d+|no limit) \| (.*?) \|$", PAGE, re.MULTILINE)
    documented = {name: (attempts, used) for name, attempts, used in rows}
    assert set(documented) == set(POLICIES)
    prefixes = {"https": "`https://`", "handler": "`handler:`", "session": "`session:`"}
    for name, policy in POLICIES.items():
        users = [prefixes[kind.name] for kind in KINDS.values() if kind.policy == name]
        assert documented[name] == (str(policy.attempts or "no limit"), ", ".join(users) or "on request")
