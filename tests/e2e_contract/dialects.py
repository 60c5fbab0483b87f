"""The client of a test in each version of ACP: what it does is the same, how it is said is not.

Owns every difference between the versions that a scenario meets, so that none of them says one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import TypeAdapter

from codex_acp.acp import ClientSide, types, v2
from codex_acp.errors import ErrorReply
from codex_acp.jsonrpc import REQUEST_CANCELLED
from codex_acp.transport.connection import Connection
from codex_acp.wire.codec import plain
from codex_acp.wire.model import WireModel
from tests.acp import tables, tables_v2
from tests.e2e_contract.asks import Asks, Option, Question

Json = dict[str, Any]

ANSWER_V1 = TypeAdapter[types.CreateElicitationResponse](types.CreateElicitationResponse)
ANSWER_V2 = TypeAdapter[v2.CreateElicitationResponse](v2.CreateElicitationResponse)

TOOL_CALLS = ("tool_call", "tool_call_update")
"""The updates that are about a tool call; the first of the two is in v1 only."""


class ContractClient(Protocol):
    """One version."""

    @property
    def side(self) -> ClientSide:
        """The connection to the adapter."""

    def take(self, session: str, update: Json) -> None:
        """An update has come."""

    async def initialize(self, elicits: bool) -> None:
        """The handshake; ``elicits``: it can show forms and open pages."""

    async def new_session(self, cwd: str, servers: Sequence[Json]) -> str:
        """A session; its id."""

    async def prompt(self, session: str, text: str) -> str:
        """A prompt to its end; the stop reason."""

    def cancel(self, session: str) -> None:
        """Cancel what runs."""

    def diffs(self, call: Json) -> dict[str, str]:
        """Path → new text, as far as a tool call's diffs show it."""


class _Client:
    """What both have: the tool calls as they stand, and the questions."""

    def __init__(self, asks: Asks) -> None:
        self.asks = asks
        self._calls: dict[str, dict[str, Json]] = {}

    def take(self, session: str, update: Json) -> None:
        """See `ContractClient`."""
        calls_of((update,), self._calls.setdefault(session, {}))

    def _call(self, session: str, call_id: str, patch: Json) -> Json:
        """A tool call with what a question says of it."""
        announced = self._calls.get(session, {}).get(call_id, {})
        return {**announced, **{name: value for name, value in patch.items() if value is not None}}


class InV1(_Client):
    """ACP v1: a prompt is answered when it is over, a permission is about a tool call."""

    def __init__(self, connection: Connection, asks: Asks) -> None:
        super().__init__(asks)
        requests, notifications = tables.client_requests(), tables.client_notifications()
        requests["session/request_permission"] = self._permission
        requests["elicitation/create"] = self._elicitation
        notifications["session/update"] = self._take
        notifications["$/cancel_request"] = lambda given: asks.withdraw(given.request_id)
        self.side = ClientSide(connection, requests, notifications)

    async def initialize(self, elicits: bool) -> None:
        """See `ContractClient`."""
        modes: Json = {"elicitation": {"form": {}, "url": {}}} if elicits else {}
        request = {"protocolVersion": 1, "clientCapabilities": modes}
        await self.side.initialize(types.InitializeRequest.model_validate(request))

    async def new_session(self, cwd: str, servers: Sequence[Json]) -> str:
        """See `ContractClient`."""
        params = {"cwd": cwd, "mcpServers": list(servers)}
        request = types.NewSessionRequest.model_validate(params)
        return (await self.side.session_new(request)).session_id

    async def prompt(self, session: str, text: str) -> str:
        """See `ContractClient`."""
        content = types.TextContentBlock(text=text)
        request = types.PromptRequest(session_id=session, prompt=[content])
        return (await self.side.session_prompt(request)).stop_reason

    def cancel(self, session: str) -> None:
        """See `ContractClient`."""
        self.side.session_cancel(types.CancelNotification(session_id=session))

    def diffs(self, call: Json) -> dict[str, str]:
        """See `ContractClient`."""
        return {p["path"]: p["newText"] for p in call["content"] if p["type"] == "diff"}

    def _take(self, given: types.SessionNotification) -> None:
        self.take(given.session_id, _json(given)["update"])

    async def _permission(
        self, request: types.RequestPermissionRequest
    ) -> types.RequestPermissionResponse:
        params = _json(request)
        given = params["toolCall"]
        session, call_id = params["sessionId"], given["toolCallId"]
        title = given.get("title", "")
        question = Question(
            session,
            call_id,
            title,
            [title, *_texts(given)],  # it stands alone: a client may show nothing else of it
            self._call(session, call_id, given),
            _options(params),
        )
        outcome = await self.asks.permission(question)
        return types.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def _elicitation(
        self, request: types.CreateElicitationRequest
    ) -> types.CreateElicitationResponse:
        return ANSWER_V1.validate_python(await self.asks.elicitation(_json(request)))


