"""The steps of the Dockerfile, run without Docker: copies, the installation, the command and the health check."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from holdfast.home import Home, read_address
from installed import ROOT, add_dependencies, run

pytestmark = pytest.mark.slow

OPT = "/opt/holdfast"
STEPS = [
    tuple(line.split(maxsplit=1))
    for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def steps(word: str) -> list[str]:
    return [rest for name, rest in STEPS if name == word]


def copy(sources: str, target: Path) -> None:
    *names, place = sources.split()
    for name in names:
        found = ROOT / name
        goal = target / place / found.name if place.endswith("/") else target / place
        goal.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, goal, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, goal)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for /opt/holdfast, after the steps of the first stage."""
    folder = tmp_path_factory.mktemp("image")
    source, opt = folder / "source", folder / "opt"
    source.mkdir()
    for name, rest in STEPS[: [name for name, _ in STEPS].index("FROM", 1)]:
        if name == "COPY":
            copy(rest, source)
        elif name == "RUN" and "--require-hashes" in rest:
            add_dependencies(opt / "bin" / "python")  # instead of a download
        elif name == "RUN":
            run(*rest.replace("--no-cache-dir", "--no-index").replace(OPT, str(opt)).split(), cwd=source)
    return opt


def test_the_lock_file_that_is_installed_pins_every_dependency() -> None:
    lock = (ROOT / "requirements" / "run.lock").read_text("utf-8")
    pinned = {_normal(name) for name in re.findall(r"^([A-Za-z0-9_.-]+)(?:\[.*\])?==", lock, re.M)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [each for name, wanted in project["optional-dependencies"].items() if name != "all" for each in wanted]
    needed = {_normal(re.split(r"[^A-Za-z0-9_.-]", each)[0]) for each in [*project["dependencies"], *extras]}
    assert needed <= pinned
    assert lock.count("--hash=sha256:") >= len(pinned)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_only_what_is_copied_is_sent_to_docker() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").split() if line.startswith("!")}
    copied = {name for rest in steps("COPY") if "--from" not in rest for name in rest.split()[:-1]}
    assert allowed == copied


def test_the_image_runs_as_a_user_of_its_own_and_keeps_its_files_in_a_volume() -> None:
    (volume,) = steps("VOLUME")
    assert any(f"HOLDFAST_HOME={volume}/" in rest for rest in steps("ENV"))
    assert steps("USER") == ["holdfast"]
    assert any(f"--home-dir {volume} " in rest for rest in steps("RUN") if rest.startswith("useradd"))


def test_the_command_starts_the_daemon_and_the_health_check_passes(image: Path, tmp_path: Path) -> None:
    (entry,), (command,), (health,) = steps("ENTRYPOINT"), steps("CMD"), steps("HEALTHCHECK")
    words = [*json.loads(entry), *json.loads(command)]
    assert words == ["holdfast", "up", "--host", "0.0.0.0"]
    env = {"HOLDFAST_HOME": str(tmp_path / "home"), "PATH": f"{image}/bin:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    check = ["sh", "-c", health.removeprefix("CMD ")]
    assert subprocess.run(check, env=env, capture_output=True, check=False).returncode == 1
    words = [*words[:-1], "127.0.0.1", "--port", "0"]  # tests listen on loopback only
    with subprocess.Popen(words, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stdout is not None
            assert " is up at " in daemon.stdout.readline()
            assert read_address(Home(tmp_path / "home").address_file) is not None
            assert json.loads(run(*check, env=env))
        finally:
            daemon.terminate()
            daemon.communicate()
    assert daemon.returncode == 0
