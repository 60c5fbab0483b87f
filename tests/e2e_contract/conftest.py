"""One adapter and one Codex for each module and version of ACP; the checks of every test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e_contract.contract_bench import VERSIONS, ContractBench


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a test is not run in. Not by parametrizing ``version`` again: fixtures of the
    module would not notice."""
    left = [item for item in items if _is_wanted(item)]
    config.hook.pytest_deselected(items=[item for item in items if not _is_wanted(item)])
    items[:] = left


def _is_wanted(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("in_version")
    return mark is None or item.callspec.params["version"] in mark.args  # type: ignore[attr-defined] # of pytest's own functions


@pytest.fixture(scope="module", params=VERSIONS, ids=[f"v{version}" for version in VERSIONS])
def version(request: pytest.FixtureRequest) -> int:
    """Of ACP: each test is run in each, but for those that are `IN_V1_ONLY`."""
    given: int = request.param
    return given


@pytest.fixture(scope="module")
async def module_bench(
    request: pytest.FixtureRequest, version: int
) -> AsyncIterator[ContractBench]:
    """The bench that the module describes as ``make_bench``, else one of its ``SCENES`` alone."""
    make = getattr(request.module, "make_bench", None)
    factory = request.getfixturevalue("tmp_path_factory")
    bench: ContractBench = (
        make(factory, version) if make else ContractBench(request.module.SCENES, version)
    )
    try:
        await bench.start()
        yield bench
    finally:
        await bench.stop()


@pytest.fixture
async def bench(module_bench: ContractBench, version: int) -> AsyncIterator[ContractBench]:
    """The module's bench; afterwards all that must hold is checked."""
    assert module_bench.version == version
    yield module_bench
    module_bench.check()
