"""The command over streamable HTTP, with the real Codex behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import (
    CodexHome,
    Gate,
    ScriptedModel,
    Step,
    Text,
    exec_command,
    request_user_input,
)
from tests.network.http_client import HttpClient
from tests.network.listening_adapter import TOKEN, ListeningAdapter
from tests.network.served import until

Json = dict[str, Any]

FORMS: Json = {"elicitation": {"form": {}}}

FEATURES: Json = {"default_mode_request_user_input": True}

COLOR = {
    "id": "color",
    "header": "Color",
    "question": "Which color?",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
async def test_a_whole_session(tmp_path: Path, http2: bool) -> None:
    ask = exec_command("touch made && echo hi", justification="May I?")
    turns: list[list[Step]] = [
        [Text("Hello.")], [ask], [Text("Done.")], [request_user_input(COLOR)], [Text("Painted.")],
        [Text("I wait. "), Gate("never")], [ask], [Text("Done again.")],
    ]  # fmt: skip
    with (
        ScriptedModel(turns) as model,
        CodexHome(model.base_url, config={"features": FEATURES}) as home,
        ListeningAdapter(home.env, tmp_path, "--keep", "1h", scheme="http") as adapter,
    ):
        made = home.workspace / "made"
        where: Json = {"cwd": str(home.workspace), "mcpServers": []}

        def connect() -> HttpClient:
            return HttpClient(adapter.url, TOKEN, http2=http2, capabilities=FORMS)

        async with connect() as client:
            assert client.version == ("HTTP/2" if http2 else "HTTP/1.1")
            session = where["sessionId"] = await client.new_session(home.workspace)
            ended = await client.outcome(await client.prompt(session))
            assert ended["result"]["stopReason"] == "end_turn"
            assert client.text(session) == "Hello."
            running = await client.prompt(session)
            await client.choose(await client.question(), "allow_once")
            assert (await client.outcome(running))["result"]["stopReason"] == "end_turn"
            assert made.exists()
            made.unlink()
            running = await client.prompt(session)
            form = await client.question(2)
            name = next(iter(form["params"]["requestedSchema"]["properties"]))
            await client.reply(form, {"action": "accept", "content": {name: "Blue"}})
            assert (await client.outcome(running))["result"]["stopReason"] == "end_turn"
            running = await client.prompt(session)
            await client.until(lambda: "I wait." in client.text(session))
            await client.send({"method": "session/cancel", "params": {"sessionId": session}})
            assert (await client.outcome(running))["result"]["stopReason"] == "cancelled"
            await client.prompt(session)
            asked = await client.question(3)
            await client.break_off()
        async with connect() as client:
            answer = await client.ask("session/load", where)
            assert answer["_meta"]["codex-acp-sdk"] == {"running": True, "questions": 1}
            again = await client.question()
            assert again["params"] == asked["params"]
            assert not made.exists()
            assert "Hello." in client.text(session)
            await client.choose(again, "allow_once")
            await client.until(lambda: "Done again." in client.text(session))
            await until(made.exists)
            listed = await client.ask("session/list", {})
            assert session in [each["sessionId"] for each in listed["sessions"]]
