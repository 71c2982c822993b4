"""`streams.sinks`: checked when the file is read, without showing a credential."""

from __future__ import annotations

import pytest

from holdfast.config.config import load_config
from holdfast.domain.errors import BadConfig
from holdfast.streams.sinks import registry
from holdfast.streams.sinks.sink import SinkConfig

SECRET = "canary-pass"


class ToySink:
    def __init__(self, config: SinkConfig) -> None:
        self.name = config.name
        if unknown := set(config.options) - {"topic"}:
            raise BadConfig(f"unknown option {sorted(unknown)[0]}")


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setitem(registry.SINKS, "toy", f"{__name__}:ToySink")
    monkeypatch.setenv("TOY_PASSWORD", SECRET)


def load(tmp_path, text):
    path = tmp_path / "holdfast.yml"
    path.write_text(f"streams:\n  sinks:\n    - {text}\n", encoding="utf-8")
    return load_config(path)


def test_a_sink_is_read_with_its_reader_and_options(tmp_path):
    (sink,) = load(tmp_path, '{name: bus, url: "toy://u:${TOY_PASSWORD}@h/1", streams: "run:*", topic: runs}').sinks
    assert (sink.name, sink.url, sink.options) == ("bus", f"toy://u:{SECRET}@h/1", {"topic": "runs"})
    assert (sink.reader.name, sink.reader.pattern, sink.reader.start) == ("sink:bus", "run:*", "beginning")
    assert SECRET not in repr(sink)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{name: bus, url: "toy://u:${TOY_PASSWORD}@h", streams: "*", colour: red}', "unknown option colour"),
        ('{name: bus, url: "nope://u:${TOY_PASSWORD}@h", streams: "*"}', "no kind of sink"),
        ('{name: bus, url: "${TOY_PASSWORD}", streams: "*"}', "url must be"),
        ('{name: "a b", url: "toy://h", streams: "*"}', "name must be"),
        ('{name: bus, url: "toy://h"}', "streams must be a pattern"),
        ('{name: bus, url: "toy://h", streams: "*", poison: drop}', "poison must be one of stop, skip, quarantine"),
        ('{name: bus, url: "toy://h", streams: "*", start: 3}', "start must be one of"),
        ('{name: bus, url: "toy://h", streams: "*", topic: [a]}', "topic must be a text"),
        ("bus", "a sink is a mapping"),
    ],
)
def test_a_mistake_names_the_entry_and_never_the_credentials(tmp_path, text, message):
    with pytest.raises(BadConfig) as caught:
        load(tmp_path, text)
    assert "streams.sinks: entry 1" in str(caught.value)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def test_two_sinks_cannot_share_a_name(tmp_path):
    with pytest.raises(BadConfig, match=r"entry 2 \(bus\): duplicate name"):
        load(tmp_path, '{name: bus, url: "toy://h", streams: "*"}\n    - {name: bus, url: "toy://i", streams: "*"}')
