"""The recipe "Add a sink" in CONTRIBUTING.md: its blocks, as they stand there, add a sink that passes the suite."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.config.config import load_config
from holdfast.domain.errors import BadConfig
from holdfast.streams.sinks.registry import SINKS, make_sink
from holdfast.streams.sinks.sink import Sink, SinkConfig
from holdfast.testing.sink_suite import SinkFeature, SinkSuite

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = re.split(r"^## ", PAGE.partition("## Add a sink\n")[2], flags=re.MULTILINE)[0]
SINK, ENTRY = (textwrap.dedent(block) for block in re.findall(r"^ +```python\n(.*?)^ +```", SECTION, re.S | re.M))


class MemoryTarget:
    features = frozenset({SinkFeature.DEDUPLICATES})
    secret = "canaryMEMORY"

    def __init__(self, module: ModuleType) -> None:
        self._lists = module.MemorySink.lists

    def sink(self) -> Sink:
        return make_sink(SinkConfig("toy", "memory://ann:canaryMEMORY@here", "*", {"list": "runs {stream}"}))

    async def stored(self, stream: str) -> list[bytes]:
        return list(self._lists[f"runs {stream}"].values())

    async def replayed(self, stream: str) -> list[bytes]:
        return list(self._lists[f"runs {stream} replay"].values())

    async def kill(self) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self._lists.clear()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("holdfast.streams.sinks.memory")
    exec(compile(SINK, "memory.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for scheme, path in eval(ENTRY).items():
        monkeypatch.setitem(SINKS, scheme, path)
    return module


@pytest.fixture
def target(memory: ModuleType) -> Iterator[MemoryTarget]:
    return MemoryTarget(memory)  # type: ignore[return-value]


class TestMemorySink(SinkSuite):
    pass


def test_the_configuration_takes_it_and_refuses_unknown_options(memory: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yml"
    path.write_text('streams: {sinks: [{name: toy, url: "memory://here", streams: "run:*", list: "{stream}"}]}\n')
    assert [sink.name for sink in load_config(path).sinks] == ["toy"]
    path.write_text('streams: {sinks: [{name: toy, url: "memory://here", streams: "run:*", color: red}]}\n')
    with pytest.raises(BadConfig, match="color"):
        load_config(path)
