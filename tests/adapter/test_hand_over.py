"""Who may have a session that another process has open."""

from __future__ import annotations

from typing import Any, cast

import pytest

from codex_acp.adapter.hand_over import may_have


class OfOwner:
    """An audience of a network server."""

    owner = "alice"


@pytest.mark.attack("network")
def test_8_2_no_owner_gets_the_session_of_another() -> None:
    hers = cast("Any", OfOwner())
    assert may_have(hers, "alice")
    assert not may_have(hers, "bob")
    assert may_have(hers, None)  # whoever has this user's files
    assert may_have(None, "bob")  # whose it is, that one's own server has decided
