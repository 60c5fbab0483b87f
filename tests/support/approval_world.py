"""Three concurrent server requests on real connections in memory, and an oracle beside them.

The Codex side and the client side speak raw JSON; between them run the real `AppServerConnection`,
`RequestIntake`, `ServerRequestRunner`, ledger and `AgentSide`. The oracle knows only what was sent.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, cast

from codex_acp.acp.agent_side import AgentSide
from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.acp.side import acp_connection
from codex_acp.acp.types import InitializeRequest, InitializeResponse
from codex_acp.adapter.questioner import ConnectionQuestioner
from codex_acp.adapter.server.request_intake import RequestIntake
from codex_acp.adapter.server_requests import ServerRequestRunner
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.errors import TransportError
from codex_acp.mapping.events import tool_call_id
from codex_acp.routing.route import RoutingContext
from codex_acp.transcript.log import Transcript
from codex_acp.transport.link import MemoryLink, memory_pair

THREAD: Final = "thread"
SETTLE_STEPS: Final = 14
"""Iterations of the loop from a byte of Codex to a byte at the client, with room to spare."""

Json = dict[str, Any]


async def settle() -> None:
    for _ in range(SETTLE_STEPS):
        await asyncio.sleep(0)


class RawEnd:
    """One end of a memory link that reads and writes JSON lines."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link
        self.received: list[Json] = []
        self._rest = b""
        link.start(self)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.received += [json.loads(line) for line in lines if line]

    def link_closed(self, error: TransportError | None) -> None:
        del error

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def send(self, message: Json) -> None:
        self.link.write(json.dumps(message).encode() + b"\n")

    def take(self) -> list[Json]:
        taken, self.received = self.received, []
        return taken


class QuietSession:
    """A session that shows nothing, and notes the order of what it was told."""

    roots = ()

    def __init__(self) -> None:
        self.announced: set[str] = set()
        self.thread = self

    async def wait_shown(self) -> None:
        """Nothing is read for it."""

    async def look(self, wanted: Any) -> Any:
        """Nothing is looked at."""
        del wanted
        return {}

    def may_ask(self, thread_id: str, turn_id: str | None) -> bool:
        del thread_id, turn_id
        return True

    def announce_tool_call(self, call: Any) -> None:
        self.announced.add(call.id)

    def show_settled(self, tool_call_id: str, *, accepted: bool) -> None:
        assert tool_call_id in self.announced or not accepted

    def tool_call_ended(self, tool_call_id: str, *, ended_well: bool) -> None:
        assert tool_call_id in self.announced or not ended_well

    def waiting_for_person(
        self, thread_id: str, turn_id: str | None
    ) -> AbstractContextManager[None]:
        del thread_id, turn_id
        return nullcontext()

    def say(self, text: str) -> None:
        assert text


@dataclass
class Asked:
    """One server request as the test sent it, and what has happened to it since."""

    codex_id: int
    kind: str
    item_id: str
    turn_id: str
    sent: Json = field(default_factory=dict)
    """The request as it was sent."""
    dialog: Json | None = None
    """The client's request for it, once it came."""
    may_accept: bool = True
    """False as soon as anything happened after which contract 3.2 forbids to accept."""
    accepting_answer: bool = False
    """The client gave a valid accepting answer while that was allowed."""
    answered: bool = False
    replies: list[Json] = field(default_factory=list)


