"""The two questions that a client of ACP is asked, alike in every version of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import anyio

from codex_acp.errors import RpcError
from codex_acp.jsonrpc import RequestId

WAIT = 40.0
"""Seconds; on a busy machine a turn takes a few."""

Json = dict[str, Any]


class Option(NamedTuple):
    """One thing that can be chosen."""

    option_id: str
    name: str
    kind: str


class Question(NamedTuple):
    """What a version of ACP makes of ``session/request_permission``."""

    session: str
    call: str
    """The id of the tool call."""
    title: str
    texts: list[str]
    """What a person reads of it: the title first, then why, and what the tool call shows."""
    seen: Json
    """The tool call as the client has it now: announced, and patched by this request."""
    options: list[Option]


class Permission:
    """One ``session/request_permission``, which waits for the test's answer."""

    def __init__(self, question: Question) -> None:
        self.session = question.session
        self.call = question.call
        self.title = question.title
        self.texts = question.texts
        self.seen = question.seen
        self.options = question.options
        self.answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

    @property
    def kinds(self) -> list[str]:
        """The kinds of the options, in order."""
        return [option.kind for option in self.options]

    @property
    def raw_input(self) -> Json:
        """The arguments of the tool call."""
        raw = self.seen["rawInput"]
        assert isinstance(raw, dict)
        return raw

    def option(self, kind: str, words: str = "") -> Option:
        """The first option of this kind whose name holds ``words``."""
        found = [o for o in self.options if o.kind == kind and words in o.name]
        assert found, self.options
        return found[0]

    def choose(self, kind: str, words: str = "") -> None:
        """Answer with an option."""
        self.choose_id(self.option(kind, words).option_id)

    def choose_id(self, option_id: str) -> None:
        """Answer with an option's id, offered or not."""
        self.answer.set_result({"outcome": "selected", "optionId": option_id})

    def dismiss(self) -> None:
        """Answer with the outcome ``cancelled``."""
        self.answer.set_result({"outcome": "cancelled"})

    def fail(self, error: RpcError) -> None:
        """Answer with an error."""
        self.answer.set_exception(error)


class Elicited:
    """One ``elicitation/create``, which waits for the test's answer; written alike everywhere."""

    def __init__(self, params: Json) -> None:
        self._params = params
        self.session: str = params["sessionId"]
        self.message: str = params["message"]
        self.answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

    @property
    def fields(self) -> Json:
        """The fields of the form, which it must be."""
        assert self._params["mode"] == "form", self._params
        fields: Json = self._params["requestedSchema"]["properties"]
        return fields

    @property
    def url(self) -> str:
        """The page to open, which it must be."""
        assert self._params["mode"] == "url", self._params
        url: str = self._params["url"]
        return url

    def accept(self, content: Json | None = None) -> None:
        """Answer with action ``accept``."""
        given = {} if content is None else {"content": content}
        self.answer.set_result({"action": "accept", **given})

    def decline(self) -> None:
        """Answer with action ``decline``."""
        self.answer.set_result({"action": "decline"})

    def cancel(self) -> None:
        """Answer with action ``cancel``."""
        self.answer.set_result({"action": "cancel"})


_Ask: TypeAlias = Permission | Elicited


class Asks:
    """What a client does with its two questions, and the queue of what was asked.

    With ``stubborn`` the client answers also what was withdrawn, as soon as the test does.
    """

    def __init__(self, when_withdrawn: Callable[[], None]) -> None:
        self.stubborn = False
        self.withdrawn: list[RequestId] = []
        """Ids of the requests that the agent gave up, by ``$/cancel_request``."""
        self._when_withdrawn = when_withdrawn
        self._queue: asyncio.Queue[_Ask] = asyncio.Queue()
        self._open: list[_Ask] = []

    @property
    def unseen(self) -> int:
        """How many questions no test has looked at."""
        return self._queue.qsize()

    async def permission(self, question: Question) -> Json:
        """The outcome of a permission."""
        return await self._ask(Permission(question))

    async def elicitation(self, params: Json) -> Json:
        """The answer to an elicitation."""
        return await self._ask(Elicited(params))

    def withdraw(self, request_id: RequestId | None) -> None:
        """The agent has given up a question."""
        assert request_id is not None
        self.withdrawn.append(request_id)
        self._when_withdrawn()

    def give_up(self) -> None:
        """Nothing is answered any more: also a stubborn client ends."""
        for ask in self._open:
            ask.answer.cancel()

    async def next_permission(self) -> Permission:
        """The next question, which must be a permission request."""
        ask = await self._next()
        assert isinstance(ask, Permission), ask.message
        return ask

    async def next_elicitation(self) -> Elicited:
        """The next question, which must be an elicitation."""
        ask = await self._next()
        assert isinstance(ask, Elicited), ask.title
        return ask

    async def next_both(self) -> tuple[Permission, Elicited]:
        """The next two questions: one of each kind, in whichever order they come."""
        one, other = await self._next(), await self._next()
        if isinstance(one, Elicited):
            one, other = other, one
        assert isinstance(one, Permission)
        assert isinstance(other, Elicited)
        return one, other

    async def _ask(self, ask: _Ask) -> Json:
        self._open.append(ask)
        self._queue.put_nowait(ask)
        with anyio.CancelScope(shield=self.stubborn):
            await asyncio.wait({ask.answer})
        return ask.answer.result()

    async def _next(self) -> _Ask:
        with anyio.fail_after(WAIT):
            return await self._queue.get()
