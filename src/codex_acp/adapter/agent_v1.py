"""The ACP agent's methods and answers for a client of v1.

`agent.AgentMethods` carries them out. The first ``initialize`` and ``session/new`` are answered,
and the first prompt begins, before generated models are loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.acp.dialects import AnyHandlers
from codex_acp.adapter.agent import CommonMethods
from codex_acp.adapter.sessions.opener import Setup
from codex_acp.jsonrpc import encode_json
from codex_acp.mapping.agent import fits_schema, initialize_result
from codex_acp.mapping.session_setup import simple_thread_params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v1.handlers import AgentRequestHandlers
    from codex_acp.acp.dialects import ExtensionHandler, QuickAnswer
    from codex_acp.adapter.prompts.early_turn import BeginEarly
    from codex_acp.adapter.session_client import Json
    from codex_acp.jsonrpc import EncodedJson, JsonValue
    from codex_acp.mapping.content import TextBlock

VERSION: Final = 1


class AgentInV1(CommonMethods):
    """The methods of `agent.AgentMethods` in version 1."""

    _models = MODELS
    _fits_schema = staticmethod(fits_schema)

    def handlers(self, extensions: Mapping[str, ExtensionHandler]) -> AnyHandlers:
        tables = (self.requests(), self.notifications(), self.unstable())
        return AnyHandlers(*tables, quick=self.quick(), extensions=extensions)

    def requests(self) -> AgentRequestHandlers:
        """Return a handler for each method; None: not offered."""
        agent, row = self._agent, self._row
        return {
            "initialize": self.initialize,
            "authenticate": self.login_handler("Authenticate"),
            "logout": self.logout_handler("Logout"),
            "session/new": self.new_session,
            "session/load": row("LoadSession", agent.load_session),
            "session/list": row("ListSessions", agent.list_sessions),
            "session/delete": row("DeleteSession", lambda r: agent.delete_session(r.session_id)),
            "session/resume": row("ResumeSession", agent.resume_session),
            "session/close": row("CloseSession", lambda r: agent.close_session(r.session_id)),
            "session/set_mode": row(
                "SetSessionMode",
                lambda r: agent.agent_of(r.session_id).set_mode(r.session_id, r.mode_id),
            ),
            "session/set_config_option": self.set_config_option,
            "session/prompt": self.prompt,
        }

    # The connection.

    def _introduce(self, params: Json) -> Json:
        login_ways = self._agent.introduce(params, VERSION)
        return initialize_result(params, login_ways, self._agent.capability_meta)

    # Sessions.

    def _quick_new_session(self, params: JsonValue) -> QuickAnswer | None:
        thread = simple_thread_params(params)
        if thread is None:
            return None

        async def answer() -> EncodedJson:
            return encode_json(await self._quick_agent.start(Setup(thread)))

        return answer

    async def set_config_option(self, request: v1.SetSessionConfigOptionRequest) -> Any:
        from codex_acp.mapping.options import option_json

        session_id, config_id = request.session_id, request.config_id
        agent = self._agent.agent_of(session_id)
        options = await agent.set_config_option(session_id, config_id, request.value)
        return self._answer(
            "SetSessionConfigOption", {"configOptions": [*map(option_json, options)]}
        )

    # Prompts.

    async def prompt(self, request: v1.PromptRequest) -> v1.PromptResponse:
        """Run a prompt with `Session.prompt`; answer with its end."""
        from codex_acp.mapping.content import blocks_of
        from codex_acp.mapping.v1.updates import prompt_response

        result = await self._agent.run_prompt(request.session_id, blocks_of(request.prompt))
        return prompt_response(result.stop, result.usage)

    async def _answer_prompt(
        self, session_id: str, message: Sequence[TextBlock], begin: BeginEarly
    ) -> EncodedJson:
        early = await begin(None)  # version 1 does not answer when Codex has taken the message
        from codex_acp.mapping.v1.updates import prompt_response  # loaded while the turn runs
        from codex_acp.wire.codec import encode

        result = await self._quick_agent.run_prompt(session_id, message, early=early)
        return encode(prompt_response(result.stop, result.usage))
