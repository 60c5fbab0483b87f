"""No keyword is dropped in silence: every public call that takes options refuses an unknown one."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, get_args

import pytest

import codex_acp
from codex_acp.codex import CodexClient, LaunchOptions, Thread, Threads, sync
from codex_acp.codex._generated.models import SandboxMode
from codex_acp.codex.threads.options import SANDBOXES
from codex_acp.codex.threads.thread_services import ThreadServices
from codex_acp.errors import MisuseError, UnknownOption

NOTHING: Any = SimpleNamespace(has_tools=False, subscribe_all=lambda *_: None)
"""In place of a client: what is refused has asked nobody."""


def synchronous() -> Any:
    """In place of a `sync.Codex`."""

    def call(function: Callable[..., Any], *args: Any) -> Any:
        return asyncio.run(function(*args))

    client = SimpleNamespace(threads=Threads(NOTHING))
    codex = SimpleNamespace(call=call, client=client)
    codex.threads = sync.Threads(codex)  # type: ignore[arg-type] # it is in place of one
    return codex


def thread() -> Thread:
    """One of that client."""
    return Thread(ThreadServices(NOTHING), "thread-1")


CALLS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "codex.threads.threads:Threads.start": (Threads(NOTHING).start, "sandbox_mode", "sandbox"),
    "codex.threads.threads:Threads.resume": (
        lambda **o: Threads(NOTHING).resume("t", **o),
        "aproval_policy",
        "approval_policy",
    ),
    "codex.threads.threads:Threads.fork": (
        lambda **o: Threads(NOTHING).fork("t", **o),
        "exclude_turn",
        "exclude_turns",
    ),
    "codex.threads.threads:Threads.list": (Threads(NOTHING).list, "sort", "sort_key"),
    "codex.threads.thread:Thread.run": (lambda **o: thread().run("Go.", **o), "modell", "model"),
    "codex.threads.thread:Thread.turn": (
        lambda **o: thread().turn("Go.", **o),
        "sandbox",
        "sandbox_policy",
    ),
    "codex.threads.thread:Thread.resume": (thread().resume, "cwdd", "cwd"),
    "codex.threads.thread:Thread.fork": (thread().fork, "permission", "permissions"),
    "codex.client:CodexClient.start": (CodexClient.start, "policies", "policy"),
    "codex.client:CodexClient.connect_to": (
        lambda **o: CodexClient.connect_to("ws://127.0.0.1:9", **o),
        "onrefused",
        "on_refused",
    ),
    "codex.sync:Codex.__init__": (lambda **o: sync.Codex(LaunchOptions(), **o), "tool", "tools"),
    "codex.sync:Threads.start": (synchronous().threads.start, "conf", "config"),
    "codex.sync:Threads.resume": (
        lambda **o: synchronous().threads.resume("t", **o),
        "sandbox_mode",
        "sandbox",
    ),
    "codex.sync:Threads.fork": (
        lambda **o: synchronous().threads.fork("t", **o),
        "last_turn",
        "last_turn_id",
    ),
    "codex.sync:Threads.list": (synchronous().threads.list, "archive", "archived"),
    "codex.sync:Thread.run": (
        lambda **o: sync.Thread(synchronous(), thread()).run("Go.", **o),
        "efort",
        "effort",
    ),
    "codex.sync:Thread.turn": (
        lambda **o: sync.Thread(synchronous(), thread()).turn("Go.", **o),
        "summery",
        "summary",
    ),
    "codex.sync:Thread.resume": (
        lambda **o: sync.Thread(synchronous(), thread()).resume(**o),
        "sandbox_mode",
        "sandbox",
    ),
    "codex.sync:Thread.fork": (
        lambda **o: sync.Thread(synchronous(), thread()).fork(**o),
        "sandbox_mode",
        "sandbox",
    ),
}
"""Every public call with keyword options: how to make it, a wrong name, and the one it meant."""

NO_OPTIONS = {
    "mapping.call:known_fields": "the members of a raw output",
    "routing.forms:_require_known_keywords": "names of fields, from one module of ours",
    "testing.record_file:RecordWriter.write": "the members of a record, whatever they are",
    "wire.model:ModelBase.__init__": "the fields of a model; unknown ones are kept",
    "wire.reading:Bounds.__init__": "what pydantic names the bounds of a field",
    "wire.reading:Field": "what pydantic names the settings of a field",
    "_record:replace": "the fields of a record",
    "_record:_replaced": "the fields of a named tuple",
    "cli.editors:_json_settings": "the settings of an editor",
    "fleet.fleet:RunDriver.note": "the members of a line of the journal, whatever they are",
    "fleet.outcomes:Journal.note": "the members of a line of the journal, whatever they are",
    "fleet.worker:SessionLog.note": "the members of a line of the log, whatever they are",
    "fleet.worker:_line": "the members of a line of the log, whatever they are",
    "wire.words:number": "what pydantic-core names the bounds of a number",
    "wire.words:integer": "what pydantic-core names the bounds of a number",
    "wire.words:string": "what pydantic-core names the bounds of a text",
    "cli.arguments:parser_of": "what argparse names a parser's settings",
    "cli.arguments:Parser.__init__": "what argparse names a parser's settings",
    "adapter.network.websockets:_NewConnection.__init__": "what websockets names its settings",
}
"""What takes any keyword because any is meant."""


def takers() -> Iterator[str]:
    """Every function of this package with ``**options`` that is not private or generated."""
    for module in pkgutil.walk_packages(codex_acp.__path__, "codex_acp."):
        if "_generated" in module.name or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if getattr(value, "__module__", None) != module.name:
                continue
            members = vars(value).items() if inspect.isclass(value) else [("", value)]
            for member, found in members:
                function = getattr(found, "__func__", found)
                if not inspect.isfunction(function) or function.__module__ != module.name:
                    continue
                words = {p.kind for p in inspect.signature(function).parameters.values()}
                private = member.startswith("_") and member != "__init__"
                if inspect.Parameter.VAR_KEYWORD in words and not private:
                    where = f"{name}.{member}" if member else name
                    yield f"{module.name.removeprefix('codex_acp.')}:{where}"


def test_each_call_with_options_is_tested_here() -> None:
    assert set(takers()) == CALLS.keys() | NO_OPTIONS.keys()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.attack("repository")
def test_an_unknown_option_is_refused_with_the_nearest_right_one(name: str) -> None:
    call, wrong, meant = CALLS[name]
    with pytest.raises(UnknownOption, match=f"{wrong}.*{meant}") as caught:
        _made(call, {wrong: "read-only"})
    assert isinstance(caught.value, MisuseError)
    assert isinstance(caught.value, TypeError), "as Python itself refuses one"


def _made(call: Callable[..., Any], options: dict[str, str]) -> None:
    found = call(**options)
    if inspect.iscoroutine(found):
        asyncio.run(found)


def test_a_name_that_is_near_to_none_is_refused_with_all_there_are() -> None:
    with pytest.raises(UnknownOption, match="use one of archived, cwd, search_term"):
        Threads(NOTHING).list(zzz=1)  # type: ignore[call-arg]


async def test_an_option_of_turns_is_said_to_be_one() -> None:
    with pytest.raises(UnknownOption, match="'effort'; turns have it, as in"):
        await Threads(NOTHING).start(effort="high")  # type: ignore[call-arg]


async def test_a_sandbox_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownOption, match="use one of read-only, workspace-write"):
        await Threads(NOTHING).start(sandbox="read_only")  # type: ignore[arg-type]


def test_the_sandboxes_are_those_of_the_schema() -> None:
    known, _ = get_args(get_args(SandboxMode)[0])
    assert get_args(known) == SANDBOXES
