"""The daemon as a service: the unit file, the calls of the service manager, and uninstall."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.agents.install.answers import ServiceStatus
from holdfast.agents.install.service import Service
from holdfast.domain.errors import BadInput, NotFound
from holdfast.home import Home
from installing import make_environment, snapshot

# A stand-in that writes down how it was called, and remembers whether the service runs.
MANAGER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in
  *is-active*) if [ -e "$CALLS.up" ]; then echo active; else echo inactive; exit 3; fi ;;
  *print*) if [ -e "$CALLS.up" ]; then echo "state = running"; else exit 113; fi ;;
  *disable*|*bootout*) rm -f "$CALLS.up" ;;
  *restart*|*start*|*bootstrap*) [ -z "$BROKEN" ] || { echo "no bus" >&2; exit 1; }; touch "$CALLS.up" ;;
  *) [ -z "$BROKEN" ] || { echo "no bus" >&2; exit 1; } ;;
esac
"""


def make_service(folder: Path, platform: str, manager: bool = True, **env: str) -> tuple[Service, Path]:
    calls = folder / "calls"
    path = f"{folder / 'bin'}:/usr/bin:/bin" if manager else str(folder / "bin")
    environment = make_environment(folder, {"PATH": path, "CALLS": str(calls), **env})
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("systemctl", "launchctl") if manager else ():
        program = folder / "bin" / name
        program.write_text(MANAGER)
        program.chmod(0o755)
    return Service(replace(environment, platform=platform), Home(folder / "my state")), calls


def called(calls: Path) -> list[str]:
    lines = calls.read_text().splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return [line for line in lines if "is-active" not in line and " print " not in line]


def test_a_unit_is_written_enabled_and_started_and_removed_again(tmp_path: Path) -> None:
    service, calls = make_service(tmp_path, "linux")
    before = snapshot(service.environment.home)
    path = str(service.environment.home / ".config/systemd/user/holdfast.service")
    assert service.status() == ServiceStatus(path, state="not installed", running=False, notes=[])
    answer = service.install()
    assert (answer.changed, answer.running) == (True, True)
    assert called(calls) == [
        "systemctl --user daemon-reload", "systemctl --user enable holdfast.service",
        "systemctl --user restart holdfast.service",
    ]  # fmt: skip
    assert any("enable-linger" in note for note in answer.notes)
    assert (service.status().state, service.status().running) == ("installed", True)

    again = service.install()
    assert (again.changed, again.diff, again.running) == (False, "", True)
    assert "systemctl --user restart holdfast.service" not in called(calls)

    assert service.uninstall().changed
    assert called(calls) == ["systemctl --user disable --now holdfast.service", "systemctl --user daemon-reload"]
    assert not Path(answer.path).exists()
    assert [name for name, kept in snapshot(service.environment.home).items() if kept[0] != "folder"] == [
        name for name, kept in before.items() if kept[0] != "folder"
    ]
    assert service.uninstall().changed is False


def test_the_unit_has_everything_the_daemon_needs(tmp_path: Path) -> None:
    service, _ = make_service(
        tmp_path, "linux", HOLDFAST_CONFIG="/etc/hold fast.yml", HOLDFAST_STORE="postgresql://a:pw@b/c"
    )
    path = Path(service.install().path)
    lines = path.read_text().splitlines()
    assert f'ExecStart="{service.environment.python}" "-P" "-m" "holdfast" "up"' in lines
    assert f'Environment="HOLDFAST_HOME={tmp_path}/my state"' in lines
    assert 'Environment="HOLDFAST_CONFIG=/etc/hold fast.yml"' in lines
    assert {"Restart=on-failure", "WantedBy=default.target", "NoNewPrivileges=yes", "UMask=0077"} <= set(lines)
    assert "pw@b" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_change_is_shown_and_restarts_the_service(tmp_path: Path) -> None:
    service, calls = make_service(tmp_path, "linux")
    service.install()
    called(calls)
    moved = Service(service.environment, Home(tmp_path / "elsewhere"))
    assert moved.status().state == "outdated"
    answer = moved.install()
    assert f'+Environment="HOLDFAST_HOME={tmp_path}/elsewhere"' in answer.diff
    assert "systemctl --user restart holdfast.service" in called(calls)
    assert [each.name for each in Path(answer.path).parent.iterdir()] == ["holdfast.service"]


@pytest.mark.parametrize("env", [{"BROKEN": "1"}, {}])
def test_without_a_manager_the_file_is_written_and_the_command_to_run_printed(
    tmp_path: Path, env: dict[str, str]
) -> None:
    service, _ = make_service(tmp_path, "linux", manager=bool(env), **env)
    answer = service.install()
    assert (answer.changed, answer.failed, answer.running) == (True, True, None)
    assert Path(answer.path).exists()
    assert answer.notes[0].endswith("no bus" if env else "systemctl is not installed")
    assert "systemctl --user enable --now holdfast.service" in answer.notes[1]
    enabled = Path(answer.path).parent / "default.target.wants" / "holdfast.service"
    enabled.parent.mkdir()
    enabled.symlink_to(answer.path)
    assert service.uninstall().changed
    assert not Path(answer.path).exists()
    assert not enabled.is_symlink()


def test_a_file_that_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    service, calls = make_service(tmp_path, "linux")
    path = Path(service.status().path)
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/bin/true\n")
    called(calls)
    for verb in (service.install, service.uninstall):
        with pytest.raises(BadInput, match="not written by holdfast"):
            verb()
    assert path.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert called(calls) == []


