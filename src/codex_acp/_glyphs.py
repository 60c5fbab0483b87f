"""PURE: find characters that a person cannot see, and make text safe for a terminal.

Owns the tables of characters that show nothing, and of characters that become codes.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from typing import Final

_PRINTABLE_WITHOUT_GLYPH: Final = frozenset(
    {
        0x034F,  # combining grapheme joiner
        0x115F, 0x1160, 0x3164, 0xFFA0,  # Hangul fillers
        0x17B4, 0x17B5,  # Khmer inherent vowels
        0x180B, 0x180C, 0x180D, 0x180F,  # Mongolian variation selectors
        0x2800,  # Braille pattern blank
        *range(0xFE00, 0xFE10),  # variation selectors
        *range(0xE0100, 0xE01F0),  # variation selectors supplement
    }
)  # fmt: skip
"""Characters that show nothing, although `str.isprintable` calls them printable. Source: Unicode's
property Default_Ignorable_Code_Point, and the blank of Braille."""


def has_glyph(char: str) -> bool:
    """Return whether a person sees ``char``. Of the spaces only U+0020 counts as visible."""
    return char.isprintable() and ord(char) not in _PRINTABLE_WITHOUT_GLYPH


_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, and moves of the cursor
    # A title or link; no further one begins in its text, which is so searched only once.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"  # all others
)
"""The control sequences of terminals. Source: ECMA-48, and ``]…BEL`` of xterm."""

_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that change a line's direction or begin a new line."""

CONTROL_CODES: Final = {
    char: f"\\x{char:02x}" if char < 256 else f"\\u{char:04x}"
    for char in (*range(32), *range(127, 160), *_DIRECTIONS)
    if char not in (9, 10)  # tab and newline
}
"""Control character → the code that is shown in its place."""


def plain_text(text: str) -> str:
    """Return ``text`` without control sequences; other control characters become codes."""
    if text.isprintable():
        return text
    return _SEQUENCE.sub("", text).replace("\r\n", "\n").translate(CONTROL_CODES)
