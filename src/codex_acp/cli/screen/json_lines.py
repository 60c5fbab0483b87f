"""Writes the output of ``codex-acp-sdk run --json``: one JSON object a line, for programs.

Owns the form of the lines, which the command's help documents. ASCII only: safe on any terminal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codex_acp.cli.screen.output import put
from codex_acp.errors import ErrorReply, ProcessExited
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from codex_acp.runtime import Permission, PromptResult, Session, ToolCall, Update


class JsonOutput:
    """Writes to ``out`` at once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._session_id: str | None = None

    def session(self, session: Session) -> None:
        """The session is open."""
        self._session_id = session.session_id
        self._line(
            "session",
            sessionId=session.session_id,
            agent=session.agent,
            agentInfo=plain(session.agent_info),
            opened=session.opened.how,
            reason=session.opened.reason,
        )

    def update(self, update: Update, calls: Mapping[str, ToolCall]) -> None:
        """An update, as it came."""
        del calls
        self._line("update", sessionId=self._session_id, update=plain(update))

    def asked(self, permission: Permission, chosen: str | None, policy: str | None) -> None:
        """Tell that a permission request was answered: by ``policy``, or because nobody can be."""
        self._line(
            "permission",
            sessionId=permission.session_id,
            request=plain(permission.request),
            optionId=chosen,
            by="nobody" if policy is None else "policy",
            policy=policy,
        )

    def result(self, session: Session, result: PromptResult) -> None:
        """The prompt has ended."""
        self._line(
            "result", sessionId=session.session_id, stopReason=result.stop_reason, text=result.text
        )

    def error(self, error: Exception) -> None:
        """It went wrong."""
        detail: dict[str, object] = {"class": type(error).__name__, "message": str(error)}
        if isinstance(error, ErrorReply):
            detail |= {"code": error.code, "data": error.data}
        elif isinstance(error, ProcessExited):
            detail |= {"exitCode": error.returncode, "stderr": error.stderr_tail}
        self._line("error", error=detail)

    def _line(self, kind: str, **members: object) -> None:
        put(self._out, json.dumps({"type": kind, **members}, default=str) + "\n")
