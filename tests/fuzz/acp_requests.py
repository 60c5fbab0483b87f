"""What an ACP client says, as the fuzzer's raw material: every method, in the right shape."""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]


def request(random: Random, session: str, cwd: str) -> tuple[str, Json]:
    """A method and its params."""
    usual = random.random() < 0.5  # most of what there is to break is behind a prompt
    wanted = {"session/prompt", "session/new"} if usual else None
    found = _requests(random, session, cwd)
    return random.choice([each for each in found if wanted is None or each[0] in wanted])


def _requests(random: Random, session: str, cwd: str) -> list[tuple[str, Json]]:
    of_session = {"sessionId": session}
    at = {"cwd": cwd, "mcpServers": []}
    server = {
        "name": "s",
        "command": "/bin/true",
        "args": ["a"],
        "env": [{"name": "A", "value": "b"}],
    }
    remote = {"type": "http", "name": "h", "url": "http://127.0.0.1:9/", "headers": []}
    words = (
        "say", "ask", "patch", "form", "wait", "/status", "/nope", "$skill", "@file", "/compact",
    )  # fmt: skip
    blocks: list[Json] = [
        {"type": "text", "text": random.choice(words)},
        {"type": "resource_link", "uri": "file:///etc/hostname", "name": "n"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/x"}},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
    ]
    can = {"fs": {"readTextFile": True}}
    prompt = {**of_session, "prompt": random.sample(blocks, random.choice((1, 1, 1, 2)))}
    return [
        ("initialize", {"protocolVersion": 1, "clientCapabilities": can}),
        ("session/new", at),
        ("session/new", {**at, "mcpServers": [server, remote]}),
        ("session/load", {**of_session, **at}),
        ("session/resume", {**of_session, **at}),
        ("session/fork", {**of_session, **at}),
        ("session/list", {"cwd": cwd, "cursor": None}),
        ("session/prompt", prompt),
        ("session/prompt", prompt),
        ("session/prompt", prompt),
        ("session/set_mode", {**of_session, "modeId": "read-only"}),
        ("session/set_config_option", {**of_session, "configId": "model", "value": "gpt-5.5"}),
        ("session/set_title", {**of_session, "title": "t"}),
        ("session/archive", of_session),
        ("session/unarchive", of_session),
        ("session/status", of_session),
        ("auth/status", {}),
        ("authenticate", {"methodId": "no-such-method"}),
        ("session/close", of_session),
        ("_vendor.example/x", {"a": [1, {"b": None}]}),
    ]  # fmt: skip


def notification(random: Random, session: str, ids: list[Any]) -> Json:
    """One that the agent knows, about something that may be there."""
    some_id = random.choice(ids) if ids else 1
    return random.choice(
        (
            {"method": "session/cancel", "params": {"sessionId": session}},
            {"method": "$/cancel_request", "params": {"requestId": some_id}},
            {"method": "_vendor.example/y", "params": {"b": 1}},
        )
    )


def some_answer(random: Random, request_id: Any, options: list[str]) -> Json:
    """An answer to a request of the agent: right, nearly right, or for another question."""
    option = random.choice([*options, "allow", "0", ""])
    results: list[Any] = [
        {"outcome": {"outcome": "selected", "optionId": option}},
        {"outcome": {"outcome": "selected", "optionId": option}, "_meta": {"persist": "always"}},
        {"outcome": {"outcome": "cancelled"}},
        {"action": "accept", "content": {"name": "x", "colour": "red"}},
        {"action": "decline"},
        {"action": "accept", "outcome": {"outcome": "selected", "optionId": option}},
    ]
    if random.random() < 0.1:
        return {"id": request_id, "error": {"code": -32603, "message": "no"}}
    return {"id": request_id, "result": random.choice(results)}
