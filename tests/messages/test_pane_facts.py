"""The version of the program that reads a pane, found by its process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from holdfast.agents.messages.pane_facts import read_version
from holdfast.agents.messages.tmux import Pane, Tmux
from holdfast.proof.messages.stage import TmuxServer
from terminals import until


def package(folder: Path, version: str) -> Path:
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps({"version": version}))
    return folder


@pytest.mark.parametrize("shell", [False, True])
async def test_the_version_is_that_of_the_package_or_the_name_of_the_program(
    tmux: TmuxServer, tmp_path: Path, shell: bool
) -> None:
    program = package(tmp_path / "native", "2.1.327") / "toy"
    shutil.copy("/bin/sleep", program)
    shutil.copy("/bin/sleep", tmp_path / "2.1.400")
    interpreter = tmp_path / "node"
    shutil.copy("/bin/sh", interpreter)
    script = package(tmp_path / "script", "0.61.0") / "toy.js"
    script.write_text("sleep 1000; :")
    (tmp_path / "link").symlink_to(script)
    commands = {
        f"{program} 1000": "2.1.327",
        f"{tmp_path / '2.1.400'} 1000": "2.1.400",
        f"{interpreter} {tmp_path / 'link'}": "0.61.0",
        "sleep 1000": None,
    }
    for command, version in commands.items():
        if shell:
            pane = tmux.open("sh", "-i")
            tmux.run("send-keys", "-t", pane, command, "Enter")
        else:
            pane = tmux.open(*command.split())
        name = Path(command.split()[0]).name

        async def look(name: str = name, pane: str = pane) -> int | None:
            screen = await Tmux(tmux.socket).look(Pane(tmux.socket, pane))
            return screen.process if screen.command == name else None

        async def why(pane: str = pane) -> str:
            return tmux.show(pane)

        assert read_version(await until(look, 60, why)) == version


def test_a_process_that_is_gone_has_no_version() -> None:
    assert read_version(0) is None
    assert read_version(2**22 + 1) is None
