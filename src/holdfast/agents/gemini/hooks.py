"""Hooks of Gemini CLI: 11 events, JSON on standard input."""

from __future__ import annotations

from holdfast.agents.hooks.hook_format import COMMON_FIELDS, RAW, HookFormat, Meaning, Payload, Refined, value_at

EVENTS = {
    "SessionStart": Meaning("session_start"),
    "BeforeAgent": Meaning("user_prompt_submit"),
    "AfterAgent": Meaning("agent_stop"),
    "BeforeTool": Meaning("tool_use"),
    "AfterTool": Meaning("tool_done", ok=True),
    "Notification": Meaning("notification"),
    "PreCompress": Meaning("compact"),
    "SessionEnd": Meaning("session_end"),
    # Sent for each chunk of an answer, with the whole conversation in the payload.
    "BeforeModel": RAW,
    "AfterModel": RAW,
    "BeforeToolSelection": RAW,
}

FIELDS = {**COMMON_FIELDS, "answer": ("prompt_response",), "model": ("model", "llm_request.model")}


def refine(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    error = value_at(payload, "tool_response.error")
    if native_event == "AfterTool" and error:
        return Refined(meaning._replace(ok=False), {"error": error})
    return Refined(meaning)


HOOKS = HookFormat(EVENTS, FIELDS, refine=refine)