class World:
    """Codex on one side, a client on the other."""

    def __init__(self) -> None:
        codex_link, codex_end = memory_pair()
        client_link, client_end = memory_pair()
        self.codex, self.client = RawEnd(codex_end), RawEnd(client_end)
        self.session = QuietSession()
        self.transcript = Transcript()
        self._codex_client = AppServerConnection(codex_link)
        requests = dict.fromkeys(
            ("authenticate", "logout", "session/new", "session/load", "session/list",
             "session/delete", "session/resume", "session/close", "session/set_mode",
             "session/set_config_option", "session/prompt")
        )  # fmt: skip
        table = {"initialize": self._initialize, **requests}
        self._side = AgentSide(
            acp_connection(client_link, name="client"),
            cast("Any", table),
            {"session/cancel": None, "$/cancel_request": None},
        )
        self.events = RequestIntake(
            self._codex_client,
            lambda items: ServerRequestRunner(
                self._codex_client,
                lambda _: ConnectionQuestioner(self._side, 1),
                1,
                items,
                lambda _: RoutingContext(
                    items, ClientFeatures(elicitation_form=True, elicitation_url=True), {THREAD}
                ),
                lambda name: cast("Any", self.session) if name == THREAD else None,
                self.transcript,
                lambda thread_id, turn_id: self.interrupted.append((thread_id, turn_id)),
            ),
            lambda thread_id, turn_id: self.interrupted.append((thread_id, turn_id)),
        )
        self.interrupted: list[tuple[str, str]] = []
        self._next_id = 0
        self._forbidden: list[Asked] = []
        self.asked: list[Asked] = []

    @staticmethod
    async def _initialize(request: InitializeRequest) -> InitializeResponse:
        return InitializeResponse(protocol_version=request.protocol_version)

    async def __aenter__(self) -> World:
        start = asyncio.ensure_future(self._codex_client.connect())
        await settle()
        (hello,) = self.codex.take()
        self.codex.send(
            {"id": hello["id"], "result": {"codexHome": "/h", "platformFamily": "unix",
             "platformOs": "linux", "userAgent": "scripted"}}
        )  # fmt: skip
        await start
        await self._side.__aenter__()
        self.client.send(
            {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {"protocolVersion": 1}}
        )
        await settle()
        self.codex.take()
        self.client.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._codex_client.aclose()
        await self._side.aclose()
        await self._side.__aexit__(None, None, None)

    # What Codex does.

    def notify(self, method: str, params: Json) -> None:
        self.codex.send({"method": method, "params": params})

    def begin(self, turn_id: str) -> None:
        """A turn with a file change and two MCP calls in progress."""
        self.asked = []
        self.turn_over = self.must_interrupt = False
        self.interrupted.clear()
        self.turn_id = turn_id
        turn = {"id": turn_id, "items": [], "status": "inProgress"}
        self.notify("turn/started", {"threadId": THREAD, "turn": turn})
        self.start_item(
            {"type": "fileChange", "id": f"{turn_id}-f", "status": "inProgress",
             "changes": [{"path": "/w/a", "kind": {"type": "add"}, "diff": "one\n"}]}
        )  # fmt: skip
        for name in ("m", "n"):
            self.start_item(
                {"type": "mcpToolCall", "id": f"{turn_id}-{name}", "server": "notes",
                 "tool": "write", "arguments": {"text": name}, "status": "inProgress"}
            )  # fmt: skip

    def start_item(self, item: Json) -> None:
        self.notify(
            "item/started",
            {"threadId": THREAD, "turnId": self.turn_id, "item": item, "startedAtMs": 1},
        )

    def ask(self, kind: str, *, send: bool = True) -> Asked:
        """A server request; an accepting answer to it is known by `accepts`."""
        item = {"file": "f", "tool_m": "m", "tool_n": "n"}.get(kind, "c")
        asked = Asked(self._next_id, kind, f"{self.turn_id}-{item}", self.turn_id)
        self._next_id += 1
        base = {"threadId": THREAD, "turnId": self.turn_id}
        item_of = {**base, "itemId": asked.item_id, "startedAtMs": 1}
        method, params = _REQUESTS[kind](base, item_of, asked)
        self.asked.append(asked)
        asked.sent = {"id": asked.codex_id, "method": method, "params": params}
        if send:
            self.codex.send(asked.sent)
        return asked

    def collide(self, asked: Asked) -> None:
        """A second request about the same item, which Codex could take for the first."""
        twin = Asked(self._next_id, "twin", asked.item_id, asked.turn_id, may_accept=False)
        self._next_id += 1
        twin.sent = {**asked.sent, "id": twin.codex_id}
        self.asked.append(twin)
        self.codex.send(twin.sent)
        self.forbid([asked], on_arrival=True)
        if any(accepts(reply) for reply in asked.replies) and not self.turn_over:
            self.must_interrupt = True

    def end_turn(self, status: str = "completed") -> None:
        self.turn_over = True
        turn = {"id": self.turn_id, "items": [], "status": status}
        self.notify("turn/completed", {"threadId": THREAD, "turn": turn})
        self.forbid(self.asked, on_arrival=True)

    # What the oracle knows.

    def forbid(self, asked: list[Asked], *, on_arrival: bool = False) -> None:
        """From now on these may not be accepted; ``on_arrival``: once what was sent has arrived.

        Until then an answer of the client, which travels on another link, may still win.
        """
        if on_arrival:
            self._forbidden += asked
            return
        for one in asked:
            if not one.answered:
                one.may_accept = False

    def is_open(self, asked: Asked) -> bool:
        """Whether nothing has happened, or is under way, that settles it."""
        free = asked.answered or not asked.may_accept or asked in self._forbidden
        return not free and not asked.replies

    def collect(self) -> None:
        """All has arrived. Sort what came out: dialogs to their requests, replies to theirs."""
        forbidden, self._forbidden = self._forbidden, []
        self.forbid(forbidden)
        by_id = {one.codex_id: one for one in self.asked}
        for reply in self.codex.take():
            if "method" not in reply:
                by_id[reply["id"]].replies.append(reply)
        for message in self.client.take():
            if message.get("method") in ("session/request_permission", "elicitation/create"):
                one = self._asked_by(message)
                assert one.dialog is None, "asked twice"
                one.dialog = message

    def _asked_by(self, message: Json) -> Asked:
        params = message["params"]
        if message["method"] == "elicitation/create":
            kind = params["mode"]
            marker = params["message"]
            (one,) = [a for a in self.asked if a.kind == kind and f"#{a.codex_id}#" in marker]
            return one
        call = params["toolCall"]["toolCallId"]
        (one,) = [a for a in self.asked if _call_id(a) == call and a.kind != "twin"]
        return one


