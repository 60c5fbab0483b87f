"""One home, one adapter and one session under a client of either version, in plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Self

from codex_acp.testing import ModelResponse, Step
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench, updates_of
from tests.e2e.v2_bench import INFO


class EitherVersion:
    """``with EitherVersion(version, script) as it:``; the other arguments are the home's, the
    environment's and the command's.
    """

    def __init__(
        self,
        version: int,
        script: Iterable[ModelResponse | Iterable[Step]] = (),
        *,
        env: Mapping[str, str] | None = None,
        args: tuple[str, ...] = (),
        capabilities: Mapping[str, Any] | None = None,
        **home: Any,
    ) -> None:
        self.version = version
        self._bench = SessionBench(script, **home)
        self._env = env or {}
        self._args = args
        self._capabilities = dict(capabilities or {})
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            bench = stack.enter_context(self._bench)
            self.model, self.home = bench.model, bench.home
            env = {**bench.home.env, **self._env}
            self.adapter = stack.enter_context(RawAdapter(env, *self._args))
            can = {"clientCapabilities": self._capabilities, "capabilities": self._capabilities}
            params = {"protocolVersion": self.version, "info": INFO, "clientInfo": INFO, **can}
            self.introduction: Message = self.adapter.ask("initialize", params)["result"]
            assert self.introduction["protocolVersion"] == self.version
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *ended: object) -> None:
        self._stack.__exit__(*ended)  # type: ignore[arg-type] # passed on as they came

    def new(self) -> str:
        """``session/new`` in the workspace; the session's id."""
        return self.adapter.new_session(self.home.workspace)

    def prompt(self, session: str, text: str) -> str:
        """A prompt to its end; what the agent said in it. Fails if it is refused."""
        before = len(self.adapter.messages)
        answer = self.adapter.answer(self.adapter.start_prompt(session, text))
        assert "result" in answer, answer
        if self.version == 2:
            self.adapter.wait_for(_is_idle)
        return self.said(session, before)

    def refused(self, session: str, text: str) -> Message:
        """A prompt that is refused: its error; in v2 that of the state, if it had its place."""
        answer = self.adapter.answer(self.adapter.start_prompt(session, text))
        if self.version == 2 and "result" in answer:
            answer = self.adapter.wait_for(_is_idle)["params"]["update"]
        assert "error" in answer, answer
        error: Message = answer["error"]
        return error

    def updates(self, session: str, kind: str) -> list[Message]:
        """The updates of one kind, so far."""
        return self.adapter.updates(kind, session)

    def said(self, session: str, since: int = 0) -> str:
        """What the agent has said in a session."""
        updates = updates_of(self.adapter.messages[since:], session)
        chunks = [u for u in updates if u["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    def until(self, session: str, kind: str, **fields: object) -> Message:
        """See `RawAdapter.until`."""
        return self.adapter.until(kind, session, **fields)


def _is_idle(message: Message) -> bool:
    update = message.get("params", {}).get("update", {}) if "method" in message else {}
    return update.get("sessionUpdate") == "state_update" and update.get("state") == "idle"
