"""The way of one message through the adapter, as calls: ``python -m benchmarks.trace``.

Plays the recorded conversations ``message`` and ``command-approved`` in memory and counts, of each
step, the functions of ours that are entered (*hops*), those of them that are there to do something
and did nothing (*idle*), and those that were asked again with the same arguments and gave the same
(*again*).
``--calls TEXT`` shows the calls of the steps whose name has that text. Counts are the same on every
machine; see README.md for what they were.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import dis
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import codex_acp
from benchmarks.report import write_json
from tests.sent_to_clients.codex import PlayedCodex
from tests.sent_to_clients.conversation import WIRE, load
from tests.sent_to_clients.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from tests.sent_to_clients.conversation import Json

OURS: Final = str(Path(codex_acp.__file__).parent)
NOT_COUNTED: Final = ("/testing/", "/transport/link.py")
"""What stands for the other side, and for a pipe."""

ROUNDS: Final = 40
"""Of the event loop, after which all is done that a message makes the adapter do."""

STORES: Final = ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "DELETE_", "YIELD_", "RAISE_VARARGS")
"""Beginnings of the names of instructions that do something beyond their own function."""

CHANGES: Final = frozenset({
    "acquire", "add", "append", "appendleft", "call_later", "call_soon", "cancel", "clear",
    "discard", "extend", "insert", "pop", "popleft", "put", "release", "remove", "set",
    "set_exception", "set_result", "setdefault", "update", "write",
})  # fmt: skip
"""Methods of built-in classes that change something or have something done."""

HEADINGS: Final = ("hops", "idle", "again")


@dataclass(eq=False)
class Call:
    """One function of ours that was entered. Whatever calls code of others may do something."""

    code: CodeType
    caller: Call | None
    arguments: list[object]
    result: object = None
    acts: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Where it is, and what it is called."""
        path = Path(self.code.co_filename).relative_to(OURS).with_suffix("").as_posix()
        return f"{path}: {self.code.co_qualname}"

    @property
    def does_nothing(self) -> bool:
        """Whether neither it nor what it called changed anything."""
        return not self.acts and all(call.does_nothing for call in self.calls)

    @property
    def idle(self) -> bool:
        """Whether it is one that gives nothing, and has done nothing."""
        return self.does_nothing and self.code.co_firstlineno in _givers_of_nothing(self.code)

    def lines(self, level: int = 0) -> Iterator[str]:
        """It and what it called, indented."""
        yield f"{'  ' * level}{self.name}{'  <- idle' if self.idle else ''}"
        for call in self.calls:
            yield from call.lines(level + 1)


