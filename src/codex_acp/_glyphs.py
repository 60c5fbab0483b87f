"""Which characters a person can see.

Owns the table of those that Python calls printable although they show nothing.
"""

from __future__ import annotations

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
"""Characters that show nothing, although `str.isprintable` calls them printable. Source: the
property Default_Ignorable_Code_Point of the Unicode Character Database, and the blank of Braille.
"""


def has_glyph(char: str) -> bool:
    """Return whether a person sees ``char``; of all spaces only the plain one counts as seen."""
    return char.isprintable() and ord(char) not in _PRINTABLE_WITHOUT_GLYPH
