"""`codex_acp._record`: small classes that behave as dataclasses with slots do."""

from __future__ import annotations

from dataclasses import field

import pytest

from codex_acp._record import names_of, record, replace


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
    with pytest.raises(AttributeError, match="frozen"):
        frozen.count = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del frozen.count
    assert Frozen() != frozen


def test_fields_may_have_to_be_named() -> None:
    assert Named(second=2).first == 1
    with pytest.raises(TypeError):
        Named(1, 2)  # type: ignore[call-arg]
    assert names_of(Named) == ("first", "second")


def test_a_copy_may_differ() -> None:
    assert replace(Named(second=2), first=3) == Named(first=3, second=2)
    with pytest.raises(TypeError, match="third"):
        replace(Named(second=2), third=3)