class Tracer:
    """``with Tracer() as tracer:`` has every call until its end in ``tracer.calls``, in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._of: dict[FrameType, Call] = {}

    def __enter__(self) -> Self:
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_exc: object) -> None:
        sys.settrace(None)

    def again(self) -> Counter[str]:
        """What was asked more than once: all but the first time."""
        found: Counter[str] = Counter()
        seen: list[Call] = []
        for call in self.calls:
            if call.result is None or not call.does_nothing:
                continue
            if any(_same(call, earlier) for earlier in seen):
                found[call.name] += 1
            seen.append(call)
        return found

    def _entered(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        del event, arg
        caller = self._of.get(frame.f_back) if frame.f_back is not None else None
        code = frame.f_code
        if not code.co_filename.startswith(OURS) or any(n in code.co_filename for n in NOT_COUNTED):
            if caller is not None:
                caller.acts = True
            return None
        if code.co_name.startswith("<") and code.co_name != "<lambda>":
            return None  # a part of its function
        if frame not in self._of:
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            call = Call(code, caller, [frame.f_locals.get(name) for name in names])
            self._of[frame] = call
            self.calls.append(call)
            if caller is not None:
                caller.calls.append(call)
        frame.f_trace_opcodes = True
        return self._inside

    def _inside(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        call = self._of[frame]
        if event == "return":
            call.result = arg
        elif event == "opcode" and not call.acts:
            instruction, named = _instructions(frame.f_code)[frame.f_lasti]
            call.acts = instruction.startswith(STORES) or named in CHANGES
        return self._inside


@cache
def _instructions(code: CodeType) -> dict[int, tuple[str, object]]:
    """Each instruction by its place; with it the name of the method that it looks up."""
    return {
        each.offset: (
            each.opname,
            each.argval if each.opname in ("LOAD_METHOD", "LOAD_ATTR") else None,
        )
        for each in dis.get_instructions(code)
    }


def _same(one: Call, other: Call) -> bool:
    return (
        one.code is other.code
        and len(one.arguments) == len(other.arguments)
        and all(a is b for a, b in zip(one.arguments, other.arguments, strict=True))
        and bool(one.result == other.result)
    )


@cache
def _givers_of_nothing_in(path: str) -> frozenset[int]:
    tree = ast.parse(Path(path).read_text("utf-8"))
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(
        min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        for function in functions
        if isinstance(function.returns, ast.Constant) and function.name != "__init__"
    )


def _givers_of_nothing(code: CodeType) -> frozenset[int]:
    """First lines of the functions in a file that are declared to give None."""
    return _givers_of_nothing_in(code.co_filename)


async def _settle() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def steps_of(name: str, cwd: Path) -> dict[str, Tracer]:
    """Each step of a conversation, by its number and its name."""
    conversation = load(WIRE / f"{name}.jsonl")
    codex = PlayedCodex()
    traced: dict[str, Tracer] = {}
    async with Stage(codex.link, conversation.capabilities) as stage:
        session = await stage.new_session(cwd)
        await _settle()
        for number, step in enumerate(conversation.steps):
            with Tracer() as tracer:
                if "client" in step:
                    stage.act(session, step["client"])
                else:
                    codex.say(step["codex"])
                await _settle()
            traced[f"{name} {number}: {_name_of(step)}"] = tracer
    return traced


def _name_of(step: Json) -> str:
    told: str = step["codex"]["method"] if "codex" in step else next(iter(step["client"]))
    return told


async def load_of(items: int, cwd: Path) -> Tracer:
    """``session/load`` of a history of so many messages, when another was loaded before."""
    conversation = load(WIRE / "message.jsonl")
    message = next(e for e in conversation.history if e["item"]["type"] == "agentMessage")
    codex = PlayedCodex()
    for count in (1, items):
        page = [{**message, "item": {**message["item"], "id": f"m{n}"}} for n in range(count)]
        codex.will_answer("thread/items/list", {"data": page, "nextCursor": None})
        codex.will_answer("thread/backgroundTerminals/list", {"data": [], "nextCursor": None})
    async with Stage(codex.link, conversation.capabilities) as stage:
        await stage.load("thread-1", cwd)
        await _settle()
        params = {"sessionId": "thread-1", "cwd": str(cwd), "mcpServers": []}
        with Tracer() as tracer:
            await stage.reply(stage.start("session/load", params))
        await asyncio.sleep(0.1)
    return tracer


async def measure() -> dict[str, Tracer]:
    """All that is traced, each when it has happened once before."""
    traced: dict[str, Tracer] = {}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(2):
            for name in ("message", "command-approved"):
                traced |= await steps_of(name, Path(directory))
        await load_of(1, Path(directory))
        for items in (1, 10):
            traced[f"session/load, items: {items}"] = await load_of(items, Path(directory))
    return traced


def counts(tracer: Tracer) -> dict[str, int]:
    """The figures of one step."""
    idle = sum(call.idle for call in tracer.calls)
    figures = (len(tracer.calls), idle, tracer.again().total())
    return dict(zip(HEADINGS, figures, strict=True))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(prog="benchmarks.trace", description=__doc__)
    parser.add_argument("--calls", metavar="TEXT", help="show the calls of these steps")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    traced = asyncio.run(measure())
    figures = {name: counts(tracer) for name, tracer in traced.items()}
    width = max(map(len, figures))
    print(" ".join([" " * width, *(f"{heading:>6}" for heading in HEADINGS)]))
    for name, row in figures.items():
        print(" ".join([f"{name:<{width}}", *(f"{count:>6}" for count in row.values())]))
        if options.calls is not None and options.calls in name:
            for call in traced[name].calls:
                if call.caller is None:
                    print(*call.lines(2), sep="\n")
            for again, times in traced[name].again().most_common():
                print(f"    again {times}: {again}")
    if options.json:
        write_json(options.json, figures)


if __name__ == "__main__":
    main()
