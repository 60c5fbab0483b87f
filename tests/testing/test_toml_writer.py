"""What the TOML writer writes, the standard library reads back."""

from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.errors import MisuseError
from codex_acp.testing.codex_home import TomlValue, toml_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_every_document_is_read_back_as_equal(document: dict[str, TomlValue]) -> None:
    assert tomllib.loads(toml_text(document)) == document


def test_a_key_after_a_table_stays_in_its_own_table() -> None:
    document: dict[str, TomlValue] = {"a": {"b": {"c": 1}, "d": 2}, "e": 3, "f": {}}
    assert tomllib.loads(toml_text(document)) == document


def test_a_float_that_is_not_a_number_is_written() -> None:
    assert math.isnan(tomllib.loads(toml_text({"a": math.nan}))["a"])


@pytest.mark.parametrize("value", [None, b"bytes", {1, 2}, "\ud800"])
def test_what_toml_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(MisuseError):
        toml_text({"a": value})  # type: ignore[dict-item]
