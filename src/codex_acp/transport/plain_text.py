"""PURE: what a process or a peer wrote, as text that cannot steer whoever's terminal shows it.

Owns what is taken out of it. Must not know where the text comes from, nor where it is shown.
"""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, and what moves the cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)
"""The control sequences of terminals. Source: ECMA-48, and ``]…BEL`` of xterm."""

_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that change a line's direction or begin a new line."""

_WRITTEN_OUT: Final = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(32), *range(127, 160), *_DIRECTIONS)
    if code not in (9, 10)
}


def plain_text(text: str) -> str:
    """``text`` without control sequences, every other control character written as its code.

    Newlines and tabs stay; of a line that ends with CR LF the CR goes.
    """
    if text.isprintable():
        return text
    return _SEQUENCE.sub("", text).replace("\r\n", "\n").translate(_WRITTEN_OUT)
