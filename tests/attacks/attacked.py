"""The command with the real Codex, an attacker behind it, and a client that always says no.

One adapter and one Codex meet all the attacks of a module, each in a session of its own: what an
attack breaks, the usual prompt behind it finds broken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from codex_acp.testing import (
    CodexHome,
    ModelResponse,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
    When,
)
from tests.fuzz.adapter_process import AdapterProcess

Json = dict[str, Any]


def mark(attack: str) -> str:
    """The text of the prompt in which the model says what is scripted for the attack."""
    return f"<{attack}>"


def rejecting(asked: Json) -> Json | None:
    """Reject permissions and decline forms."""
    if asked["method"] == "session/request_permission":
        options = asked["params"]["options"]
        no = next(each for each in options if each["kind"] == "reject_once")
        return {"outcome": {"outcome": "selected", "optionId": no["optionId"]}}
    return {"action": "decline"}


class Attacked:
    """``with Attacked({"its name": steps}) as attacked``; at its end nothing is left.

    ``attacks`` is what the model says first to the prompt of each; all else it answers usually.
    """

    def __init__(self, attacks: Mapping[str, Iterable[Step]]) -> None:
        said = [
            ModelResponse(*steps, when=When(user_text=mark(name)))
            for name, steps in attacks.items()
        ]
        self._model = ScriptedModel([*said, ModelResponse(Text("Hello."), repeat=True)])
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        model = self._stack.enter_context(self._model)
        self.home = self._stack.enter_context(CodexHome(model.base_url))
        self.adapter = AdapterProcess(self.home.env)
        self.adapter.answer_with = rejecting
        try:
            self.adapter.initialize()
        except BaseException:
            self.__exit__(AssertionError)
            raise
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        with self._stack:
            try:
                if kind is None:
                    self.adapter.stop()
            finally:
                self.adapter.kill()

    def prompt(
        self,
        attack: str = "none",
        *,
        cwd: Path | None = None,
        servers: Mapping[str, ScriptedMcpServer] | None = None,
    ) -> Json:
        """The attack's prompt in a new session; its answer, an error or one with a stop reason."""
        given = [_given(name, server) for name, server in (servers or {}).items()]
        params = {"cwd": str(cwd or self.home.workspace), "mcpServers": given}
        session = self.adapter.ask("session/new", params)["result"]["sessionId"]
        blocks = [{"type": "text", "text": mark(attack)}]
        answer = self.adapter.ask("session/prompt", {"sessionId": session, "prompt": blocks})
        assert "error" in answer or answer["result"]["stopReason"], answer
        return answer

    def works(self) -> None:
        """All is answered, and a usual prompt works; the attack's sessions are closed then."""
        self.adapter.settle()
        self.adapter.works(self.home.workspace)
        while self.adapter.sessions:
            closed = self.adapter.ask("session/close", {"sessionId": self.adapter.sessions.pop()})
            assert "result" in closed, closed


def _given(name: str, server: ScriptedMcpServer) -> Json:
    """A server as a client gives it with a session."""
    command, *arguments = server.argv
    path = [{"name": "PYTHONPATH", "value": ":".join(sys.path)}]
    return {"name": name, "command": command, "args": arguments, "env": path}
