"""The agents' own programs, as `make agents` installs them: how each is started without a terminal, and by which
settings it talks to the model on this machine instead of its maker's."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MODULES = Path(os.environ.get("AGENT_PROGRAMS", "/nowhere"))
RUN_S = 600.0  # a loaded machine starts Node slowly
PROMPT = "light the lamp"

_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+(?:\.\d+)?\s?m?s\b|\d{2}:\d{2}:\d{2}[\d.Z]*|\x1b\[[\d;]*m")


@dataclass(frozen=True, slots=True)
class Program:
    """One CLI: where its program is, its words, its variables, and the files it finds in its user's home."""

    name: str
    path: str
    words: tuple[str, ...]
    env: Callable[[str], Mapping[str, str]] = lambda url: {}
    files: Callable[[str], Mapping[str, str]] = lambda url: {}
    events: tuple[str, ...] = ()
    ends: str = "ended"
    transcript: bool = True
    prompt: str = PROMPT
    title: str = PROMPT
    rewrites: bool = field(default=False)  # whether it rewrites its settings by itself

    def find(self) -> Path:
        found = sorted(MODULES.glob(self.path), key=lambda path: len(str(path)))
        assert found, f"{self.path} is not in {MODULES}; run: make agents"
        return found[0]


class User:
    """A user of these programs who exists only for a test."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url
        self.work, self.bin = home / "work", home / "bin"
        self.work.mkdir(parents=True)
        self.bin.mkdir()
        subprocess.run(["git", "init", "-q", str(self.work)], check=True, timeout=60)

    def prepare(self, program: Program) -> dict[str, bytes]:
        """Write its settings and put it on the PATH; the settings."""
        (self.bin / program.name).symlink_to(program.find())
        given = {name: text.encode() for name, text in program.files(self.url).items()}
        for name, raw in given.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)
        return given

    def env(self, program: Program) -> dict[str, str]:
        path = os.pathsep.join([str(self.bin), os.environ["PATH"]])
        return {"HOME": str(self.home), "PATH": path, "TERM": "xterm-256color", **program.env(self.url)}

    def run(self, program: Program, *more: str) -> tuple[int, str]:
        """One turn without a terminal: how it ended, and what it said but for what is never the same twice."""
        words = [str(self.bin / program.name), *program.words, *more]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_S, cwd=self.work, env=self.env(program)
        )
        said = _CHANGING.sub("…", done.stdout.decode("utf-8", "replace"))
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-3000:]
        return done.returncode, said


def _claude(url: str) -> Mapping[str, str]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", **quiet}


def _codex_files(url: str) -> Mapping[str, str]:
    provider = f'[model_providers.here]\nname = "here"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    return {".codex/config.toml": f'# mine\nmodel = "lamp"\nmodel_provider = "here"\n\n{provider}'}


def _opencode_files(url: str) -> Mapping[str, str]:
    model = {"npm": "@ai-sdk/openai-compatible", "name": "here", "models": {"lamp": {"name": "lamp"}},
             "options": {"baseURL": f"{url}/v1", "apiKey": "none"}}  # fmt: skip
    settings = {"model": "here/lamp", "small_model": "here/lamp", "autoupdate": False, "share": "disabled"}
    return {".config/opencode/opencode.json": json.dumps({**settings, "provider": {"here": model}}, indent=2)}


TURN = ("session_start", "user_prompt_submit", "tool_use", "tool_done", "agent_stop", "session_end")

PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "claude",
            "@anthropic-ai/claude-code-*/claude",
            ("-p", PROMPT, "--allowedTools", "Bash"),
            _claude,
            lambda url: {".claude/settings.json": '{\n    "includeCoAuthoredBy": false\n}'},
            TURN,
        ),
        Program(
            "codex",
            "@openai/codex/bin/codex.js",
            ("exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", PROMPT),
            files=_codex_files,
            events=TURN,
        ),
        Program(
            "gemini",
            "@google/gemini-cli/bundle/gemini.js",
            ("--skip-trust", "--yolo", "-m", "gemini-2.5-flash", "-p", PROMPT),
            lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none"},
            lambda url: {
                ".gemini/settings.json": '{\n  // mine\n  "security": {"auth": {"selectedType": "gemini-api-key"}}\n}\n'
            },
            TURN,
        ),
        Program(
            "qwen",
            "@qwen-code/qwen-code/cli.js",
            ("--auth-type", "openai", "--yolo", "-p", PROMPT),
            lambda url: {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "lamp"},
            # Without a terminal it tells neither that it begins nor that it ends.
            events=("notification", "user_prompt_submit", "tool_use", "tool_done", "raw", "agent_stop"),
            ends="idle",
            rewrites=True,
        ),
        Program(
            "copilot",
            "@github/copilot/npm-loader.js",
            ("-p", PROMPT, "--allow-all-tools"),
            lambda url: {
                "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                "COPILOT_PROVIDER_API_KEY": "none",
                "COPILOT_MODEL": "lamp",
                "COPILOT_OFFLINE": "true",
            },
            events=TURN,
        ),
        Program(
            "opencode",
            "opencode-*/bin/opencode",
            ("run", PROMPT),
            files=_opencode_files,
            events=TURN[:-1],  # a session of its ends when the user deletes it
            ends="idle",
            transcript=False,
            prompt=f'"{PROMPT}"',  # it quotes words that came as one argument
            title="Light the lamp",
        ),
    )
}