def _call_id(asked: Asked) -> str:
    if asked.kind == "command":
        return tool_call_id(asked.item_id, f"approval-{asked.codex_id}")
    return asked.item_id


def _command(_base: Json, item_of: Json, asked: Asked) -> tuple[str, Json]:
    return "item/commandExecution/requestApproval", {
        **item_of, "approvalId": f"approval-{asked.codex_id}", "command": f"echo {asked.codex_id}",
        "availableDecisions": ["accept", "acceptForSession", "cancel"],
    }  # fmt: skip


def _file(_base: Json, item_of: Json, _asked: Asked) -> tuple[str, Json]:
    return "item/fileChange/requestApproval", item_of


def _tool(base: Json, _item_of: Json, asked: Asked) -> tuple[str, Json]:
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_params": {"text": asked.kind[-1]},
            "persist": ["session", "always"]}  # fmt: skip
    return "mcpServer/elicitation/request", {
        **base, "serverName": "notes", "mode": "form", "message": "Allow?", "_meta": meta,
        "requestedSchema": {"type": "object", "properties": {}},
    }  # fmt: skip


def _form(base: Json, _item_of: Json, asked: Asked) -> tuple[str, Json]:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return "mcpServer/elicitation/request", {
        **base, "serverName": "notes", "mode": "form", "message": f"#{asked.codex_id}#",
        "_meta": None, "requestedSchema": schema,
    }  # fmt: skip


def _url(base: Json, _item_of: Json, asked: Asked) -> tuple[str, Json]:
    return "mcpServer/elicitation/request", {
        **base, "serverName": "notes", "mode": "url", "message": f"#{asked.codex_id}#",
        "_meta": None, "url": "https://example.org/x", "elicitationId": "same",
    }  # fmt: skip


_REQUESTS: Final = {
    "command": _command, "file": _file, "tool_m": _tool, "tool_n": _tool, "form": _form,
    "url": _url,
}  # fmt: skip

KINDS: Final = tuple(_REQUESTS)
APPROVALS: Final = ("command", "file", "tool_m", "tool_n")


def accepts(reply: Json) -> bool:
    """Whether a reply to Codex lets the action run, or passes an answer on."""
    result = reply.get("result")
    if not isinstance(result, dict):
        return False
    if "decision" in result:
        return result["decision"] not in ("decline", "cancel")
    return bool(result.get("action") == "accept")
