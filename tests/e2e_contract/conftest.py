"""One adapter and one Codex for each module; the checks that belong to every test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e_contract.contract_bench import ContractBench


@pytest.fixture(scope="module")
async def module_bench(request: pytest.FixtureRequest) -> AsyncIterator[ContractBench]:
    """The bench that the module describes as ``make_bench``."""
    bench: ContractBench = request.module.make_bench(request.getfixturevalue("tmp_path_factory"))
    try:
        await bench.start()
        yield bench
    finally:
        await bench.stop()


@pytest.fixture
async def bench(module_bench: ContractBench) -> AsyncIterator[ContractBench]:
    """The module's bench; afterwards all that must hold is checked."""
    yield module_bench
    module_bench.check()
