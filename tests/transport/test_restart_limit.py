"""What keeps ending is started so many times in a span of time, and then not."""

from __future__ import annotations

from codex_acp.transport.restart_limit import RestartLimit, Restarts

LIMIT = RestartLimit()


def test_starts_are_free_until_there_are_too_many_and_again_when_they_are_old() -> None:
    restarts = Restarts()
    for number in range(LIMIT.count):
        assert restarts.seconds_to_wait(100.0 + number) == 0
        restarts.add(100.0 + number)
    assert restarts.seconds_to_wait(110.0) == LIMIT.seconds - 10
    assert restarts.seconds_to_wait(100.0 + LIMIT.seconds) == 0
    restarts.add(100.0 + LIMIT.seconds)
    assert restarts.seconds_to_wait(100.0 + LIMIT.seconds) == 1.0


def test_what_ends_seldom_is_started_every_time() -> None:
    restarts = Restarts()
    for start in range(10):
        now = start * LIMIT.seconds / 2
        assert restarts.seconds_to_wait(now) == 0
        restarts.add(now)


def test_the_limit_is_the_programs() -> None:
    restarts = Restarts(RestartLimit(count=2, seconds=10))
    restarts.add(0)
    assert restarts.seconds_to_wait(1) == 0
    restarts.add(5)
    assert restarts.seconds_to_wait(9) == 1
    assert restarts.seconds_to_wait(10) == 0
