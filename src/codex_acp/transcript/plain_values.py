"""PURE: recognise values that are no secrets: words, figures, hosts and paths.

In doubt, a value counts as a secret.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_MAX_VALUE: Final = 4096
"""Most characters of a plain value."""
_MAX_WORD: Final = 20
"""Most letters of a word."""
_MAX_WORDS: Final = 3
"""Most joined words of a plain value; more words may be a password."""
_ABBREVIATION: Final = 3
"""Most letters of an abbreviation (``sql``, ``mcp``), which is not checked with `_FOLLOWERS`."""
_PAIRS: Final = (
    "a:abcdefghiklmnprstuvwxyz b:abcdeghijlnoprstuy c:acdefhiklmoprstuy d:abcdefghijlmnoprstuvwy"
    " e:abcdefghijklmnopqrstuvwxyz f:aefilorstuy g:acdeghilmnoprstu h:abeilmnorstuy"
    " i:abcdefgklmnopqrstuvxz j:aeiosu k:aefhilnorstu l:abcdefghiklmnoprstuvwy m:abcdeilmnopstuy"
    " n:abcdefghijklmnopqrstuvwy o:abcdefghijklmnoprstuvwxyz p:acdefhilmnoprstuy q:lu"
    " r:abcdefgiklmnoprstuvwy s:abcdefghiklmnopqrstuvwy t:abcdefghiklmnoprstuvwyz"
    " u:abcdefgilmnoprst v:aeiop w:aehilnors x:aceipt y:abcdegilmnoprstw z:aeio"
)
"""Letter → letters that follow it in English words. Only such pairs are in 19 of 20 English words,
but in 1 of 300 texts of 16 random letters."""
_FOLLOWERS: Final = dict(pair.split(":") for pair in _PAIRS.split())
_FIGURE: Final = re.compile(
    r"[+-]?\d{1,12}(?:\.\d{1,6})?(?:%|ms|[smhd]|[kKMGT]i?[bB]?)?"
    r"|v?\d{1,5}(?:\.\d{1,5}){1,3}(?:[-.+]?(?:a|b|rc|alpha|beta|dev|post)\.?\d{0,3})?"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?Z?)?"
    r"|(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)"
    r"(?:/[A-Za-z_-]{2,20}){1,2}(?:[+-]\d{1,2})?"
    r"|[a-z]{2,3}[_-][A-Z]{2}(?:\.[\w-]{1,12})?(?:@[a-z]{1,10})?|C\.(?:UTF-8|utf8)"
)
"""A number with or without a unit, a version, a date, a time zone or a locale."""
_BETWEEN_ITEMS: Final = re.compile(r"[,;]\s*|\s+(?=--?[A-Za-z])")
_SETTING: Final = re.compile(r"(-{0,2}[A-Za-z][\w:-]*)(?:[= ](.*))?", re.DOTALL)
_HOST: Final = re.compile(r"(?:localhost|\[[0-9a-f:]{2,39}\]|\.?[\w-]{1,63}(?:\.[\w-]{1,63})+)(?::\d{1,5})?")  # fmt: skip  # noqa: E501
_WORDS: Final = re.compile(r"[A-Za-z0-9]+(?:[-_./ ][A-Za-z0-9]+)*")
_BETWEEN_WORDS: Final = re.compile(r"[-_./ ]")
_WORDS_WITH_DIGITS: Final = frozenset({"256color", "base64", "oauth2", "python3", "sha256", "utf8"})
"""Words that are no secrets in spite of their digits."""
_NUMBERED: Final = re.compile(r"[A-Za-z]{0,2}\d{1,2}[A-Za-z]?")
"""A short number, perhaps with letters: ``v2``, ``3b``."""
_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.@+~ /\\:-]*")
_RUN: Final = re.compile(r"[A-Za-z0-9]{8,}")
_CHANGE: Final = re.compile(r"(?<=[a-z])[A-Z]|(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d")
"""A capital after a small letter, or a change between letters and digits."""
_MAX_DIGITS: Final = 12
"""Most digits of a run that can be a plain number."""
_LONG_RUN: Final = 16
"""Least characters of a run that looks random if more than a fifth of them are digits."""
_SLUG: Final = re.compile(r"/?[A-Za-z0-9]+(?:[-_./:]+[A-Za-z0-9]+)*[-_/]*")
_SLUG_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_MAX_SLUG: Final = 100


def is_plain(text: str) -> bool:
    """Return whether a value, or each item in it, is a few words, a figure, a host or a path."""
    return len(text) <= _MAX_VALUE and all(map(_is_plain_item, _BETWEEN_ITEMS.split(text.strip())))


def is_path(text: str) -> bool:
    """Return whether a text is a path or several, without a part that looks random."""
    parts = re.split(r"[/\\:]", text)
    return _PATH.fullmatch(text) is not None and not any(map(looks_random, parts))


def is_slug(text: str) -> bool:
    """Return whether a text is any number of words joined by marks, as in a page's fragment."""
    if len(text) > _MAX_SLUG or _SLUG.fullmatch(text) is None:
        return False
    parts = re.split(r"[-_./:]+", text)
    return not any(map(looks_random, parts)) and all(
        word.isdigit() or len(word) <= _ABBREVIATION or _is_word(word.lower())
        for part in parts
        for word in _SLUG_PARTS.findall(part)
    )


def looks_random(text: str) -> bool:
    """Return whether a text has a run that is too long for a name, or in which letters and digits
    alternate too often."""
    return any(
        len(_CHANGE.findall(run)) > len(run) // 5
        or (run.isdigit() and len(run) > _MAX_DIGITS)
        or (len(run) >= _LONG_RUN and sum(map(str.isdigit, run)) > len(run) // 5)
        or (run.isalpha() and len(run) > _MAX_WORD and not _is_wordlike(run.lower()))
        for run in _RUN.findall(text)
    )


def _is_plain_item(text: str) -> bool:
    if not text or _FIGURE.fullmatch(text) or is_path(text):
        return True
    if _HOST.fullmatch(text):
        return not looks_random(text) and all(
            part.isdigit() or re.fullmatch(r"[\[\]0-9a-f]*", part) is not None or _are_words(part)
            for part in re.split("[.:]", text)
        )
    setting = _SETTING.fullmatch(text)
    if setting and (text[0] == "-" or "=" in text):
        name, value = setting[1].lstrip("-"), setting[2] or ""
        return is_slug(name) and _is_plain_item(value)
    return _are_words(text)


def _are_words(text: str) -> bool:
    if not _WORDS.fullmatch(text):
        return False
    words = numbers = 0
    for part in _BETWEEN_WORDS.split(text):
        if part.lower() in _WORDS_WITH_DIGITS or (part.isalpha() and _is_word(part)):
            words += 1
        elif _NUMBERED.fullmatch(part):
            numbers += 1
        else:
            return False
    return 1 <= words <= _MAX_WORDS and numbers <= 2


def _is_word(text: str) -> bool:
    """Return whether a text looks like a word with one case, or with a capital at its start."""
    if not (text.islower() or text.isupper() or text.istitle()):
        return False
    return len(text) <= _ABBREVIATION or (len(text) <= _MAX_WORD and _is_wordlike(text.lower()))


def _is_wordlike(letters: str) -> bool:
    return all(b in _FOLLOWERS.get(a, "") for a, b in pairwise(letters))
