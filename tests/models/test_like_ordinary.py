"""A generated model is to its users what pydantic would have made of the same statement.

Generated classes are made without pydantic looking at them (`codex_acp.wire.lazy`); each test here
does what programs do with models, most of them beside the ordinary class.
"""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import pydoc
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import pydantic
import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model, field_validator

from codex_acp.acp._generated.v1 import models as acp
from codex_acp.codex._generated import models as codex
from codex_acp.wire import lazy
from codex_acp.wire.model import UnknownValue, UnknownVariant, WireModel

pytestmark = pytest.mark.skipif(
    not lazy.IS_TESTED, reason="with another pydantic the models are ordinary already"
)

SAMPLES: list[type[BaseModel]] = [
    acp.TextContentBlock,
    acp.SessionNotification,
    acp.InitializeRequest,
    acp.ToolCallSessionUpdate,
    codex.AgentMessageThreadItem,
    codex.Thread,
    codex.TurnStartParams,
    codex.GranularAskForApproval,
    codex.Config,
]


def test_the_base_classes_are_models_too() -> None:
    read = WireModel.model_validate({"a": 1})
    assert (type(read), read.model_extra) == (WireModel, {"a": 1})
    assert TypeAdapter(WireModel).validate_python({"a": 1}) == read
    assert WireModel(a=1) == read  # type: ignore[call-arg]
    assert WireModel.model_json_schema()["properties"] == {}
    assert str(inspect.signature(WireModel)) == "(**extra_data: Any) -> None"
    assert "__pydantic_validator__" not in WireModel.__dict__, "all others would inherit it"
    assert acp.TextContentBlock(text="x").text == "x"
    assert UnknownVariant(kind="k").wire() == {"kind": "k"}  # type: ignore[call-arg]


def test_the_base_has_what_pydantic_gives_an_empty_model() -> None:
    class Empty(BaseModel):
        pass

    base = WireModel.__base__
    assert base is not None
    own = {name for name in Empty.__dict__ if name not in BaseModel.__dict__}
    late = {"__signature__", "__pydantic_setattr_handlers__"}
    of_python = {"__annotations__", "__annotations_cache__", "__annotate_func__", "__weakref__"}
    assert own - late - of_python <= lazy.OF_AN_EMPTY_MODEL.keys()
    for name in lazy.OF_AN_EMPTY_MODEL.keys() & Empty.__dict__.keys() - {"__class_vars__"}:
        assert getattr(base, name) == getattr(Empty, name), name
    assert WireModel.__pydantic_decorators__ == Empty.__pydantic_decorators__
    assert WireModel.__pydantic_parent_namespace__ is None


def ordinary(cls: type[BaseModel]) -> type[BaseModel]:
    made = lazy._ordinary(cls)
    made.model_rebuild(force=True)
    return made


@pytest.mark.parametrize("cls", SAMPLES)
def test_introspection_says_the_same(cls: type[BaseModel]) -> None:
    other = ordinary(cls)
    assert type(cls) is type(BaseModel)
    assert issubclass(cls, WireModel)
    assert list(cls.model_fields) == list(other.model_fields)
    for name, field in cls.model_fields.items():
        assert repr(field) == repr(other.model_fields[name])
    assert inspect.signature(cls) == inspect.signature(other)
    assert cls.model_json_schema() == other.model_json_schema()
    assert cls.model_json_schema(mode="serialization") == other.model_json_schema(
        mode="serialization"
    )
    assert set(dir(cls)) - {"__wire_defaults__"} == set(dir(other)) - {"__wire_defaults__"}
    config = {k: v for k, v in other.model_config.items() if k != "defer_build"}
    assert cls.model_config == config
    assert cls.model_computed_fields == {}
    assert cls.__pydantic_complete__
    assert cls.__doc__ == other.__doc__
    for name in cls.model_fields:
        assert not hasattr(cls, name), "a field is no attribute of the class"


