"""The agents' own programs, interactive in a real tmux, get messages from the daemon: `make agents`.

Each message is accepted by the CLI's own prompt hook: sent while the agent is idle, while it works, while it starts,
and after it was resumed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon import run_cli
from holdfast.agents.claude.terminal import TERMINAL
from holdfast.agents.messages.tmux import Pane, Tmux
from holdfast.proof.messages.stage import TmuxServer
from holdfast.store.roles.sessions import SessionFilter
from terminals import Messenger, messenger, until

sys.path.insert(0, str(Path(__file__).parent))
from model import ASK_FOR, COMMAND_ASKED, Model
from programs import MODULES, PROGRAMS, Program, User
from test_programs import PINNED, list_hooks

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MODULES.is_dir(), reason="run by: make agents")]


@dataclass(frozen=True, slots=True)
class Interactive:
    """How a CLI is started in a terminal, and what keeps it from asking its user something first."""

    words: tuple[str, ...]
    resume: Callable[[str], tuple[str, ...]]
    files: Callable[[Path, Path], dict[Path, str]] = lambda home, work: {}
    env: tuple[tuple[str, str], ...] = ()
    asking: tuple[str, ...] = ()  # words with which it asks for permission


def _claude(home: Path, work: Path) -> dict[Path, str]:
    trusted = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": ["none"], "rejected": []},
        "projects": {str(work): {"hasTrustDialogAccepted": True}},
    }
    return {home / ".claude.json": json.dumps(trusted)}


INTERACTIVE = {
    "codex": Interactive((), lambda id: ("resume", id)),
    "claude": Interactive((), lambda id: ("--resume", id), _claude, asking=("--permission-mode", "default")),
    "gemini": Interactive(
        ("-m", "gemini-2.5-flash"),
        lambda id: ("--resume", id, "-m", "gemini-2.5-flash"),
        env=(("GEMINI_CLI_TRUST_WORKSPACE", "true"),),
    ),
}


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    made.uses_tools = False
    yield made
    made.close()


@pytest.fixture
def user(tmp_path: Path, model: Model) -> User:
    return User(tmp_path / "user", model.url)


@pytest.fixture
def tmux() -> Iterator[TmuxServer]:
    server = TmuxServer()
    yield server
    server.close()


@pytest.fixture
async def post(tmp_path: Path) -> AsyncIterator[Messenger]:
    async with messenger(tmp_path / "home") as made:
        yield made


class Started:
    """One CLI in a pane of a user who exists only for the test, wired by `hooks install`."""

    def __init__(self, program: Program, user: User, tmux: TmuxServer, home: Path) -> None:
        self.program, self.user, self.tmux, self.how = program, user, tmux, INTERACTIVE[program.name]
        user.prepare(program)
        for path, text in self.how.files(user.home, user.work).items():
            path.write_text(text, encoding="utf-8")
        env = {**user.env(program), "PYTHONPATH": ":".join(sys.path)}
        said = run_cli(home, "hooks", "install", "--agent", program.name, "--json", env=env)
        assert said.code == 0, said.err

    def start(self, *words: str) -> None:
        env = {**self.user.env(self.program), **dict(self.how.env)}
        command = [str(self.user.bin / self.program.name), *(words or self.how.words)]
        self.pane = self.tmux.open(*command, env=env, cwd=self.user.work)

    async def resume(self, session: str) -> None:
        """End the program together with its pane, and start it again with the same session."""
        self.tmux.run("kill-pane", "-t", self.pane)
        self.start(*self.how.resume(session.partition("-")[2]))

    async def shows(self, *texts: str) -> None:
        """Wait until the pane shows all texts."""

        async def look() -> bool | None:
            shown = self.tmux.show(self.pane)
            return all(text in shown for text in texts) or None

        async def why() -> str:
            return self.tmux.show(self.pane)

        await until(look, 60, why)

    async def session(self, post: Messenger) -> str:
        async def look() -> str | None:
            page = await post.store.sessions.find(SessionFilter(agent=self.program.name), None, 10)
            return page.items[0].id if page.items else None

        async def why() -> str:
            return self.tmux.show(self.pane)

        return await until(look, 60, why)


@pytest.fixture
def codex(user: User, tmux: TmuxServer, tmp_path: Path) -> Iterator[Started]:
    started = Started(PROGRAMS["codex"], user, tmux, tmp_path / "home")
    trust_hooks(user, started.program)
    yield started
    end_background(user)


@pytest.mark.parametrize("name", ["claude", "gemini"])
async def test_every_message_is_accepted_by_the_hook_of_the_agent_in_order_once(
    name: str, user: User, tmux: TmuxServer, post: Messenger, tmp_path: Path, model: Model
) -> None:
    started = Started(PROGRAMS[name], user, tmux, tmp_path / "home")
    started.start()
    session = await started.session(post)
    texts = ["first, while it starts", "then a second\nwith two lines", "third: exit", "many words " * 300 + "end"]
    await post.send(session, *texts[:1])
    await settled(post, session, 1, started)
    await post.send(session, *texts[1:])
    await settled(post, session, 4, started)
    model.hold_s = 3.0
    busy = ["make it slow", "sent while it works", "and another"]
    await post.send(session, *busy)
    await settled(post, session, 7, started)
    model.hold_s = 0.0
    tmux.run("send-keys", "-t", started.pane, "C-c")
    tmux.run("kill-pane", "-t", started.pane)
    native = session.partition("-")[2]
    await post.send(session, "after the resume")
    started.start(*started.how.resume(native))
    await settled(post, session, 8, started)
    assert merged(await prompts(post, session)) == [visible(text) for text in [*texts, *busy, "after the resume"]]


async def test_claude_code_gets_messages_by_keys_that_cannot_approve(
    user: User, tmux: TmuxServer, post: Messenger, tmp_path: Path
) -> None:
    """Its version is known by its hooks, and while it is idle the keys are those of that version."""
    started = Started(PROGRAMS["claude"], user, tmux, tmp_path / "home")
    started.start()
    session = await started.session(post)
    await post.session(session, agent_version=PINNED["@anthropic-ai/claude-code"])
    await post.send(session, "by the chord", "and again")
    await settled(post, session, 2, started)

    async def is_idle() -> bool | None:
        screen = await Tmux(tmux.socket).look(Pane(tmux.socket, started.pane))
        return TERMINAL.keys(screen, PINNED["@anthropic-ai/claude-code"]) == ("C-x", "C-s") or None

    async def why() -> str:
        return tmux.show(started.pane)

    await until(is_idle, 60, why)
    assert await prompts(post, session) == ["by the chord", "and again"]


async def test_codex_takes_messages_from_its_own_queue_in_order_once(
    codex: Started, post: Messenger, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(codex.user.bin), prepend=":")
    model.hold_s = 2.0
    codex.start("begin with this")  # Codex reports a session with its first prompt
    session = await codex.session(post)
    await post.send(session, "while it starts")
    await settled(post, session, 1, codex)
    model.hold_s = 0.0
    idle = ["/clear is only a text here", "!touch executed", "two\nlines"]
    await post.send(session, *idle)
    await settled(post, session, 4, codex)
    model.hold_s = 2.0
    busy = ["make it slow", "sent while it works"]
    await post.send(session, *busy)
    await settled(post, session, 6, codex)
    model.hold_s = 0.0
    await codex.resume(session)
    resumed = ["while it resumes", "after the resume"]
    await post.send(session, resumed[0])
    await settled(post, session, 7, codex)
    await codex.shows(resumed[0])
    await post.send(session, resumed[1])
    await settled(post, session, 8, codex)
    await codex.shows(resumed[1])
    found = [visible(prompt) for prompt in await prompts(post, session)]
    sent = ["Message: " + text if text[0] in "/!" else text for text in ["while it starts", *idle, *busy, *resumed]]
    assert found == [visible(text) for text in ["begin with this", *sent]]
    assert not (codex.user.work / "executed").exists()


async def test_codex_without_its_queue_takes_messages_in_its_terminal(
    codex: Started, post: Messenger, tmux: TmuxServer, model: Model
) -> None:
    """The daemon does not find the program `codex`, and the user has said in which pane it runs."""
    model.hold_s = 2.0
    codex.start("begin with this")
    session = await codex.session(post)
    await codex.shows("begin with this", " · ")
    await post.runtime.operations.sessions.attach(session, codex.pane, tmux.socket)
    texts = ["while it starts", "exit", "two\nlines, and an end @work"]
    await post.send(session, texts[0])
    await settled(post, session, 1, codex)
    model.hold_s = 0.0
    await post.send(session, *texts[1:])
    await settled(post, session, 3, codex)
    model.hold_s = 2.0
    busy = ["make it slow", "sent while it works"]
    await post.send(session, *busy)
    await settled(post, session, 5, codex)
    model.hold_s = 0.0
    await codex.resume(session)
    await codex.shows("Ask Codex to do anything")
    await post.runtime.operations.sessions.attach(session, codex.pane, tmux.socket)
    await post.send(session, "after the resume")
    await settled(post, session, 6, codex)
    sent = ["begin with this", texts[0], "Message: exit", texts[2], *busy, "after the resume"]
    assert [visible(prompt) for prompt in await prompts(post, session)] == [visible(text) for text in sent]


def trust_hooks(user: User, program: Program) -> None:
    """What a user answers when Codex asks about new hooks; also trust the folder."""
    trust = [
        f'[hooks.state."{hook["key"]}"]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in list_hooks(user, program)
    ]
    config = user.home / ".codex" / "config.toml"
    folder = f'[projects."{user.work}"]\ntrust_level = "trusted"\n'
    text = "check_for_update_on_startup = false\n" + config.read_text(encoding="utf-8")
    config.write_text("\n".join([text, folder, *trust]), encoding="utf-8")


def end_background(user: User) -> None:
    """Codex leaves a server and an updater behind; both run from its home."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(user.home).encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended


