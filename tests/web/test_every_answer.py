"""Every screen shows every answer that its verbs can give: with all optional parts, and with none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import Request

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.scopes import TokenScope
from holdfast.operations.verbs import Operations
from holdfast.store.open import open_store
from holdfast.surfaces.web.page import Page, PageFunction, Visit
from holdfast.surfaces.web.pages import PAGES
from holdfast.surfaces.web.render import render
from holdfast.surfaces.web.trouble import Trouble
from sample_answers import SampleOperations


def visit(real: Operations, full: bool) -> Visit:
    operations = cast(Operations, SampleOperations(real, full))
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    granted = TokenScope("admin", frozenset({"admin"}))
    return Visit(operations, granted, Request(scope), {"id": "3"}, Trouble(operations), {})


@pytest.mark.parametrize("full", [True, False], ids=["full", "empty"])
@pytest.mark.parametrize("function", [function for _, function in PAGES], ids=lambda function: function.__name__)
async def test_a_screen_renders_any_answer(function: PageFunction, full: bool, tmp_path: Path) -> None:
    runtime = Runtime(open_store(f"sqlite:///{tmp_path}/h.db", keep=True), load_config(None), None)
    await runtime.start()
    visited = visit(runtime.operations, full)
    await runtime.stop()
    page = await function(visited)
    if not isinstance(page, Page):
        return
    values: dict[str, object] = {
        "base": "", "path": "/", "version": "v", "title": page.title, "done": None, "may": lambda scope: True,
        "used": False, "trouble": await visited.trouble.findings(),
    }  # fmt: skip
    text = render(page.template, **values | page.values)
    assert "<main" in text
