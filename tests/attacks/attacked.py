"""The command with the real Codex, an attacker behind it, and a client that always says no."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.fuzz.adapter_process import AdapterProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.testing import ScriptedMcpServer, Step

Json = dict[str, Any]

AFTERWARDS = 4
"""Usual answers of the model behind the attack: for its end, and for the prompt that must work."""


def rejecting(asked: Json) -> Json | None:
    """Reject permissions and decline forms."""
    if asked["method"] == "session/request_permission":
        options = asked["params"]["options"]
        no = next(each for each in options if each["kind"] == "reject_once")
        return {"outcome": {"outcome": "selected", "optionId": no["optionId"]}}
    return {"action": "decline"}


class Attacked:
    """``with Attacked([[steps]]) as attacked``; at its end all works and nothing is left.

    ``answers`` are the model's responses in order; usual ones follow.
    """

    def __init__(
        self,
        answers: Sequence[Sequence[Step]] = (),
        servers: dict[str, ScriptedMcpServer] | None = None,
        **home: Any,
    ) -> None:
        usual = [[Text("Hello.")]] * AFTERWARDS
        self._model = ScriptedModel([*answers, *usual])
        self._servers = servers or {}
        self._settings = home
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        model = self._stack.enter_context(self._model)
        tables = {name: server.config for name, server in self._servers.items()}
        self.home = self._stack.enter_context(
            CodexHome(model.base_url, mcp_servers=tables, **self._settings)
        )
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
                    self.adapter.settle()
                    self.adapter.works(self.home.workspace)
                    self.adapter.stop()
            finally:
                self.adapter.kill()

    def prompt(self, text: str = "Go.") -> Json:
        """A prompt in a new session; its answer, which is an error or has a stop reason."""
        opened = self.adapter.ask(
            "session/new", {"cwd": str(self.home.workspace), "mcpServers": []}
        )
        session = opened["result"]["sessionId"]
        blocks = [{"type": "text", "text": text}]
        answer = self.adapter.ask("session/prompt", {"sessionId": session, "prompt": blocks})
        assert "error" in answer or answer["result"]["stopReason"], answer
        return answer
