"""Read id, kind and method of a message from its first bytes: the line is too long or broken.

A guess that is never wrong: both protocols' peers write the id and the kind of a message before
its payload, and a message written in another order is not recognised.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import RequestId

_TEXT: Final = rb'"(?:[^"\\]|\\.)*"'

_HEAD: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'"id"\s*:\s*(?P<id>-?\d+|' + _TEXT + rb')\s*,\s*"(?P<kind>method|result|error)"\s*:'
)


class MessageHead(NamedTuple):
    """Members of a message that its first bytes have."""

    kind: Literal["request", "answer"]
    id: RequestId


def read_head(head: bytes) -> MessageHead | None:
    """Read the first bytes of a line; None if they do not tell whose it is."""
    found = _HEAD.match(head)
    if found is None:
        return None
    try:
        request_id: RequestId = json.loads(found["id"])
    except ValueError:  # a broken escape, or not UTF-8
        return None
    return MessageHead("request" if found["kind"] == b"method" else "answer", request_id)
