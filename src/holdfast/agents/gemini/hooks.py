"""Gemini CLI: 11 events, JSON on stdin."""

from __future__ import annotations

from typing import Any

from holdfast.agents.hooks.adapter import RAW, SNAKE, Adapter, Native, Payload, dig

EVENTS = {
    "SessionStart": Native("session_start"),
    "BeforeAgent": Native("user_prompt_submit"),
    "AfterAgent": Native("agent_stop"),
    "BeforeTool": Native("tool_use"),
    "AfterTool": Native("tool_done", ok=True),
    "Notification": Native("notification"),
    "PreCompress": Native("compact"),
    "SessionEnd": Native("session_end"),
    # One for each piece of an answer, with the whole conversation in it: no tool is at work.
    "BeforeModel": RAW,
    "AfterModel": RAW,
    "BeforeToolSelection": RAW,
}

FIELDS = {**SNAKE, "answer": ("prompt_response",), "model": ("model", "llm_request.model")}


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    fault = dig(payload, "tool_response.error")
    if native_event == "AfterTool" and fault:
        return native._replace(ok=False), {"error": fault}
    return native, {}


GEMINI = Adapter("gemini", EVENTS, FIELDS, refine=refine)
