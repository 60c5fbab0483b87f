"""Run any ACP agent from Python: start it, open sessions, send prompts, answer its questions.

::

    async with AgentRuntime() as runtime, runtime.open("codex", cwd=".") as session:
        result = await session.run("What is in this directory?")
        print(result.text, result.stop_reason)

`AgentRuntime` starts and ends agents, `Session` is a conversation with an agent, `Prompt` an async
iterator of the updates of a prompt. The updates' classes are in `codex_acp.acp.types`. POSIX only.

Each name loads its module at its first use: importing this package loads no model, pydantic or
anyio.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

TYPE_CHECKING = False  # without importing typing, which takes time
if TYPE_CHECKING:
    from codex_acp.runtime.agent_session import Choice as Choice
    from codex_acp.runtime.agent_session import ConfigOptions as ConfigOptions
    from codex_acp.runtime.agent_session import Opened as Opened
    from codex_acp.runtime.agent_session import Setting as Setting
    from codex_acp.runtime.agent_spec import AgentSpec as AgentSpec
    from codex_acp.runtime.errors import AgentLaunchError as AgentLaunchError
    from codex_acp.runtime.errors import AgentStartError as AgentStartError
    from codex_acp.runtime.errors import AnswerTimeout as AnswerTimeout
    from codex_acp.runtime.errors import AnswerTooLarge as AnswerTooLarge
    from codex_acp.runtime.errors import AuthenticationRequired as AuthenticationRequired
    from codex_acp.runtime.errors import CrashLoop as CrashLoop
    from codex_acp.runtime.errors import MethodNotOffered as MethodNotOffered
    from codex_acp.runtime.errors import OptionNotOffered as OptionNotOffered
    from codex_acp.runtime.errors import SessionBusy as SessionBusy
    from codex_acp.runtime.errors import SessionClosed as SessionClosed
    from codex_acp.runtime.errors import StoreError as StoreError
    from codex_acp.runtime.filesystem import FileAccess as FileAccess
    from codex_acp.runtime.manager import AgentDescription as AgentDescription
    from codex_acp.runtime.manager import AgentRuntime as AgentRuntime
    from codex_acp.runtime.permissions import Form as Form
    from codex_acp.runtime.permissions import FormAnswer as FormAnswer
    from codex_acp.runtime.permissions import Permission as Permission
    from codex_acp.runtime.permissions import PermissionPolicy as PermissionPolicy
    from codex_acp.runtime.permissions import UrlAnswer as UrlAnswer
    from codex_acp.runtime.permissions import UrlRequest as UrlRequest
    from codex_acp.runtime.permissions import allow_kinds as allow_kinds
    from codex_acp.runtime.permissions import problems_of as problems_of
    from codex_acp.runtime.permissions import reject_all as reject_all
    from codex_acp.runtime.prompt import Prompt as Prompt
    from codex_acp.runtime.results import PromptResult as PromptResult
    from codex_acp.runtime.results import ToolCall as ToolCall
    from codex_acp.runtime.results import Update as Update
    from codex_acp.runtime.results import kind_of as kind_of
    from codex_acp.runtime.session import Session as Session
    from codex_acp.runtime.session_store import SessionStore as SessionStore
    from codex_acp.runtime.session_store import StoredSession as StoredSession
    from codex_acp.runtime.terminals import TerminalAccess as TerminalAccess
    from codex_acp.transport.restart_limit import RestartLimit as RestartLimit
else:
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
