"""A model for agent CLIs to talk to, on this machine: one call of a tool, then one sentence.

It speaks the four dialects the CLIs need: Anthropic's messages, OpenAI's responses and chat completions, Gemini's
generateContent; each streamed or whole. What it says is fixed, so that what a session looks like can be known ahead.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "The harbour is calm, and the lamp is lit."
TITLE = "Light the lamp"
COMMAND = "echo the lamp is lit"
ASK_FOR = "write the log"
COMMAND_ASKED = "touch ship.log"  # what a CLI asks its user about first
SHELLS = ("Bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command", "bash")
TITLING = ("Generate a concise, single-line task title", "You are a title generator")
REQUESTS_MAX = 1000

Json = dict[str, Any]

_numbers = itertools.count(1)


class Model:
    """The server. `asked` holds the requests, for messages about failures. `hold_s` delays streamed answers.

    Without `uses_tools` it only answers.
    """

    def __init__(self, port: int = 0) -> None:
        self.asked: list[tuple[str, Json]] = []
        self.hold_s, self.uses_tools = 0.0, True
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def do_HEAD(self) -> None:
        self._answer({})

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": "lamp", "object": "model", "created": 1, "owned_by": "here"}]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body: Json = json.loads(raw)
        except ValueError:
            body = {}
        if not self.model.uses_tools:
            body["tools"] = []
        path = self.path.partition("?")[0]
        if len(self.model.asked) < REQUESTS_MAX:
            self.model.asked.append((self.path, body))
        if path.endswith(("/count_tokens", ":countTokens")):
            self._answer({"input_tokens": 10, "totalTokens": 10})
        elif path.endswith("/messages"):
            self._reply(body.get("stream"), anthropic(body))
        elif path.endswith("/responses"):
            self._reply(body.get("stream"), responses(body))
        elif path.endswith("/chat/completions"):
            self._reply(body.get("stream"), completions(body))
        elif "enerateContent" in path:
            self._reply("streamGenerateContent" in path, gemini(body))
        else:
            self._answer({})

    def _reply(self, streamed: object, answer: tuple[Json, list[tuple[str | None, Json | str]]]) -> None:
        whole, events = answer
        if not streamed:
            self._answer(whole)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        time.sleep(self.model.hold_s)
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
        self.close_connection = True

    def _answer(self, value: Json) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)


def answer_to(body: Json) -> str:
    """What is said: a title where the CLI asks for one, beside the conversation."""
    if "title" in json.dumps((body.get("output_config") or {}).get("format")):
        return json.dumps({"title": TITLE})
    asked = json.dumps(body)
    return TITLE if any(mark in asked for mark in TITLING) else ANSWER


def find_tool(names: Iterator[object]) -> str | None:
    """A tool that runs a command, if the CLI offers one."""
    offered = {name for name in names if isinstance(name, str)}
    return next((name for name in SHELLS if name in offered), None)


def arguments_for(tool: str, asked: object) -> Json:
    asks = ASK_FOR in json.dumps(asked)
    command = COMMAND_ASKED if asks else COMMAND
    match tool:
        case "exec_command":
            outside = {"sandbox_permissions": "require_escalated", "justification": "May I?"} if asks else {}
            return {"cmd": command, **outside}
        case "shell" | "local_shell":
            return {"command": ["/bin/sh", "-c", command]}
        case _:
            return {"command": command, "description": "light the lamp"}


def anthropic(body: Json) -> tuple[Json, list[tuple[str | None, Json | str]]]:
    last = (body.get("messages") or [{}])[-1]
    parts = last.get("content") if isinstance(last.get("content"), list) else []
    has_result = any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)
    tool = None if has_result else find_tool(each.get("name") for each in body.get("tools") or [])
    usage = {"input_tokens": 10, "output_tokens": 5}
    said = answer_to(body)
    block: Json = {"type": "text", "text": said}
    if tool:
        block = {
            "type": "tool_use",
            "id": f"toolu_lamp_{next(_numbers)}",
            "name": tool,
            "input": arguments_for(tool, body.get("messages")),
        }
    stop = "tool_use" if tool else "end_turn"
    message = {
        "id": "msg_lamp", "type": "message", "role": "assistant", "model": body.get("model"), "content": [block],
        "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    empty = {**block, "input": {}} if tool else {**block, "text": ""}
    text = json.dumps(block["input"]) if tool else said
    delta = {"type": "input_json_delta", "partial_json": text} if tool else {"type": "text_delta", "text": text}
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return message, [(each["type"], each) for each in events]


def responses(body: Json) -> tuple[Json, list[tuple[str | None, Json | str]]]:
    items = [each for each in body.get("input") or [] if isinstance(each, dict)]
    has_result = bool(items) and str(items[-1].get("type")).endswith("_output")
    tool = None if has_result else find_tool(each.get("name") or each.get("type") for each in body.get("tools") or [])
    said = answer_to(body)
    item: Json = {
        "type": "message", "id": f"msg_lamp_{next(_numbers)}", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": said, "annotations": []}],
    }  # fmt: skip
    if tool:
        item = {
            "type": "function_call", "id": "fc_lamp", "call_id": f"call_lamp_{next(_numbers)}",
            "name": tool, "status": "completed", "arguments": json.dumps(arguments_for(tool, items)),
        }  # fmt: skip
    usage = {
        "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    whole = {
        "id": "resp_lamp", "object": "response", "created_at": 1, "status": "completed", "model": body.get("model"),
        "output": [item], "usage": usage,
    }  # fmt: skip
    events: list[Json] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
    ]
    if not tool:
        part = {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0, "content_index": 0}
        events.append({**part, "delta": said})
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [(each["type"], {**each, "sequence_number": n}) for n, each in enumerate(events)]


def completions(body: Json) -> tuple[Json, list[tuple[str | None, Json | str]]]:
    has_result = (body.get("messages") or [{}])[-1].get("role") == "tool"
    offered = (each.get("function", {}).get("name") for each in body.get("tools") or [])
    tool = None if has_result else find_tool(offered)
    message: Json = {"role": "assistant", "content": answer_to(body)}
    if tool:
        function = {"name": tool, "arguments": json.dumps(arguments_for(tool, body.get("messages")))}
        call = {"id": f"call_lamp_{next(_numbers)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    finish = "tool_calls" if tool else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    base = {"id": "chat_lamp", "created": 1, "model": body.get("model")}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
    delta = {**message, "tool_calls": [{"index": 0, **message["tool_calls"][0]}]} if tool else message
    chunk = {**base, "object": "chat.completion.chunk"}
    return whole, [
        (None, {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        (None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}),
        (None, "[DONE]"),
    ]


def gemini(body: Json) -> tuple[Json, list[tuple[str | None, Json | str]]]:
    contents = body.get("contents") or [{}]
    has_result = any("functionResponse" in part for part in contents[-1].get("parts") or [])
    offered = (each.get("name") for tool in body.get("tools") or [] for each in tool.get("functionDeclarations") or [])
    tool = None if has_result else find_tool(offered)
    part: Json = {"text": answer_to(body)}
    if tool:
        part = {"functionCall": {"name": tool, "args": arguments_for(tool, contents)}}
    whole = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "lamp",
    }
    return whole, [(None, whole)]


def main() -> None:
    model = Model(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(model.url, flush=True)
    try:
        seen = 0
        while True:
            threading.Event().wait(0.5)
            for path, body in model.asked[seen:]:
                print(path, json.dumps(body)[:3000], flush=True)
                seen += 1
    except KeyboardInterrupt:
        model.close()


if __name__ == "__main__":
    main()