class InV2(_Client):
    """ACP v2: a prompt is over when its session is idle, a permission has a subject."""

    def __init__(self, connection: Connection, asks: Asks) -> None:
        super().__init__(asks)
        requests, notifications = tables_v2.client_requests(), tables_v2.client_notifications()
        requests["session/request_permission"] = self._permission
        requests["elicitation/create"] = self._elicitation
        notifications["session/update"] = self._take
        notifications["$/cancel_request"] = lambda given: asks.withdraw(given.request_id)
        handlers = v2.ClientHandlers(requests, notifications)
        self.side = ClientSide(connection, None, None, v2=handlers)
        self._ends: dict[str, list[str]] = {}
        """Session → why it became idle, each time."""
        self._news = asyncio.Event()

    async def initialize(self, elicits: bool) -> None:
        """See `ContractClient`."""
        modes: Json = {"elicitation": {"form": {}, "url": {}}} if elicits else {}
        request = {"protocolVersion": 2, "info": tables_v2.ME, "capabilities": modes}
        await self.side.negotiate(v2=v2.InitializeRequest.model_validate(request))

    async def new_session(self, cwd: str, servers: Sequence[Json]) -> str:
        """See `ContractClient`."""
        params = {"cwd": cwd, "mcpServers": [{"type": "stdio", **server} for server in servers]}
        request = v2.NewSessionRequest.model_validate(params)
        return (await self.side.v2.session_new(request)).session_id

    async def prompt(self, session: str, text: str) -> str:
        """See `ContractClient`."""
        ends = self._ends.setdefault(session, [])
        before = len(ends)
        request = v2.PromptRequest(session_id=session, prompt=[v2.TextContentBlock(text=text)])
        try:
            await self.side.v2.session_prompt(request)
        except ErrorReply as error:
            if error.code != REQUEST_CANCELLED:
                raise
            return "cancelled"  # before it had its place
        while len(ends) == before:
            await self._news.wait()
        return ends[before]

    def cancel(self, session: str) -> None:
        """See `ContractClient`."""
        self.side.v2.session_cancel(v2.CancelSessionNotification(session_id=session))

    def diffs(self, call: Json) -> dict[str, str]:
        """See `ContractClient`; the patch of one file follows the list of changes."""
        found: dict[str, str] = {}
        for part in call["content"]:
            if part["type"] == "diff":
                (change,) = part["changes"]
                lines = part["patch"]["text"].splitlines(keepends=True)
                new = [line[1:] for line in lines if line[0] in "+ " and line[:3] != "+++"]
                found[change["path"]] = "".join(new)
        return found

    def _take(self, given: v2.UpdateSessionNotification) -> None:
        update = _json(given)["update"]
        self.take(given.session_id, update)
        if update["sessionUpdate"] == "state_update" and "stopReason" in update:
            self._ends.setdefault(given.session_id, []).append(update["stopReason"])
            self._news.set()
            self._news = asyncio.Event()

    async def _permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        params = _json(request)
        subject, session = params["subject"], params["sessionId"]
        given: Json = subject.get("toolCall", {})
        call_id = subject.get("toolCallId") or given["toolCallId"]
        seen = self._call(session, call_id, given)
        texts = [params["title"], *filter(None, [params.get("description")]), *_texts(seen)]
        question = Question(session, call_id, params["title"], texts, seen, _options(params))
        outcome = await self.asks.permission(question)
        return v2.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def _elicitation(
        self, request: v2.CreateElicitationRequest
    ) -> v2.CreateElicitationResponse:
        return ANSWER_V2.validate_python(await self.asks.elicitation(_json(request)))


def calls_of(updates: Sequence[Json], calls: dict[str, Json] | None = None) -> dict[str, Json]:
    """The tool calls as a client puts them together: a field that is given replaces."""
    found = {} if calls is None else calls
    for update in updates:
        if update["sessionUpdate"] in TOOL_CALLS:
            found.setdefault(update["toolCallId"], {}).update(update)
    return found


def _options(params: Json) -> list[Option]:
    return [Option(o["optionId"], o["name"], o["kind"]) for o in params["options"]]


def _texts(call: Json) -> list[str]:
    parts = [part.get("content") or {} for part in call.get("content") or ()]
    return [part["text"] for part in parts if part.get("type") == "text"]


def _json(model: WireModel) -> Json:
    made = plain(model)
    assert isinstance(made, dict)
    return made
