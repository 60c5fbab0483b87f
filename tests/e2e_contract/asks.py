"""What the client was asked, for a test to answer when and how it likes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio

from codex_acp.acp.types import (
    AcceptCreateElicitationResponse,
    CancelCreateElicitationResponse,
    CancelledRequestPermissionOutcome,
    DeclineCreateElicitationResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedRequestPermissionOutcome,
    SessionFormCreateElicitationRequest,
    SessionUrlCreateElicitationRequest,
)

if TYPE_CHECKING:
    from codex_acp.acp.types import (
        CreateElicitationRequest,
        CreateElicitationResponse,
        PermissionOption,
        PermissionOptionKind,
    )
    from codex_acp.errors import RpcError
    from codex_acp.jsonrpc.message import RequestId

__all__ = ["Asks", "Elicited", "Permission"]

WAIT = 40.0
"""Seconds; on a busy machine a turn takes a few."""


class Permission:
    """One ``session/request_permission``, which waits for the test's answer."""

    def __init__(self, request: RequestPermissionRequest) -> None:
        self.request = request
        self.answer: asyncio.Future[RequestPermissionResponse] = (
            asyncio.get_running_loop().create_future()
        )

    @property
    def title(self) -> str:
        """The title of the tool call."""
        return self.request.tool_call.title or ""

    @property
    def call(self) -> str:
        """The id of the tool call."""
        return self.request.tool_call.tool_call_id

    @property
    def kinds(self) -> list[PermissionOptionKind]:
        """The kinds of the options, in order."""
        return [option.kind for option in self.request.options]

    def option(self, kind: PermissionOptionKind, words: str = "") -> PermissionOption:
        """The first option of this kind whose name holds ``words``."""
        found = [o for o in self.request.options if o.kind == kind and words in o.name]
        assert found, [(o.kind, o.name) for o in self.request.options]
        return found[0]

    def choose(self, kind: PermissionOptionKind, words: str = "") -> None:
        """Answer with an option."""
        self.choose_id(self.option(kind, words).option_id)

    def choose_id(self, option_id: str) -> None:
        """Answer with an option's id, offered or not."""
        outcome = SelectedRequestPermissionOutcome(option_id=option_id)
        self.answer.set_result(RequestPermissionResponse(outcome=outcome))

    def dismiss(self) -> None:
        """Answer with the outcome ``cancelled``."""
        outcome = CancelledRequestPermissionOutcome()
        self.answer.set_result(RequestPermissionResponse(outcome=outcome))

    def fail(self, error: RpcError) -> None:
        """Answer with an error."""
        self.answer.set_exception(error)


class Elicited:
    """One ``elicitation/create``, which waits for the test's answer."""

    def __init__(self, request: CreateElicitationRequest) -> None:
        self.request = request
        self.answer: asyncio.Future[CreateElicitationResponse] = (
            asyncio.get_running_loop().create_future()
        )

    @property
    def form(self) -> SessionFormCreateElicitationRequest:
        """The request, which must be a form."""
        assert isinstance(self.request, SessionFormCreateElicitationRequest), self.request
        return self.request

    @property
    def url(self) -> SessionUrlCreateElicitationRequest:
        """The request, which must be a page to open."""
        assert isinstance(self.request, SessionUrlCreateElicitationRequest), self.request
        return self.request

    def accept(self, content: dict[str, object] | None = None) -> None:
        """Answer with action ``accept``."""
        self.answer.set_result(AcceptCreateElicitationResponse(content=content))

    def decline(self) -> None:
        """Answer with action ``decline``."""
        self.answer.set_result(DeclineCreateElicitationResponse())

    def cancel(self) -> None:
        """Answer with action ``cancel``."""
        self.answer.set_result(CancelCreateElicitationResponse())


_Ask: TypeAlias = Permission | Elicited
_T = TypeVar("_T")


class Asks:
    """The handlers of the client's two questions, and the queue of what was asked.

    With ``stubborn`` the client answers also what was withdrawn, as soon as the test does.
    """

    def __init__(self) -> None:
        self.stubborn = False
        self.withdrawn: list[RequestId] = []
        """Ids of the requests that the agent gave up, by ``$/cancel_request``."""
        self._queue: asyncio.Queue[_Ask] = asyncio.Queue()
        self._open: list[_Ask] = []

    @property
    def unseen(self) -> int:
        """How many questions no test has looked at."""
        return self._queue.qsize()

    async def permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        """The handler of ``session/request_permission``."""
        ask = Permission(request)
        self._open.append(ask)
        self._queue.put_nowait(ask)
        return await self._answer(ask.answer)

    async def elicitation(self, request: CreateElicitationRequest) -> CreateElicitationResponse:
        """The handler of ``elicitation/create``."""
        ask = Elicited(request)
        self._open.append(ask)
        self._queue.put_nowait(ask)
        return await self._answer(ask.answer)

    def give_up(self) -> None:
        """Nothing is answered any more: also a stubborn client ends."""
        for ask in self._open:
            ask.answer.cancel()

    async def next_permission(self) -> Permission:
        """The next question, which must be a permission request."""
        ask = await self._next()
        assert isinstance(ask, Permission), ask.request
        return ask

    async def next_elicitation(self) -> Elicited:
        """The next question, which must be an elicitation."""
        ask = await self._next()
        assert isinstance(ask, Elicited), ask.request
        return ask

    async def _answer(self, answer: asyncio.Future[_T]) -> _T:
        with anyio.CancelScope(shield=self.stubborn):
            await asyncio.wait({answer})
        return answer.result()

    async def next_both(self) -> tuple[Permission, Elicited]:
        """The next two questions: one of each kind, in whichever order they come."""
        one, other = await self._next(), await self._next()
        if isinstance(one, Elicited):
            one, other = other, one
        assert isinstance(one, Permission)
        assert isinstance(other, Elicited)
        return one, other

    async def _next(self) -> _Ask:
        with anyio.fail_after(WAIT):
            return await self._queue.get()
