"""Models in a process that pydantic is left out of do what they do anywhere."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel

from codex_acp.wire.lazy import CoreModel

SRC = Path(__file__).resolve().parents[2] / "src" / "codex_acp"

OF_THE_ADAPTER = ("adapter", "mapping", "routing", "codex/approvals", "codex/connection")

LEAVE_OUT = "from codex_acp import _pydantic\n_pydantic.leave_pydantic_out()\n"

USE = """
import copy
from codex_acp.acp._generated.v1 import models as acp
from codex_acp.codex._generated import models as codex
from codex_acp.codex._generated.methods import MODELS
from codex_acp.errors import InvalidPayload
from codex_acp.wire.codec import decode, encode, plain
from codex_acp.wire.model import UnknownValue, UnknownVariant, WireModel

params = codex.TurnStartParams(thread_id="t", input=[])
print(params, sorted(params.model_fields_set), encode(params))
params.model = None
params.unheard = 3
print(sorted(params.model_fields_set - {"unheard"}), params.model_extra, params.unheard)
print(encode(params), plain(params))

command = {"type": "commandExecution", "id": "c", "command": "ls", "cwd": "/", "status": "later",
           "commandActions": [{"type": "hologram", "x": 1}], "new": [1]}
item = MODELS.decode("ThreadItem", command, "an item")
print(repr(item), item.aggregated_output, item.model_extra)
print(type(item.status) is UnknownValue, type(item.command_actions[0]) is UnknownVariant)
print(item.command_actions[0].type, item.command_actions[0].wire(), plain(item) == command)

copied = item.model_copy(update={"status": "completed", "older": 1})
print(copied == item, copied.status, copied.older, item.status, item.model_extra)
print(item == item.model_copy(), item == MODELS.decode("ThreadItem", command, "it"), item == 1)
print(item == codex.PlanThreadItem(id="c", text="ls"), isinstance(item, WireModel))

block = acp.TextContentBlock(text="x", meta=None)
print(block, encode(block), acp.TextContentBlock(text="y") == block, block.annotations)
read = decode(acp.SessionNotification, {
    "sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": plain(block)}})
print(read, encode(read))
for broken in ({}, {"type": "commandExecution", "id": 1}):
    try:
        MODELS.decode("ThreadItem", broken, "an item")
    except InvalidPayload as error:
        print(error)
for wrong in (lambda: item.nothing, lambda: hash(item), lambda: acp.TextContentBlock(text=3)):
    try:
        print("not refused", wrong())
    except (AttributeError, TypeError, ValueError) as error:
        print(type(error).__name__, error.args)
match item:
    case codex.CommandExecutionThreadItem(id=name):
        print("matched", name)
"""


def _said(code: str) -> str:
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_models_do_the_same_without_pydantic() -> None:
    without = "import sys\nprint([name for name in sys.modules if name.startswith('pydantic')])\n"
    ordinary, loaded = _said(USE), _said(LEAVE_OUT + USE + without)
    *same, modules = loaded.splitlines()
    assert same == ordinary.splitlines()
    assert modules == "['pydantic_core', 'pydantic_core._pydantic_core']"


def test_where_pydantic_is_there_already_it_stays() -> None:
    model = "from codex_acp.wire.model import WireModel\nprint(isinstance(WireModel(), BaseModel))"
    before = "from pydantic import BaseModel\n"
    assert _said(before + LEAVE_OUT + model) == "True\n"
    assert _said(LEAVE_OUT + before + model) == "True\n"


def test_with_an_untested_core_it_is_loaded() -> None:
    model = "from codex_acp.wire.model import WireModel\nfrom pydantic import BaseModel\n"
    other = "_pydantic.TESTED = ()\n"
    assert (
        _said(LEAVE_OUT + other + model + "print(isinstance(WireModel(), BaseModel))") == "True\n"
    )


def test_who_wants_it_later_gets_all_of_it() -> None:
    later = (
        "import pydantic, pydantic_core\nprint(pydantic.TypeAdapter(int).validate_python('3'))\n"
    )
    rest = "from pydantic_core import core_schema, CoreSchema, MISSING, to_json\nprint(MISSING)\n"
    assert _said(LEAVE_OUT + "import codex_acp.wire.codec\n" + later + rest) == "3\nMISSING\n"


def test_the_adapter_asks_models_for_what_they_have_without_it() -> None:
    asked = {
        f"{path.relative_to(SRC)}: {node.attr}"
        for package in OF_THE_ADAPTER
        for path in (SRC / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("model_")
        and hasattr(BaseModel, node.attr)
        and not hasattr(CoreModel, node.attr)
    }
    assert asked == set()
