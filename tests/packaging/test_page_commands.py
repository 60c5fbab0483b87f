"""Every command of the pages is run from the wheels, or says why it is not (``nox -s wheel``)."""

from __future__ import annotations

from tests.packaging.page_commands import NOT_RUN, WAYS, command_lines


def test_every_command_of_a_page_is_run_or_says_why_not() -> None:
    there = {line for lines in command_lines().values() for line in lines}
    assert there == WAYS.keys() | NOT_RUN.keys()
    assert not WAYS.keys() & NOT_RUN.keys()
    assert all(NOT_RUN.values())
