"""The generated core schemas say what pydantic itself makes of the annotations, for every name."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any

import pydantic_core
import pytest
from pydantic import VERSION, BaseModel, TypeAdapter
from pydantic_core import SchemaSerializer, SchemaValidator

from codex_acp import _pydantic
from codex_acp.wire import lazy
from codex_acp.wire.lazy import definitions

TREES = ("codex_acp.codex._generated", "codex_acp.acp._generated.v1", "codex_acp.acp._generated.v2")
MODULES = [
    (tree, module)
    for tree in TREES
    for module in sorted(set(import_module(f"{tree}.models").MODULE_OF.values()))
]


def normal(schema: Any, known: dict[str, Any]) -> Any:
    """Without what only JSON schemas need, with each reference in full, and with lists and maps
    that end at the first invalid entry, as ours do."""
    if isinstance(schema, list):
        return [normal(item, known) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "definitions":
        found = {d["ref"]: d for d in schema["definitions"]}
        return normal(schema["schema"], known | found)
    if schema.get("type") == "definition-ref":
        return normal(known[schema["schema_ref"]], known)
    plain = {k: normal(v, known) for k, v in schema.items() if k not in ("metadata", "ref")}
    if plain.get("type") == "literal":
        # typing has one Literal for two that differ in their order only.
        plain["expected"] = sorted(plain["expected"], key=str)
    if plain.get("type") in ("list", "dict"):
        plain.setdefault("fail_fast", True)
    if plain.get("type") == "model-fields":
        plain["order"] = list(plain["fields"])
    return plain


@pytest.mark.parametrize(("tree", "module"), MODULES)
def test_each_is_what_pydantic_makes_of_the_annotation(tree: str, module: str) -> None:
    models: Any = import_module(f"{tree}.models")
    ours = definitions(tree)
    for name in (n for n, m in models.MODULE_OF.items() if m == module):
        theirs = TypeAdapter(getattr(models, name)).core_schema
        assert normal(ours(name), {}) == normal(theirs, {}), name


@pytest.mark.parametrize("tree", TREES)
def test_each_class_validates_with_the_generated_schema(tree: str) -> None:
    models: Any = import_module(f"{tree}.models")
    for name in models.MODULE_OF:
        cls = getattr(models, name)
        if isinstance(cls, type) and issubclass(cls, BaseModel) and lazy.IS_TESTED:
            assert type(cls.__pydantic_validator__) is SchemaValidator
            assert type(cls.__pydantic_serializer__) is SchemaSerializer
            assert lazy.defaults_of(cls) is not None


def test_the_installed_pydantic_was_tested() -> None:
    assert lazy.IS_TESTED, f"run `nox -s pydantic`, then add {VERSION} to TESTED"
    core = pydantic_core.__version__
    assert core.rpartition(".")[0] in _pydantic.TESTED, f"add {core} to those tested by themselves"


A_VERSION_TO_COME = """
import json, logging
import pydantic, pydantic.version
pydantic.VERSION = pydantic.version.VERSION = "9.1.0"
told = []
logging.getLogger("codex_acp").addHandler(logging.Handler())
logging.Handler.handle = lambda self, record: told.append(record.getMessage())
from codex_acp.acp._generated.v1 import models as acp
from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.codex._generated import models as codex
from codex_acp.wire import lazy
from codex_acp.wire.codec import decode, encode
from codex_acp.wire.model import UnknownVariant, WireModel
assert not lazy.IS_TESTED
assert type(codex.Turn) is type(WireModel) is type(pydantic.BaseModel)
assert len(told) == 1 and "pydantic 9.1.0 was not tested" in told[0], told
value = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "new": 1,
         "content": {"type": "text", "text": "x"}}}
read = decode(acp.SessionNotification, value)
assert json.loads(encode(read)) == value
assert type(read.update) is acp.AgentMessageChunkSessionUpdate
assert encode(acp.TextContentBlock(text="t")) == '{"text":"t","type":"text"}'.encode()
assert MODELS.decode("ContentBlock", {"type": "text", "text": "x"}, "").text == "x"
assert acp.AgentCapabilities.model_validate({"loadSession": "?"}).load_session is False
item = {"type": "hologram"}
assert type(decode(codex.ItemStartedNotification, {"item": item, "threadId": "t", "turnId": "u",
    "startedAtMs": 1}).item) is UnknownVariant
class Sub(codex.Turn):
    more: int
assert Sub(id="", items=[], status="completed", more=1).more == 1
assert "items" in codex.Turn.model_fields and codex.Turn.model_json_schema()
assert len(told) == 1
print("done")
"""


def test_with_another_pydantic_models_are_ordinary_and_the_log_says_so_once() -> None:
    command = [sys.executable, "-c", A_VERSION_TO_COME]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "done\n", done.stderr


READS_AND_WRITES = """
import sys
from codex_acp.acp._generated.v1 import models as acp
from codex_acp.acp._generated.v1.methods import MODELS as ACP_MODELS
from codex_acp.codex._generated.methods import MODELS
from codex_acp.wire.codec import encode
item = {"type": "agentMessage", "id": "1", "text": "x"}
MODELS.decode("ItemStartedNotification", {"item": item, "threadId": "t", "turnId": "u",
    "startedAtMs": 1}, "")
response = acp.PromptResponse(stop_reason="end_turn")
response.meta = {"a": 1}
encode(response)
ACP_MODELS.decode("ContentBlock", {"type": "text", "text": "x"}, "")
slow = {"annotated_types", "pydantic.fields", "pydantic.plugin._loader", "pydantic.type_adapter"}
print(sorted(slow & sys.modules.keys()))
"""


def test_reading_and_writing_needs_nothing_of_pydantic_that_is_slow_to_import() -> None:
    command = [sys.executable, "-c", READS_AND_WRITES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[]\n", done.stderr or done.stdout
