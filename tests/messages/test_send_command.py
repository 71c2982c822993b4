"""`holdfast send --wait` with a real daemon and an agent in a real tmux, from the command to the agent's own hook."""

from __future__ import annotations

from pathlib import Path

from daemon import Daemon
from holdfast.proof.messages.stage import Agent, TmuxServer


def test_send_waits_until_the_agent_has_confirmed(tmux: TmuxServer, tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        agent = Agent(tmux, daemon.home)
        agent.wait_started()
        daemon.wait_for(f"/api/sessions/{agent.session_id}", lambda session: session.get("pane") == agent.pane)
        said = daemon.cli("send", agent.session_id, "please rebase", "--wait")
        assert said.code == 0, said.err
        steps = [line.split()[1] for line in said.out.splitlines()]
        assert (steps[0], steps[-1]) == ("queued", "accepted")
        assert agent.prompts == ["please rebase"]
        status, message = daemon.request("GET", f"/api/messages/{said.out.split()[0]}")
        assert (status, message["status"]) == (200, "accepted")
        assert daemon.request("GET", "/api/dlq/count")[1]["count"] == 0
