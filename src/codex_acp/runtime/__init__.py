"""Run any ACP agent from Python: start it, open sessions, send prompts, answer its questions.

::

    async with AgentRuntime() as runtime, runtime.open("codex", cwd=".") as session:
        result = await session.run("What is in this directory?")
        print(result.text, result.stop_reason)

`AgentRuntime` starts and ends agents. A `Session` is a conversation with an agent. A `Prompt` is an
async iterator of a prompt's updates, whose classes are in `codex_acp.acp.types`. POSIX only.

Each name loads its module at its first use, so importing this package loads neither models nor
pydantic nor anyio.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "agent_session": "Choice ConfigOptions Opened Setting",
        "agent_spec": "AgentSpec",
        "errors": (
            "AgentLaunchError AgentStartError AnswerTimeout AnswerTooLarge "
            "AuthenticationRequired CrashLoop MethodNotOffered OptionNotOffered SessionBusy "
            "SessionClosed StoreError"
        ),
        "filesystem": "FileAccess",
        "manager": "AgentDescription AgentRuntime",
        "permissions": (
            "Form FormAnswer Permission PermissionPolicy UrlAnswer UrlRequest allow_kinds "
            "problems_of reject_all"
        ),
        "prompt": "Prompt",
        "results": "PromptResult ToolCall Update kind_of",
        "session": "Session",
        "session_store": "SessionStore StoredSession",
        "terminals": "TerminalAccess",
        "codex_acp.transport.restart_limit": "RestartLimit",
    },
)
