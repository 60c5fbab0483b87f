"""PURE: the choices of a form's field: their values, and the words a person sees for them.

Owns the six ways in which MCP writes choices, and the two of ACP. Must not know what was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, assert_never

from codex_acp.codex._generated import models
from codex_acp.routing.display import is_plain, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.acp.form_answers import Choice

SingleSelect: TypeAlias = (
    models.McpElicitationUntitledSingleSelectEnumSchema
    | models.McpElicitationTitledSingleSelectEnumSchema
    | models.McpElicitationLegacyTitledEnumSchema
)
MultiSelect: TypeAlias = (
    models.McpElicitationUntitledMultiSelectEnumSchema
    | models.McpElicitationTitledMultiSelectEnumSchema
)


@dataclass(frozen=True, slots=True)
class FormChoice:
    """One value to choose, the words for it, and what it means."""

    const: str
    title: str
    description: str | None = None

    @property
    def needs_words(self) -> bool:
        """Whether the bare value would not show a person what it is."""
        plain = self.title == self.const and is_plain(self.const)
        return not plain or self.description is not None


def choices_of(asked: SingleSelect | MultiSelect) -> tuple[FormChoice, ...]:
    """The choices in their order. A value without a name of its own is its own name."""
    match asked:
        case models.McpElicitationUntitledSingleSelectEnumSchema():
            return tuple(FormChoice(value, value) for value in asked.enum)
        case models.McpElicitationTitledSingleSelectEnumSchema():
            return tuple(map(_titled, asked.one_of))
        case models.McpElicitationLegacyTitledEnumSchema():
            names = asked.enum_names or []
            padded = [*names, *asked.enum[len(names) :]]
            return tuple(map(FormChoice, asked.enum, padded))
        case models.McpElicitationUntitledMultiSelectEnumSchema():
            return tuple(FormChoice(value, value) for value in asked.items.enum)
        case models.McpElicitationTitledMultiSelectEnumSchema():
            return tuple(map(_titled, asked.items.any_of))
        case _:
            assert_never(asked)


def distinct(choices: Iterable[FormChoice]) -> tuple[FormChoice, ...] | None:
    """Choices without exact repetitions; None if one value has two sets of words: a person who
    chose by the words could not be told from one who chose by the others.
    """
    found: dict[str, FormChoice] = {}
    for choice in choices:
        if found.setdefault(choice.const, choice) != choice:
            return None
    return tuple(found.values())


def enum_options(choices: Iterable[FormChoice]) -> list[Choice]:
    """Choices as ACP writes them: words made visible, values unchanged."""
    return [_option(choice) for choice in choices]


def _titled(option: models.McpElicitationConstOption) -> FormChoice:
    description = (option.model_extra or {}).get("description")
    return FormChoice(option.const, option.title, description)


def _option(choice: FormChoice) -> Choice:
    option: Choice = {"const": choice.const, "title": visible(choice.title)}
    if choice.description is not None:
        option["description"] = visible(choice.description, multiline=True)
    return option
