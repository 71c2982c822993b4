"""How the screens of the agent CLIs are read: the input box, what it holds, and open questions."""

from __future__ import annotations

import pytest

from holdfast.agents.messages.screen import Screen, parse_capture
from holdfast.agents.messages.terminal import Box, Terminal
from holdfast.agents.messages.tmux import TmuxError, check_pattern, pane_of
from holdfast.agents.registry import AGENTS, find_agent
from holdfast.domain.session import Session

RULE = "─" * 40


def terminal(name: str) -> Terminal:
    agent = find_agent(name)
    assert agent is not None
    assert agent.terminal is not None
    return agent.terminal


def screen(*lines: str, title: str = "", cursor: tuple[int, int] = (0, 0), **more: bool) -> Screen:
    picture = parse_capture("\n".join(lines))
    return Screen(1, "agent", title, more.get("dead", False), more.get("in_mode", False), cursor, "", "", picture)


def claude(*box: str) -> Screen:
    return screen("❯ an earlier prompt", "  second line of it", "● an answer", RULE, *box, RULE, "  ? for shortcuts")


def codex(*box: str, title: str = "work") -> Screen:
    earlier = "\x1b[1;2m› \x1b[0man earlier prompt"
    return screen(earlier, "", *box, "", "  model · ~/work", "  ? for shortcuts", title=title)


def gemini(*box: str, title: str = "◇  Ready (work)") -> Screen:
    lines = ["\x1b[0m > an earlier prompt", "", "✦ an answer", RULE, " Shift+Tab to accept edits", *box]
    footer = ["", " workspace (/directory)      /model", " ~/work      some-model"]
    return screen(*lines, *footer, title=title, cursor=(3, 4 + len(box)))


HINT = "\x1b[2mAsk Codex to do anything\x1b[0m"
GREY = "\x1b[38;5;248m Type your message or @path/to/file\x1b[39m"


@pytest.mark.parametrize(
    ("name", "shown", "box"),
    [
        ("claude", claude("❯\u00a0"), Box.EMPTY),
        ("claude", claude('❯\u00a0\x1b[7mT\x1b[0;2mry "fix the tests"\x1b[0m'), Box.OTHER),
        ("claude", claude('❯\u00a0\x1b[2mTry "fix the tests"\x1b[0m'), Box.EMPTY),
        ("claude", claude("❯\u00a0please", "  rebase"), Box.OURS),
        ("claude", claude("❯\u00a0draft please", "  rebase"), Box.OTHER),
        ("claude", claude("❯\u00a0[Pasted text #1 +12 lines]"), Box.OURS),
        ("claude", screen("Bash command", " Do you want to proceed?", " ❯ 1. Yes", "   2. No"), Box.HIDDEN),
        ("claude", screen("nothing to see"), Box.HIDDEN),
        ("codex", codex(f"› {HINT}"), Box.EMPTY),
        ("codex", codex("› please", "  rebase"), Box.OURS),
        ("codex", codex("› something else"), Box.OTHER),
        ("codex", codex("› [Pasted Content 6000 chars]"), Box.OURS),
        ("codex", codex("› please", "  rebase", title="[ ! ] Action Required | work"), Box.HIDDEN),
        ("gemini", gemini(f" > \x1b[7m \x1b[0m{GREY}"), Box.EMPTY),
        ("gemini", gemini(" > please", "   rebase"), Box.OURS),
        ("gemini", gemini(" > something else"), Box.OTHER),
        ("gemini", gemini(" > [Pasted Text: 541 lines]"), Box.OURS),
        ("gemini", gemini(" > please", "   rebase", title="✋  Action Required (work)"), Box.HIDDEN),
    ],
)
def test_what_the_input_box_holds(name: str, shown: Screen, box: Box) -> None:
    assert terminal(name).box(shown, "please\nrebase") is box


@pytest.mark.parametrize("text", [" ❯ 1. Yes", "Do you want to proceed?", "● 1. Allow once", "Esc to cancel"])
def test_the_text_of_a_message_does_not_look_like_a_question(text: str) -> None:
    for name, shown in (
        ("claude", claude("❯\u00a0" + text, "  " + text)),
        ("gemini", gemini(f" > {text}", f"   {text}")),
    ):
        assert terminal(name).box(shown, f"{text}\n{text}") is Box.OURS


def test_the_end_of_a_long_text_is_enough_if_the_box_shows_no_more() -> None:
    text = "\n".join(f"line number {number} of a long message" for number in range(40))
    shown = claude("❯\u00a0" + text.split("\n")[37], *("  " + line for line in text.split("\n")[38:]))
    assert terminal("claude").box(shown, text) is Box.OURS
    assert terminal("claude").box(claude("❯\u00a0message"), text) is Box.OTHER


def test_keys_that_cannot_approve_are_used_where_the_version_has_them() -> None:
    idle, busy = claude("❯\u00a0x"), screen("❯\u00a0x", "  esc to interrupt")
    chosen = terminal("claude")
    assert chosen.keys(idle, "2.1.325") == ("C-x", "C-s")
    assert chosen.keys(idle, "3.0") == ("C-x", "C-s")
    for shown, version in ((idle, "2.1.197"), (idle, None), (idle, "nightly"), (busy, "2.1.325")):
        assert chosen.keys(shown, version) == ("Enter",)
    assert terminal("codex").keys(idle, None) == ("Tab",)


def test_every_pattern_of_a_question_means_the_same_to_tmux() -> None:
    for agent in AGENTS:
        if agent.terminal is not None:
            for pattern in (*agent.terminal.questions.lines, *agent.terminal.questions.titles):
                assert check_pattern(pattern) == pattern
    with pytest.raises(ValueError, match="tmux"):
        check_pattern("a{2}")


@pytest.mark.parametrize("pane", [None, "", "5", "%5; kill-server", "%"])
def test_only_a_whole_pane_id_is_used(pane: str | None) -> None:
    session = Session("s", "claude", "s", pane=pane, facts={"tmux": "/tmp/s"})
    assert pane_of(session) is None


def test_a_program_name_that_tmux_would_interpret_is_refused() -> None:
    from holdfast.agents.messages.tmux import _guard, _word

    for name in ("a,b", "x}", "#{pid}", "a b", ""):
        with pytest.raises(TmuxError):
            _word(name)
        with pytest.raises(TmuxError):
            _guard(screen("x")._replace(command=name), terminal("claude").questions)
