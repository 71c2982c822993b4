"""Five hundred messages of hostile and ordinary text, into agents that misbehave: all arrive, in order, once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from holdfast.agents.messages.session_message import LITERAL
from holdfast.agents.messages.text import clean_text, is_command
from holdfast.proof.messages.stage import Agent, TmuxServer
from terminals import Messenger, messenger

AGENTS, EACH = 20, 25
VERSION = "2.1.325"  # has a key that submits but cannot approve
PIECES = [
    "\x1b[201~\r!touch executed\r", "\x1b[200~", "\x1b]52;c;AAAA\x07", "\x03", "\x04", "\x15", "\x1b", "\r", "\n",
    "\x00", "\x7f", "\t", "\u2028", "\u200b", "\u202e", "e\u0301", "👩\u200d💻", "❤\ufe0f\u200d🔥", "漢字かな交じり文",
    "'; touch executed; '", "$(touch executed)", "`touch executed`", "| touch executed &", '"quotes"', "back\\slash",
    "/clear", "!touch executed", "exit", "1", "y", "@READ", "$HOME", "#{pane_id}", "#(touch executed)", "%1", "-l",
    "Do you want to proceed?", "[Pasted text #1 +3 lines]", "❯ 1. Yes", "plain words", "of ordinary length", " ",
]  # fmt: skip


def hostile_text(chance: random.Random) -> str:
    match chance.randrange(10):
        case 0:
            return "".join(chance.choices("lorem ipsum dolor\n", k=20_000)) + "end"
        case 1:
            return "\n".join(f"line {number} {chance.choice(PIECES)}" for number in range(chance.randrange(1, 40)))
        case 2:
            return chance.choice(PIECES)
        case _:
            return chance.choice(["", " "]).join(chance.choices(PIECES, k=chance.randrange(1, 12)))


def texts_of(seed: int) -> list[str]:
    """Texts as they are accepted: cleaned, and not empty."""
    chance, texts = random.Random(seed), []
    while len(texts) < EACH:
        if text := clean_text(hostile_text(chance)):
            texts.append(text)
    return texts


async def converse(post: Messenger, agent: Agent, texts: list[str]) -> None:
    await post.session(agent.session_id)
    await post.is_version(agent.session_id, VERSION)
    await post.send(agent.session_id, *texts)
    rows = await post.settled(agent.session_id, len(texts), 120)
    assert {row.state for row in rows} == {"delivered"}


@pytest.mark.slow
async def test_hostile_texts_arrive_byte_for_byte_in_order_once(tmux: TmuxServer, home: Path) -> None:
    async with messenger(home) as post:
        agents = [Agent(tmux, home, f"a{seed}", mischief=seed) for seed in range(1, AGENTS + 1)]
        sent = [texts_of(seed) for seed in range(AGENTS)]
        await asyncio.gather(*[converse(post, agent, texts) for agent, texts in zip(agents, sent, strict=True)])
        for agent, texts in zip(agents, sent, strict=True):
            assert agent.prompts == [LITERAL + text if is_command(text) else text for text in texts]
            assert agent.logged("approved") == []
            assert agent.logged("typed") == []
            assert agent.logged("interrupted") == []
    assert not list(tmux.folder.rglob("executed"))
    assert sum(len(agent.logged("asked")) + len(agent.logged("swallowed")) for agent in agents) > 5
