"""2.5: the formats of a form's text."""

# ruff: noqa: RUF001 - digits of other scripts are what is tested

from __future__ import annotations

import calendar
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.form_answers import misses_format
from codex_acp.acp.types import StringFormat
from tests.routing.form_strategies import FORMATTED

GOOD = {
    "email": [
        "a@b", "a.b+c@mail.example.org", "o'neil@example.com", "1@2.example", "a@" + "b" * 63,
    ],
    "uri": [
        "https://example.com", "http://[::1]:80/", "mailto:a@b.c", "urn:a", "x:%20", "a:b?c#d",
    ],
    "date": [
        "2024-02-29", "2000-02-29", "0000-01-01", "9999-12-31", "2023-04-30",
    ],
    "date-time": [
        "2024-02-29T00:00:00Z", "2024-02-29t23:59:59.123456789z", "2024-02-29T23:59:59+23:59",
        "2024-02-29T23:59:59-00:00", "2016-12-31T23:59:60Z", "2016-12-31T15:59:60-08:00",
        "2017-01-01T05:29:60+05:30",
    ],
}  # fmt: skip
BAD = {
    "email": [
        "", "a", "@b", "a@", "a@b@c", "a b@c", "a@b c", ".a@b", "a.@b", "a..b@c", "a@-b", "a@b-",
        "a@b..c", "a@.b", "a@b.", "a@b\n", "\na@b", "<a@b>", "A <a@b>", '"a"@b', "a@[1.2.3.4]",
        "ü@b", "a@ü", "a" * 65 + "@b", "a@" + "b" * 64, "a@" + "b." * 130 + "c", "a,b@c",
    ],
    "uri": [
        "", "a", "/a", "//a", "a b:c", ":a", "1:a", "x:", "https://a b", "https://ü", "x:%2",
        "x:%zz", "x:\\a", "x:<a>", "x:a\n", " x:a", "http://[::1", "http://a:99999/", "x:a#b#c",
        "x:[a]", 'x:"', "http://a/[b]", "x:^", "x:{a}", "x:`", "x:|",
    ],
    "date": [
        "", "2023-02-29", "1900-02-29", "2024-00-01", "2024-13-01", "2024-01-00", "2024-01-32",
        "2024-04-31", "24-01-01", "2024-1-1", "20240101", "2024-01-01Z", "2024-01-01\n",
        " 2024-01-01", "２０２４-01-01", "2024/01/01", "+2024-01-01",
    ],
    "date-time": [
        "", "2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z", "2024-01-01T00:00Z",
        "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z", "2024-01-01T00:00:61Z",
        "2024-01-01T00:00:60Z", "2024-01-01T23:59:60+01:00", "2024-01-01T00:00:00+24:00",
        "2024-01-01T00:00:00+00:60", "2024-01-01T00:00:00.Z", "2024-01-01T00:00:00+0000",
        "2024-02-30T00:00:00Z", "2024-01-01T00:00:00Z\n", "T00:00:00Z", "2024-01-01T0٠:00:00Z",
    ],
}  # fmt: skip
"""Format → texts that are none."""


@pytest.mark.parametrize(("wanted", "value"), [(f, v) for f in GOOD for v in GOOD[f]])
def test_2_5_a_text_of_a_format_is_taken(wanted: str, value: str) -> None:
    assert _misses(wanted, value) is None


@pytest.mark.parametrize(("wanted", "value"), [(f, v) for f in BAD for v in BAD[f]])
def test_2_5_a_text_that_misses_its_format_is_refused(wanted: str, value: str) -> None:
    problem = _misses(wanted, value)
    assert problem is not None
    assert problem.startswith("must be a")


@given(st.integers(1, 9999), st.integers(0, 13), st.integers(0, 32))
def test_a_date_is_one_of_the_calendar(year: int, month: int, day: int) -> None:
    real = 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
    assert (_misses("date", f"{year:04}-{month:02}-{day:02}") is None) is real


@pytest.mark.parametrize("wanted", sorted(FORMATTED))
@given(data=st.data())
def test_generated_texts_are_taken(wanted: str, data: st.DataObject) -> None:
    assert _misses(wanted, data.draw(FORMATTED[wanted])) is None


@pytest.mark.parametrize("wanted", sorted(FORMATTED))
@given(text=st.text())
def test_any_text_gets_an_answer_at_once(wanted: str, text: str) -> None:
    """No pattern takes long, and none accepts spaces or line ends."""
    problem = _misses(wanted, text * 50)
    assert problem is not None or not set(text) & set(" \n\t")


def test_a_hostile_text_is_refused_in_no_time() -> None:
    for text in ("a." * 50_000 + "@", "a@" + "a-" * 50_000, "x:" + "%2" * 50_000, "1" * 100_000):
        for wanted in FORMATTED:
            assert _misses(wanted, text) is not None


def _misses(wanted: str, value: str) -> str | None:
    return misses_format(value, cast("StringFormat", wanted))
