"""`codex_acp._last_ones`: whatever is set and removed, the last ones are there, and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codex_acp._last_ones import LastOnes

KEYS = st.integers(0, 6)
STEPS = st.lists(st.tuples(st.sampled_from(["set", "default", "pop", "update"]), KEYS))


@given(most=st.integers(1, 5), steps=STEPS)
def test_it_is_a_dict_of_the_last_keys_that_were_set(
    most: int, steps: list[tuple[str, int]]
) -> None:
    found: LastOnes[int, int] = LastOnes(most)
    order: list[int] = []
    for number, (step, key) in enumerate(steps):
        known = key in found
        if step == "set":
            found[key] = number
        elif step == "update":
            found.update({key: number})
        elif step == "default":
            assert found.setdefault(key, number) == found[key]
        else:
            found.pop(key, None)
        if step != "default" or not known:
            order = [each for each in order if each != key]
            order = (order if step == "pop" else [*order, key])[-most:]
        assert list(found) == order