def test_help_shows_the_signature_and_the_docstring() -> None:
    text = pydoc.plain(pydoc.render_doc(acp.TextContentBlock))
    assert "TextContentBlock(" in text
    assert "text: str" in text
    assert inspect.getsource(acp.TextContentBlock).startswith("class TextContentBlock(WireModel)")


def test_a_model_is_made_read_and_written_in_every_way() -> None:
    block = acp.TextContentBlock(text="hi")
    assert isinstance(block, BaseModel)
    assert repr(block) == "TextContentBlock(annotations=None, text='hi', meta=None, type='text')"
    assert block == acp.TextContentBlock.model_validate({"type": "text", "text": "hi"})
    assert block != acp.TextContentBlock(text="ho")
    assert acp.TextContentBlock.model_validate_json('{"type": "text", "text": "hi"}') == block
    assert acp.TextContentBlock.model_validate_strings({"text": "hi"}).text == "hi"
    assert acp.TextContentBlock.model_construct(text="hi") == block
    assert block.model_dump(exclude_unset=True) == {"text": "hi", "type": "text"}
    assert json.loads(block.model_dump_json(exclude_none=True)) == {"text": "hi", "type": "text"}
    assert dict(block)["text"] == "hi"
    with pytest.raises(ValidationError, match=r"1 validation error for TextContentBlock\ntext"):
        acp.TextContentBlock(text=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hash(block)


def test_assignment_keeps_the_three_states() -> None:
    params = codex.TurnStartParams(thread_id="t", input=[])
    assert params.model_fields_set == {"thread_id", "input"}
    params.model = None
    params.unheard = 3  # type: ignore[attr-defined]
    # Whether it has what is no field depends on the version of pydantic.
    assert params.model_fields_set - {"unheard"} == {"thread_id", "input", "model"}
    assert params.model_extra == {"unheard": 3}
    assert params.unheard == 3  # type: ignore[attr-defined]
    other = codex.ThreadReadParams(thread_id="t")
    other.model = "x"  # type: ignore[attr-defined] # a field of the first class, not of this one
    assert other.model_extra == {"model": "x"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = params.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_and_read_back(protocol: int) -> None:
    item = codex.AgentMessageThreadItem(id="1", text="x", later=[1])  # type: ignore[call-arg]
    again = pickle.loads(pickle.dumps(item, protocol))
    assert (again, again.model_fields_set, again.model_extra) == (
        item, item.model_fields_set, {"later": [1]},
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(codex.AgentMessageThreadItem)) is codex.AgentMessageThreadItem


def test_copied() -> None:
    turn = codex.Turn(id="t", items=[], status="completed")
    for made in (copy.copy(turn), copy.deepcopy(turn), turn.model_copy(deep=True)):
        assert made == turn
        assert made.model_fields_set == {"id", "items", "status"}
    changed = turn.model_copy(update={"status": "failed", "newer": 1})
    assert (changed.status, changed.model_extra) == ("failed", {"newer": 1})
    assert turn.model_copy().items is turn.items
    assert turn.model_copy(deep=True).items is not turn.items


# Subclasses


class Counted(acp.TextContentBlock):
    count: int = 0
    later: Other | None = None

    @field_validator("text")
    @classmethod
    def not_empty(cls, value: str) -> str:
        if not value:
            message = "is empty"
            raise ValueError(message)
        return value

    @property
    def shown(self) -> str:
        return f"{self.text} {self.count}"


class Other(BaseModel):
    x: int


def test_a_subclass_has_fields_and_validators_of_its_own() -> None:
    made = Counted(text="a", count=2, later=Other(x=1))
    assert isinstance(made, acp.TextContentBlock)
    assert made.shown == "a 2"
    assert list(Counted.model_fields) == [*acp.TextContentBlock.model_fields, "count", "later"]
    assert made.model_dump(exclude_unset=True)["type"] == "text"
    assert Counted.model_validate({"text": "b"}).count == 0
    with pytest.raises(ValidationError, match="is empty"):
        Counted(text="")
    with pytest.raises(ValidationError, match="is empty"):
        Counted.model_validate({"text": ""})
    assert "count" not in acp.TextContentBlock.model_fields
    assert acp.TextContentBlock(text="").text == ""
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_subclass_in_a_function_sees_the_functions_names() -> None:
    class Local(BaseModel):
        y: int

    class Sub(codex.MemoryCitationEntry):
        local: Local

    class Bare(WireModel):
        local: Local

    assert Sub(line_end=1, line_start=0, note="", path="p", local=Local(y=1)).local.y == 1
    assert Bare(local=Local(y=2)).local.y == 2


def test_a_subclass_of_a_class_that_was_never_used_overrides_a_field() -> None:
    class Louder(codex.WarningNotification):
        message: Literal["!"] = "!"

    assert Louder().message == "!"
    assert codex.WarningNotification(message="m").message == "m"


T = TypeVar("T")


class Box(codex.PlanDeltaNotification, Generic[T]):
    held: T


def test_generic_subclasses_and_generic_models_of_others() -> None:
    made = Box[codex.Turn].model_validate(
        {"delta": "d", "itemId": "i", "threadId": "t", "turnId": "u",
         "held": {"id": "t", "items": [], "status": "completed"}}
    )  # fmt: skip
    assert isinstance(made.held, codex.Turn)

    class Page(BaseModel, Generic[T]):
        items: list[T]

    page = Page[codex.UserInput].model_validate({"items": [{"type": "text", "text": "x"}]})
    assert isinstance(page.items[0], codex.TextUserInput)


def test_create_model_on_top_of_one() -> None:
    made = create_model("Made", __base__=codex.PlanDeltaNotification, more=(int, 3))
    assert made(delta="", item_id="", thread_id="", turn_id="").more == 3  # type: ignore[attr-defined]


# In the models of others


class Report(BaseModel):
    item: codex.ThreadItem
    blocks: list[acp.ContentBlock] = Field(default_factory=list)
    phase: codex.MessagePhase | None = None
    usage: Annotated[codex.TokenUsageBreakdown | None, Field(description="what it took")] = None


def test_as_a_field_of_another_model() -> None:
    report = Report.model_validate(
        {
            "item": {"type": "agentMessage", "id": "1", "text": "x", "extra": 1},
            "blocks": [{"type": "text", "text": "b"}],
            "phase": "a newer one",
        }
    )
    assert isinstance(report.item, codex.AgentMessageThreadItem)
    assert report.item.model_extra == {"extra": 1}
    assert isinstance(report.blocks[0], acp.TextContentBlock)
    assert isinstance(report.phase, UnknownValue)
    kept = Report.model_validate({"item": {"type": "hologram"}})
    assert isinstance(kept.item, UnknownVariant)
    assert Report.model_validate_json(report.model_dump_json(by_alias=True)) == report
    with pytest.raises(ValidationError, match=r"\.agentMessage\.text\n.*Field required"):
        Report.model_validate({"item": {"type": "agentMessage", "id": "1"}})
    schema = Report.model_json_schema()
    assert schema["$defs"]["AgentMessageThreadItem"]["required"] == ["id", "text"]
    assert schema["properties"]["usage"]["description"] == "what it took"


def test_as_a_field_of_a_dataclass_and_under_a_type_adapter() -> None:
    @pydantic.dataclasses.dataclass
    class Held:
        turn: codex.Turn

    @dataclass
    class Plain:
        turn: codex.Turn

    value: Any = {"turn": {"id": "t", "items": [], "status": "completed"}}
    assert Held(**value).turn.id == "t"
    assert TypeAdapter(Plain).validate_python(value).turn.id == "t"
    # What a FastAPI route does with a parameter and with a response model:
    adapter: TypeAdapter[codex.Turn] = TypeAdapter(Annotated[codex.Turn, Field()])
    turn = adapter.validate_python(value["turn"])
    assert isinstance(turn, codex.Turn)
    assert json.loads(adapter.dump_json(turn, exclude_unset=True)) == value["turn"]
    definitions: Any = pydantic.json_schema.models_json_schema(
        [(codex.Turn, "validation"), (acp.PlanEntry, "serialization")]
    )[1]["$defs"]
    assert {"Turn", "PlanEntry", "AgentMessageThreadItem"} <= definitions.keys()
    assert TypeAdapter(dict[str, codex.Turn]).json_schema()["additionalProperties"]


def test_its_json_schema_is_one_for_openapi_too() -> None:
    def discriminators(schema: Any) -> list[dict[str, Any]]:
        parts = schema.values() if isinstance(schema, dict) else schema
        inner = [d for part in parts if isinstance(part, dict | list) for d in discriminators(part)]
        is_one = isinstance(schema, dict) and "propertyName" in schema.get("discriminator", ())
        return [schema["discriminator"], *inner] if is_one else inner

    found = discriminators(TypeAdapter(codex.ThreadItem | codex.CommandAction).json_schema())
    assert found
    for discriminator in found:
        assert all(isinstance(ref, str) for ref in discriminator["mapping"].values())


def test_rebuilt_by_force_it_is_an_ordinary_class() -> None:
    cls = codex.AgentMessageDeltaNotification
    assert cls.model_rebuild() is None, "a complete class needs no rebuilding"
    value = {"delta": "d", "itemId": "i", "threadId": "t", "turnId": "u"}
    before = cls.model_validate(value)
    assert cls.model_rebuild(force=True) is True
    assert cls.model_validate(value) == before
    assert isinstance(before, cls)
    assert before.model_dump(by_alias=True) == value


def test_two_threads_that_need_a_class_at_once_get_one() -> None:
    names = [n for n in codex.MODULE_OF if codex.MODULE_OF[n] == "plugin"]
    found_there: list[Any] = [getattr(codex, name) for name in names]
    classes: list[Any] = [cls for cls in found_there if isinstance(cls, type)]
    together = threading.Barrier(4)
    seen: list[list[Any]] = []
    problems: list[BaseException] = []

    def use() -> None:
        try:
            together.wait(30)
            found = []
            for cls in classes:
                cls.model_construct()
                found += [cls.__pydantic_fields__, cls.model_config, inspect.signature(cls)]
                assert cls.__pydantic_validator__.title == cls.__name__
                assert cls.model_json_schema()["title"] == cls.__name__
            seen.append(found)
        except BaseException as error:  # noqa: BLE001 # told below, in the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    for other in seen[1:]:
        assert all(a is b for a, b in zip(seen[0], other, strict=True))


def test_a_value_that_a_lenient_read_left_out_reads_as_its_default() -> None:
    read = acp.AgentCapabilities.model_validate({"loadSession": "no idea"})
    assert read.load_session is False
    assert "load_session" not in read.__dict__


@pytest.mark.parametrize("version", [1, 2])
def test_an_integer_that_the_schema_does_not_list_is_read(version: int) -> None:
    block = {"mode": "block", "reason": {"kind": "cyber"}, "version": version}
    read = codex.AgentMessageModeration.model_validate({"moderated": True, "display": block})
    assert isinstance(read.display, codex.BlockAgentMessageDisplay)
    assert read.display.version == version


def test_a_model_validates_without_introspection() -> None:
    for cls in (codex.ProjectDeleteParams, codex.ProjectDeleteResponse):
        cls.__pydantic_validator__, cls.__pydantic_serializer__  # noqa: B018
        raw = cls.__dict__.get("__pydantic_fields__")
        assert raw == {} or isinstance(raw, lazy._LateAttribute), (
            "it was made without being asked for"
        )