async def settled(post: Messenger, session: str, count: int, started: Started) -> None:
    began = time.monotonic()
    try:
        rows = await post.settled(session, count, 90)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{started.tmux.show(started.pane)}") from None
    print(f"{started.program.name}: {count} after {time.monotonic() - began:.2f} s")
    assert {row.state for row in rows[:count]} == {"delivered"}


async def prompts(post: Messenger, session: str) -> list[str]:
    events = await post.store.events.read(f"session:{session}", 0, 1000)
    found = [event.payload for event in events if event.type == "hook.user_prompt_submit"]
    return [str(payload["prompt"]) for payload in found if isinstance(payload, dict)]


def merged(prompts: list[str]) -> list[str]:
    """The prompts one by one: a CLI may join queued ones with a blank line."""
    return [visible(part) for prompt in prompts for part in prompt.split("\n\n")]


def visible(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("name", ["claude", "gemini"])
async def test_an_open_question_of_the_agent_is_not_answered(
    name: str, user: User, tmux: TmuxServer, post: Messenger, tmp_path: Path, model: Model
) -> None:
    """The model asks for a command that needs permission; messages wait until the user has answered."""
    model.uses_tools = True
    started = Started(PROGRAMS[name], user, tmux, tmp_path / "home")
    started.start(*started.how.asking)
    session = await started.session(post)
    await post.send(session, ASK_FOR)
    await settled(post, session, 1, started)

    await started.shows(COMMAND_ASKED, " 1. ")
    await post.send(session, "2", "yes, do it")
    await post.waiting(session, "asks its user")
    await post.attempted(session, 2)
    assert not (user.work / "ship.log").exists()
    await started.shows(COMMAND_ASKED, " 1. ")
    model.uses_tools = False
    tmux.run("send-keys", "-t", started.pane, "Escape")
    await settled(post, session, 3, started)
    assert merged(await prompts(post, session)) == [visible(text) for text in (ASK_FOR, "2", "yes, do it")]
    assert not (user.work / "ship.log").exists()


@pytest.mark.parametrize("way", ["queue", "terminal"])
async def test_an_open_question_of_codex_is_not_answered(
    way: str, codex: Started, tmux: TmuxServer, post: Messenger, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.uses_tools = True
    codex.start("--ask-for-approval", "on-request", ASK_FOR)
    session = await codex.session(post)
    await codex.shows(COMMAND_ASKED, " 1. ")
    if way == "queue":
        monkeypatch.setenv("PATH", str(codex.user.bin), prepend=":")
    else:
        await post.runtime.operations.sessions.attach(session, codex.pane, tmux.socket)
    await post.send(session, "2", "yes, do it")
    await post.waiting(session, "confirmation" if way == "queue" else "asks its user")
    await post.attempted(session, 2)
    await codex.shows(COMMAND_ASKED, " 1. ")
    assert not (codex.user.work / "ship.log").exists()
    model.uses_tools = False
    tmux.run("send-keys", "-t", codex.pane, "Escape")
    if way == "queue":  # a queue that was interrupted goes on with the next turn
        await codex.shows("Conversation interrupted")
        tmux.run("send-keys", "-t", codex.pane, "-l", "go on")
        await codex.shows("› go on")
        tmux.run("send-keys", "-t", codex.pane, "Tab")
    await settled(post, session, 2, codex)
    found = [visible(prompt) for prompt in await prompts(post, session)]
    assert [prompt for prompt in found if prompt != "goon"] == [visible(text) for text in (ASK_FOR, "2", "yes, do it")]
    assert not (codex.user.work / "ship.log").exists()
