"""One spelling of a session's id."""

from __future__ import annotations

import pytest

from codex_acp.mapping.session_setup import canonical_id

ID = "01a203af-d813-7803-8302-134bf7cee9b4"
PLAIN = ID.replace("-", "")


@pytest.mark.parametrize("spelt", [ID, ID.upper(), f"{{{ID}}}", f"urn:uuid:{ID}", PLAIN])
def test_a_uuid_has_one_spelling(spelt: str) -> None:
    assert canonical_id(spelt) == ID


@pytest.mark.parametrize("other", ["", "thread-1", f"{{{ID}", f"{ID} ", f"{ID}\n", f"x{ID}"])
def test_what_is_none_is_left_alone(other: str) -> None:
    assert canonical_id(other) == other
