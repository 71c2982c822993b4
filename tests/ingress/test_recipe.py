"""The recipe "Add a webhook platform" of CONTRIBUTING.md, followed to the letter in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

USE = """
import hashlib, hmac, json, sys, time
from pathlib import Path
from holdfast.config.config import load_config
from holdfast.domain.event import Event
from holdfast.ingress.webhook import normalize, raw_event
from holdfast.ingress.webhook.headers import Headers
from holdfast.ingress.webhook.platforms import find_normalizer
from holdfast.ingress.webhook.verifiers import verify
from holdfast.ingress.webhook.verifiers.request import InboundRequest

(source,) = load_config(Path("holdfast.yml")).inbound
body = json.dumps({"event": "order.paid", "order": "o-7"}).encode()
now = int(time.time())
digest = hmac.new(b"the secret", f"{now}.".encode() + body, hashlib.sha256).hexdigest()
headers = Headers([(b"x-acme-signature", digest.encode()), (b"x-acme-timestamp", str(now).encode()),
                   (b"x-acme-delivery", b"d-1"), (b"content-type", b"application/json")])
verify(source.check, InboundRequest(headers, body), now)
stored, value = raw_event(source, headers, body)
event = Event(1, "evt_1", stored.stream, 1, stored.source, stored.type, "2026-01-31T12:00:00Z", 0,
              stored.properties.decode(), stored.payload.decode())
(made,) = normalize(source.name, find_normalizer(source.normalizer, source.name, {}), event)
print(stored.dedup_key, made.source, made.type, made.stream, made.properties.decode())
print(source.platform.reply(value, None))
"""


@pytest.fixture
def recipe() -> str:
    section = re.search(r"^## Add a webhook platform\n(.*?)(?=^## |\Z)", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    assert section is not None
    return section[1]


def test_a_platform_added_as_the_recipe_says_works(recipe: str, tmp_path: Path) -> None:
    (module,) = re.findall(r"^```python\n(.*?)^```", recipe, re.DOTALL | re.MULTILINE)
    (config,) = re.findall(r"^```yaml\n(.*?)^```", recipe, re.DOTALL | re.MULTILINE)
    ((file, folder),) = re.findall(r"Create `(\w+\.py)` in `src/([\w/]+)`", recipe)
    shutil.copytree(ROOT / "src" / "holdfast", tmp_path / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / folder / file).write_text(module, encoding="utf-8")
    (tmp_path / "holdfast.yml").write_text(config, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "ACME_SECRET": "the secret"}
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    event, answer = done.stdout.splitlines()
    assert event == 'acme:d-1 acme acme.order.paid acme:o-7 {"delivery":"d-1","order":"o-7"}'
    assert answer == "{'status': 'accepted'}"


def test_the_tests_that_the_recipe_names_exist(recipe: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", recipe)
    assert len(named) >= 3
    for path in named:
        assert (ROOT / path).exists(), path
