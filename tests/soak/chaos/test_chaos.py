"""A few seeds; ``nox -s chaos -- --minutes 5`` tries as many as there is time for."""

from __future__ import annotations

from collections import Counter

import pytest

from codex_acp.adapter.sessions.opener import SessionOpener
from tests.soak.chaos.chaos import Chaos, smallest
from tests.soak.chaos.network_chaos import NetworkChaos
from tests.soak.chaos.world import Chances

SEEDS = range(7, 13)


@pytest.mark.attack("client")
def test_whatever_a_client_and_codex_do_each_request_is_answered_and_nothing_is_left() -> None:
    counts = Counter[str]()
    for seed in SEEDS:
        world = Chaos(seed).run()
        assert world.wrong == [], f"seed {seed}"
        counts += world.counts
    assert counts["commands allowed"] > 0
    assert counts["deaths of Codex"] > 0


def test_what_is_left_is_found_with_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keeps(*_: object) -> None: ...

    monkeypatch.setattr(SessionOpener, "unload", keeps)
    seed = next(s for s in range(1, 9) if Chaos(s).world.chances == Chances())
    world = smallest(seed)
    assert any("still loaded" in what for what in world.wrong)
    assert world.steps < 10


@pytest.mark.attack("network")
def test_whatever_clients_of_two_owners_do_neither_hears_of_the_other() -> None:
    for seed in range(3, 6):
        world = NetworkChaos(seed).run()
        assert world.wrong == [], f"seed {seed}"