def test_an_agent_of_launchd_is_written_loaded_and_removed_again(tmp_path: Path) -> None:
    service, calls = make_service(tmp_path, "darwin")
    answer = service.install()
    path = service.environment.home / "Library" / "LaunchAgents" / "holdfast.plist"
    assert answer.path == str(path)
    domain = f"gui/{os.getuid()}"
    assert called(calls) == [f"launchctl bootstrap {domain} {path}"]
    said = plistlib.loads(path.read_bytes())
    assert said["ProgramArguments"][5:] == [service.environment.python, "-P", "-m", "holdfast", "up"]
    assert said["ProgramArguments"][4] == str(tmp_path / "my state" / "service.env")
    assert said["EnvironmentVariables"]["HOLDFAST_HOME"] == str(tmp_path / "my state")
    assert (said["RunAtLoad"], said["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert service.install().changed is False
    assert called(calls) == []
    moved = Service(service.environment, Home(tmp_path / "elsewhere"))
    assert moved.install().running is True
    assert called(calls) == [f"launchctl bootout {domain}/holdfast", f"launchctl bootstrap {domain} {path}"]
    assert moved.uninstall().changed
    assert called(calls) == [f"launchctl bootout {domain}/holdfast"]
    assert not path.exists()


def test_another_system_prints_what_to_run(tmp_path: Path) -> None:
    service, _ = make_service(tmp_path, "freebsd14")
    with pytest.raises(NotFound, match="holdfast up"):
        service.install()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize("state", ["state", 'a "b" $HOME 100% \\x'])
def test_systemd_accepts_the_unit(tmp_path: Path, state: str) -> None:
    service, _ = make_service(tmp_path, "linux")
    path = Path(Service(service.environment, Home(tmp_path / state)).install().path)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "holdfast.service" in line]
    assert (done.returncode, said) == (0, []), done.stderr


HARD = {
    "PLAIN": "abc",
    "QUOTES": "a\"b'c",
    "DOLLAR": "$HOME `id` \\ end",
    "LINES": "one\ntwo",
    "SPACES": " x # y ",
    "E": "é",
}


def test_variables_are_stored_for_the_owner_only_and_a_change_restarts_the_service(tmp_path: Path) -> None:
    service, calls = make_service(tmp_path, "linux")
    answer = service.install(HARD)
    path = service.variables.path
    assert (answer.variables, stat.S_IMODE(path.stat().st_mode)) == (sorted(HARD), 0o600)
    assert service.variables.read() == HARD
    assert f"EnvironmentFile=-{path}" in Path(answer.path).read_text().splitlines()
    assert "abc" not in answer.diff
    called(calls)
    assert service.install(HARD).changed is False
    assert "systemctl --user restart holdfast.service" not in called(calls)
    assert service.install({**HARD, "PLAIN": "new"}).changed
    assert "systemctl --user restart holdfast.service" in called(calls)
    service.uninstall()
    assert not path.exists()


def test_a_shell_reads_the_variables_as_launchd_starts_it(tmp_path: Path) -> None:
    service, _ = make_service(tmp_path, "darwin")
    words = plistlib.loads(Path(service.install(HARD).path).read_bytes())["ProgramArguments"]
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    for stored in (HARD, {}):
        done = subprocess.run([*words[:5], sys.executable, "-c", program], capture_output=True, check=True, text=True)
        found = json.loads(done.stdout)
        assert {name: found[name] for name in stored} == stored
        service.variables.remove()


def command(tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    given = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "HOLDFAST_HOME": str(tmp_path / "state"),
    }
    kept = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "LANG")}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "service", *words],
        env={**kept, **given, "CALLS": str(tmp_path / "c"), **env},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_command_copies_the_variables_that_the_configuration_names(tmp_path: Path) -> None:
    make_service(tmp_path, "linux")
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "holdfast.yml").write_text(
        "store: sqlite:///${FOLDER:-x}/a.db\nserver: {host: '${LISTEN}', hosts: ['${LISTEN}', '${MISSING}']}\n"
    )
    done = command(tmp_path, "install", LISTEN="127.0.0.1", UNNAMED="secret")
    stored = tmp_path / "state" / "service.env"
    assert done.returncode == 0, done.stderr
    assert f"service: variables stored in {stored}: LISTEN" in done.stdout
    assert "service: MISSING is not set (the daemon does not start without it); set it and run again" in done.stdout
    assert "service: FOLDER is not set (its default is used)" in done.stdout
    assert stored.read_text().splitlines()[1:] == ['LISTEN="127.0.0.1"']
    answer = json.loads(command(tmp_path, "install", "--json", MISSING="b").stdout)
    assert (answer["variables"], answer["unset"], answer["failed"]) == (["LISTEN", "MISSING"], ["FOLDER"], False)
    assert command(tmp_path, "uninstall").returncode == 0
    assert not stored.exists()


def test_a_service_manager_that_fails_makes_the_command_fail(tmp_path: Path) -> None:
    make_service(tmp_path, "linux")
    done = command(tmp_path, "install", BROKEN="1")
    assert (done.returncode, "systemctl --user daemon-reload failed: no bus" in done.stdout) == (1, True)
    assert command(tmp_path, "install").returncode == 0
    manager = tmp_path / "bin" / "systemctl"
    manager.write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    done = command(tmp_path, "uninstall")
    assert (done.returncode, "disable --now holdfast.service failed: no bus" in done.stdout) == (1, True)
    assert command(tmp_path, "uninstall").returncode == 0
