"""Each fault of `tests.mutants.table` can still be planted; ``nox -s mutants`` plants them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.__main__ import ROOT, planted
from tests.mutants.table import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_fault_fits_its_file_exactly_once_and_is_python(mutant: Mutant) -> None:
    text = (ROOT / "src" / "codex_acp" / mutant.file).read_text(encoding="utf-8")
    compile(planted(text, mutant), mutant.file, "exec")
    assert all((ROOT / test).exists() for test in mutant.tests.split())


def test_a_fault_that_fits_nowhere_or_twice_is_named() -> None:
    mutant = MUTANTS[0]
    for text in ("", mutant.old * 2):
        with pytest.raises(ValueError, match=mutant.name):
            planted(text, mutant)
    assert Counter(each.name for each in MUTANTS).most_common(1)[0][1] == 1
