"""Tools made of functions: their schema, their call, what the model is told."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from pydantic import BaseModel, Field

from codex_acp.codex import Tool, image, tool
from codex_acp.codex.threads.tools import ToolCalls
from codex_acp.codex.types import (
    DynamicToolCallParams,
    DynamicToolCallResponse,
    FunctionDynamicToolSpec,
    InputTextDynamicToolCallOutputContentItem,
    ItemToolCall,
)
from codex_acp.errors import MisuseError
from codex_acp.wire.codec import decode

PNG = b"\x89PNG\r\n\x1a\n and so on"


class Place(BaseModel):
    name: str
    near: list[str] = []


def weather(
    place: Place, days: Annotated[int, Field(ge=1, description="How far ahead.")] = 3
) -> str:
    """The weather of a place.

    Made up.
    """
    return f"{place.name}, {days} days: sun"


async def slowly(seconds: float) -> None:
    """Take some time."""
    await asyncio.sleep(seconds)


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, by: int) -> int:
        """Add to it."""
        self.count += by
        return self.count

    async def __call__(self, by: int) -> int:
        return self.add(by)


def said(response: DynamicToolCallResponse) -> str:
    (part,) = response.content_items
    assert isinstance(part, InputTextDynamicToolCallOutputContentItem)
    return part.text


async def told(function: Callable[..., object], **arguments: Any) -> str:
    response = await tool(function).call(arguments)
    assert response.success
    return said(response)


async def failure(made: Tool, arguments: object) -> str:
    response = await made.call(arguments)
    assert not response.success
    return said(response)


def test_the_schema_comes_from_the_annotations_and_the_docstring() -> None:
    made = tool(weather)
    spec = decode(FunctionDynamicToolSpec, made.spec())
    assert spec.name == "weather"
    assert spec.description == "The weather of a place.\n\nMade up."
    assert spec.input_schema["required"] == ["place"]
    assert spec.input_schema["additionalProperties"] is False
    assert spec.input_schema["properties"]["days"] == {
        "default": 3,
        "description": "How far ahead.",
        "minimum": 1,
        "title": "Days",
        "type": "integer",
    }
    assert spec.input_schema["$defs"]["Place"]["properties"]["name"]["type"] == "string"


def test_name_and_description_can_be_given() -> None:
    made = tool(weather, name="forecast", description="Tell it.")
    assert (made.name, made.description, tool(made)) == ("forecast", "Tell it.", made)


async def test_arguments_are_read_as_the_annotations_say() -> None:
    assert await told(weather, place={"name": "Bern"}) == "Bern, 3 days: sun"


async def test_methods_and_callable_objects_are_tools_too() -> None:
    counter = Counter()
    assert await told(counter.add, by=2) == "2"
    made = tool(counter, name="count")
    assert said(await made.call({"by": 3})) == "5"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        (None, "null"),
        ({"a": [1, 2.5]}, '{"a":[1,2.5]}'),
        ([1, 2], "[1,2]"),
        (Place(name="Bern"), '{"name":"Bern","near":[]}'),
        (True, "true"),
    ],
)
async def test_what_it_returns_is_told_as_text_or_json(result: object, text: str) -> None:
    def give() -> object:
        return result

    assert await told(give) == text


async def test_images_and_several_parts(tmp_path: Path) -> None:
    file = tmp_path / "x.png"
    file.write_bytes(PNG)

    def show() -> object:
        return ["Look:", image(PNG), image(file)]

    response = await tool(show).call({})
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert [p.model_dump(by_alias=True) for p in response.content_items] == [
        {"type": "inputText", "text": "Look:"},
        {"type": "inputImage", "imageUrl": url},
        {"type": "inputImage", "imageUrl": url},
    ]


async def test_a_response_of_its_own_is_passed_on() -> None:
    mine = DynamicToolCallResponse(success=False, content_items=[])

    def give() -> object:
        return mine

    assert await tool(give).call({}) is mine


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, "place"),
        ({"place": {"name": 1}}, "place.name"),
        ({"place": {"name": "x"}, "days": 0}, "days"),
        ({"place": {"name": "x"}, "more": 1}, "more"),
        ("text", "place"),
        (None, "place"),
    ],
)
async def test_arguments_that_do_not_fit_are_a_failure_that_names_them(
    arguments: object, names: str
) -> None:
    assert names in await failure(tool(weather), arguments)


async def test_an_exception_is_a_failure_with_its_words() -> None:
    def breaks() -> None:
        raise ValueError("no network \udc80" + "x" * 9000)

    text = await failure(tool(breaks), {})
    assert text.startswith("breaks failed with ValueError: no network ?")
    assert len(text) < 2100


async def test_a_result_that_is_no_json_is_a_failure() -> None:
    def odd() -> object:
        return object()

    assert "odd failed" in await failure(tool(odd), {})


async def test_a_call_that_takes_too_long_is_a_failure() -> None:
    blocked = threading.Event()

    def blocks() -> None:
        blocked.wait(30)

    try:
        with anyio.fail_after(60):
            assert "longer than" in await failure(tool(slowly, timeout=0.01), {"seconds": 60})
            assert "longer than" in await failure(tool(blocks, timeout=0.01), {})
    finally:
        blocked.set()


async def test_a_plain_function_runs_in_another_thread() -> None:
    def where() -> int:
        return threading.get_ident()

    async def here() -> int:
        return threading.get_ident()

    assert await told(where) != str(threading.get_ident())
    assert await told(here) == str(threading.get_ident())


class Opaque:
    pass


def no_annotation(x) -> None: ...  # type: ignore[no-untyped-def] # that is the test


def positional(x: int, /) -> None: ...


def some(*xs: int) -> None: ...


def named(**xs: int) -> None: ...


def opaque(x: Opaque) -> None: ...


def function(x: Callable[[], int]) -> None: ...


def unknown(x: NoSuchType) -> None: ...  # type: ignore[name-defined] # noqa: F821 - that is the test


@pytest.mark.parametrize(
    "unfit",
    [no_annotation, positional, some, named, opaque, function, unknown],
    ids=lambda f: f.__name__,
)
def test_a_function_that_cannot_be_a_tool_is_refused_at_registration(unfit: Any) -> None:
    with pytest.raises(MisuseError, match=unfit.__name__):
        tool(unfit)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "naïve"])
def test_a_name_that_models_cannot_call_is_refused(name: str) -> None:
    with pytest.raises(MisuseError, match="no name for a tool"):
        tool(weather, name=name)


def test_a_timeout_must_be_positive() -> None:
    with pytest.raises(MisuseError, match="positive"):
        tool(weather, timeout=0)


def call_of(name: str, thread_id: str = "t", **more: Any) -> ItemToolCall:
    given = {"tool": name, "thread_id": thread_id, "turn_id": "u", "call_id": "c", "arguments": {}}
    return ItemToolCall(7, DynamicToolCallParams(**given | more))


def one() -> str:
    """One."""
    return "one"


def two() -> str:
    """Two."""
    return "two"


async def test_a_thread_has_its_own_tools_and_those_of_every_thread() -> None:
    calls = ToolCalls()
    calls.add([one])
    calls.add([two], "t")
    assert said(await calls.handle(call_of("one"))) == "one"
    assert said(await calls.handle(call_of("two"))) == "two"
    elsewhere = await calls.handle(call_of("two", "other"))
    assert not elsewhere.success
    assert "no tool 'two'" in said(elsewhere)
    assert not (await calls.handle(call_of("one", namespace="mcp"))).success
    calls.on_notification("thread/deleted", {"threadId": "t"})
    assert not (await calls.handle(call_of("two"))).success


def test_two_tools_cannot_have_one_name() -> None:
    calls = ToolCalls()
    calls.add([one])
    calls.add([one])  # the same again is fine
    with pytest.raises(MisuseError, match="two tools"):
        calls.add([tool(two, name="one")])
    with pytest.raises(MisuseError, match="two tools"):
        calls.offered([tool(two, name="one")])


OTHERS: tuple[tuple[str, Any], ...] = (
    ("serverRequest/resolved", {"threadId": "t", "requestId": "7"}),
    ("turn/completed", {"threadId": "t", "turn": {"id": "another"}}),
)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("serverRequest/resolved", {"threadId": "t", "requestId": 7}),
        ("turn/completed", {"threadId": "t", "turn": {"id": "u"}}),
    ],
)
async def test_a_call_that_codex_waits_for_no_more_is_ended(method: str, params: Any) -> None:
    calls = ToolCalls()
    began, ended = anyio.Event(), anyio.Event()

    async def waits() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    calls.add([waits])
    results: list[DynamicToolCallResponse] = []

    async def handle() -> None:
        results.append(await calls.handle(call_of("waits")))

    task = asyncio.ensure_future(handle())
    with anyio.fail_after(60):
        await began.wait()
        for other, its in OTHERS:
            calls.on_notification(other, its)
        await anyio.lowlevel.checkpoint()
        assert not ended.is_set()
        calls.on_notification(method, params)
        await ended.wait()
        await task
    assert not results[0].success


def test_a_function_with_bound_arguments_says_what_is_wrong() -> None:
    with pytest.raises(MisuseError):
        tool(partial(weather, days=1))
