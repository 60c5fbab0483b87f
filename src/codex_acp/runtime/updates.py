"""The updates of a session as they are given to a program, those of an unknown kind included.

Owns what becomes of an update that does not fit the schema. Must not know who gets it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias, get_args

from codex_acp._json import text_at, value_at
from codex_acp.acp.stable_only import is_unstable
from codex_acp.acp.types import SessionUpdate, TextContentBlock, UnknownVariant

if TYPE_CHECKING:
    from codex_acp.acp.types import ContentBlock
    from codex_acp.jsonrpc.message import Notification

Update: TypeAlias = SessionUpdate | UnknownVariant
"""An update by its class in `codex_acp.acp.types`; UnknownVariant: a kind that this schema lacks,
with all of it in ``model_extra``."""


@cache
def known_kinds() -> frozenset[str]:
    """Every value of ``sessionUpdate`` that the stable schema has."""
    members = get_args(get_args(SessionUpdate)[0])
    return frozenset(
        member.model_fields["session_update"].default
        for member in members
        if not is_unstable(member)
    )


def unknown_update(notification: Notification) -> tuple[str, UnknownVariant] | None:
    """The session and the update, if its kind is a newer one; None if it is merely malformed.

    For a ``session/update`` that did not fit the schema.
    """
    params = notification.params
    session_id, kind = text_at(params, "sessionId"), text_at(params, "update", "sessionUpdate")
    if notification.method != "session/update" or session_id is None:
        return None
    if kind is None or kind in known_kinds():
        return None
    return session_id, UnknownVariant.model_validate(value_at(params, "update"))


def kind_of(update: Update) -> str:
    """The update's kind on the wire, as ``agent_message_chunk``; also of one that is not known."""
    if isinstance(update, UnknownVariant):
        return str(update.wire().get("sessionUpdate"))
    return update.session_update


def text_of(content: ContentBlock) -> str:
    """The text of a block of text; nothing of any other."""
    return content.text if isinstance(content, TextContentBlock) else ""
