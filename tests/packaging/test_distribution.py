"""Wheel and source distribution: built, complete, and usable where they are installed."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from holdfast.version import __version__
from installed import ROOT, build, make_environment, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(f"holdfast-{__version__}.dist-info/METADATA"))


def files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith("holdfast/")}


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source)): path.read_bytes()
        for path in (source / "holdfast").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files(wheel) == wanted


def test_a_wheel_made_from_the_source_distribution_is_the_same(wheel: Path, tmp_path: Path) -> None:
    sdist = build(ROOT, tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    again = build(tmp_path / "unpacked" / f"holdfast-{__version__}", tmp_path / "again", "wheel")
    assert files(again) == files(wheel)
    assert metadata(again).items() == metadata(wheel).items()


def test_the_version_and_the_extras_come_from_one_place(wheel: Path) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert metadata(wheel)["Version"] == __version__
    assert set(metadata(wheel).get_all("Provides-Extra", [])) == set(declared["optional-dependencies"])
    extras = set(declared["optional-dependencies"]) - {"all"}
    (everything,) = declared["optional-dependencies"]["all"]
    assert everything == f"holdfast[{','.join(sorted(extras))}]"


def test_an_installed_wheel_runs_its_commands_and_publishes(wheel: Path, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    run(python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
    holdfast = python.parent / "holdfast"
    home = {"HOLDFAST_HOME": str(tmp_path / "home")}
    assert __version__ in run(holdfast, "--version", cwd=tmp_path, env=home)
    program = (
        "import sqlite3, holdfast\n"
        "outbox = holdfast.Outbox('sqlite:///app.db')\n"
        "outbox.migrate()\n"
        "with sqlite3.connect('app.db') as connection:\n"
        "    outbox.publish(connection, 'order.placed', {'id': 42})\n"
        "print(holdfast.__file__)\n"
    )
    place = run(python, "-c", program, cwd=tmp_path).strip()
    assert place.startswith(str(tmp_path / "env"))
    listed = run(holdfast, "events", "list", "--store", "sqlite:///app.db", "--json", cwd=tmp_path, env=home)
    assert '"order.placed"' in listed
