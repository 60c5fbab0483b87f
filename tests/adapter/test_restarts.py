"""A Codex that keeps ending is started three times in a minute, and then not."""

from __future__ import annotations

from codex_acp.adapter.server.restarts import MAX_STARTS, WINDOW_SECONDS, Restarts


def test_starts_are_free_until_there_are_too_many_and_again_when_they_are_old() -> None:
    restarts = Restarts()
    for number in range(MAX_STARTS):
        assert restarts.seconds_to_wait(100.0 + number) == 0
        restarts.begun(100.0 + number)
    assert restarts.seconds_to_wait(110.0) == WINDOW_SECONDS - 10
    assert restarts.seconds_to_wait(100.0 + WINDOW_SECONDS) == 0
    restarts.begun(100.0 + WINDOW_SECONDS)
    assert restarts.seconds_to_wait(100.0 + WINDOW_SECONDS) == 1.0


def test_a_codex_that_ends_seldom_is_started_every_time() -> None:
    restarts = Restarts()
    for start in range(10):
        now = start * WINDOW_SECONDS / 2
        assert restarts.seconds_to_wait(now) == 0
        restarts.begun(now)
