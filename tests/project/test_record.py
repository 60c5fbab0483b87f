"""`codex_acp._record`: small classes that behave as dataclasses with slots do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from threading import Barrier
from types import FunctionType
from typing import Any
from typing import NamedTuple as TypedTuple

import pytest

from codex_acp._record import NamedTuple, names_of, record, replace


@record
class Plain:
    """As most are."""

    name: str
    size: int = 3
    parts: list[str] = field(default_factory=list)

    def longest(self) -> int:
        """Methods stay."""
        return max(map(len, self.parts), default=0)


@record(frozen=True)
class Frozen:
    """A value."""

    count: int = 1


@record(kw_only=True)
class Named:
    """Its fields are given by name, in any order."""

    first: int = 1
    second: int


def test_fields_are_given_by_place_or_by_name_and_have_defaults() -> None:
    assert (Plain("a").size, Plain("a", 4).size, Plain(name="a", size=5).size) == (3, 4, 5)
    with pytest.raises(TypeError, match="name"):
        Plain()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        Plain("a", colour=1)  # type: ignore[call-arg]


def test_a_factory_makes_a_value_for_each() -> None:
    one, other = Plain("a"), Plain("a")
    one.parts.append("abc")
    assert (one.longest(), other.parts) == (3, [])
    given = ["x"]
    assert Plain("a", parts=given).parts is given


def test_equal_are_those_of_one_class_with_equal_fields() -> None:
    assert Plain("a") == Plain("a")
    assert Plain("a") != Plain("b")
    assert Plain("a") != Frozen()  # type: ignore[comparison-overlap]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Plain("a"))


def test_it_has_slots_a_repr_and_matches() -> None:
    plain = Plain("a")
    with pytest.raises(AttributeError):
        plain.other = 1  # type: ignore[attr-defined]
    assert repr(plain) == "Plain(name='a', size=3, parts=[])"
    match plain:
        case Plain(name, 3):
            assert name == "a"
        case _:
            pytest.fail("it does not match")


def test_what_is_frozen_cannot_be_changed_and_can_be_hashed() -> None:
    frozen = Frozen(2)
    assert {frozen: 1}[Frozen(2)] == 1
    with pytest.raises(dataclasses.FrozenInstanceError, match="frozen"):
        frozen.count = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del frozen.count
    assert Frozen() != frozen


def test_the_functions_of_dataclasses_take_it_for_one() -> None:
    assert [each.name for each in dataclasses.fields(Plain("a"))] == ["name", "size", "parts"]
    assert dataclasses.asdict(Frozen(2)) == {"count": 2}
    assert dataclasses.replace(Named(second=2), first=3) == Named(first=3, second=2)


def test_a_dataclass_may_be_made_of_it() -> None:
    @dataclasses.dataclass
    class More(Plain):
        colour: str = "red"

    assert More("a", colour="blue") == More("a", 3, [], "blue")
    with pytest.raises(TypeError, match="non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Changing", (Frozen,), {}))


def test_several_threads_may_look_at_it_first() -> None:
    usual, together = sys.getswitchinterval(), Barrier(4)

    def factory(made: type[Any]) -> object:
        together.wait()
        return dataclasses.fields(made)[0].default_factory

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(together.parties) as threads:
            for _ in range(20):

                @record
                class Seen:
                    parts: list[str] = field(default_factory=list)

                assert list(threads.map(factory, [Seen] * together.parties)) == [list] * 4
                assert dataclasses.fields(Seen)[0].default_factory is list
    finally:
        sys.setswitchinterval(usual)


def test_it_can_be_copied_and_pickled() -> None:
    for value in (Plain("a", parts=["b"]), Frozen(2)):
        assert (
            copy.copy(value) == copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
        )


def test_what_makes_an_object_is_compiled_for_the_first_and_can_be_looked_at_before() -> None:
    @record
    class Unused:
        size: int = 3

    assert type(vars(Unused)["__init__"]) is not FunctionType
    assert str(inspect.signature(Unused)) == "(size: 'int' = 3) -> None"
    assert type(vars(Unused)["__init__"]) is FunctionType
    assert Unused(4).size == 4


def test_it_can_be_compared_by_identity() -> None:
    @record(eq=False)
    class Thing:
        size: int = 3

    one, other = Thing(), Thing()
    assert one != other
    assert {one, other} == {other, one}


def test_fields_may_have_to_be_named() -> None:
    assert Named(second=2).first == 1
    with pytest.raises(TypeError):
        Named(1, 2)  # type: ignore[call-arg]
    assert names_of(Named) == ("first", "second")


def test_a_copy_may_differ() -> None:
    assert replace(Named(second=2), first=3) == Named(first=3, second=2)
    if sys.version_info >= (3, 13):
        assert copy.replace(Named(second=2), first=3) == Named(first=3, second=2)
    with pytest.raises(TypeError, match="third"):
        replace(Named(second=2), third=3)


class Span(NamedTuple):
    """A tuple as modules of the start have them."""

    start: int
    end: int = 9
    name: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


class TypedSpan(TypedTuple):
    """The same, made by typing."""

    start: int
    end: int = 9
    name: str = ""


def test_a_named_tuple_behaves_as_one_of_typing() -> None:
    span, typed = Span(1, name="a"), TypedSpan(1, name="a")
    assert (tuple(span), tuple(typed)) == ((1, 9, "a"), (1, 9, "a"))
    assert span == (1, 9, "a")
    assert hash(span) == hash(typed)
    assert repr(span) == repr(typed).removeprefix("Typed")
    assert (span.start, span.size, span[1:], len(span)) == (1, 8, (9, "a"), 3)
    assert span._asdict() == typed._asdict()
    assert tuple(span._replace(end=3)) == tuple(typed._replace(end=3)) == (1, 3, "a")
    assert type(span._replace(end=3)) is Span
    assert type(Span) is type  # a metaclass would make `isinstance` slow
    assert Span._make((1, 2, "b")) == Span(1, 2, "b")
    assert (Span._fields, Span._field_defaults) == (TypedSpan._fields, TypedSpan._field_defaults)
    assert Span.__match_args__ == TypedSpan.__match_args__
    assert str(inspect.signature(Span)).partition(" ->")[0] == "(start, end=9, name='')"
    for copied in (copy.copy(span), copy.deepcopy(span), pickle.loads(pickle.dumps(span))):
        assert (copied, type(copied)) == (span, Span)
    with pytest.raises(TypeError, match=r"Span.__new__.*start"):
        Span()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        span.start = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        span.other = 2  # type: ignore[attr-defined]
