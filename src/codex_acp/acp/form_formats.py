"""The string formats of forms, each as a grammar of its own.

Pure. Owns what a value of a format looks like; must not know fields or forms.

Sources: JSON Schema 2020-12 validation, section 7.3: ``email`` is the mailbox of RFC 5321 (without
quoted local parts and address literals), ``uri`` that of RFC 3986, ``date`` and ``date-time`` those
of RFC 3339, which has no date-time without an offset.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, assert_never
from urllib.parse import urlsplit

StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"]

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@{_LABEL}(?:\.{_LABEL})*")
_MAX_LOCAL: Final = 64
_MAX_EMAIL: Final = 254
"""Limits of RFC 5321, in characters."""

_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"
)
_DATE: Final = re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})")
_TIME: Final = re.compile(
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.[0-9]+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<off_hour>[0-9]{2}):(?P<off_minute>[0-9]{2}))"
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LAST_MINUTE: Final = 23 * 60 + 59
_MINUTES_OF_A_DAY: Final = 24 * 60


def misses_format(value: str, wanted: StringFormat) -> str | None:
    """The rule that ``value`` breaks, or None if it is of the wanted format."""
    match wanted:
        case "email":
            return None if _is_email(value) else "must be an email address"
        case "uri":
            return None if _is_uri(value) else "must be a URI"
        case "date":
            return None if _is_date(value) else "must be a date like 2025-12-31"
        case "date-time":
            if _is_date_time(value):
                return None
            return "must be a date and time like 2025-12-31T23:59:00Z"
        case _:
            assert_never(wanted)


def _is_email(value: str) -> bool:
    match = _EMAIL.fullmatch(value) if len(value) <= _MAX_EMAIL else None
    return match is not None and len(match["local"]) <= _MAX_LOCAL


def _is_uri(value: str) -> bool:
    if not _URI.fullmatch(value) or value.count("#") > 1:
        return False
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    return not {"[", "]"} & set(parts.path + parts.query + parts.fragment)


def _is_date(value: str) -> bool:
    match = _DATE.fullmatch(value)
    if match is None:
        return False
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if not (1 <= month <= len(_DAYS) and 1 <= day <= _DAYS[month - 1]):
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (month, day) != (2, 29) or leap


def _is_date_time(value: str) -> bool:
    date, separator, time = value[:10], value[10:11], value[11:]
    match = _TIME.fullmatch(time)
    if match is None or separator not in ("T", "t") or not _is_date(date):
        return False
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    off_hour, off_minute = int(match["off_hour"] or 0), int(match["off_minute"] or 0)
    if max(hour, off_hour) > 23 or max(minute, off_minute) > 59 or second > 60:
        return False
    offset = (off_hour * 60 + off_minute) * (-1 if match["sign"] == "-" else 1)
    utc = (hour * 60 + minute - offset) % _MINUTES_OF_A_DAY
    return second < 60 or utc == _LAST_MINUTE  # a leap second is the last of a day in UTC
