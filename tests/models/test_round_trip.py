"""What a peer may send reads into a model and is written back equal: for every type.

The values are made from the published schemas, with unknown fields and absent, null and set
optional fields.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import Any

import pytest

from codegen import acp, codex
from codegen.normalise import Normaliser
from codegen.overrides import acp as acp_overrides
from codegen.patches import apply
from codegen.pinned import read_pins
from codex_acp.acp._generated.v1 import methods as acp_v1
from codex_acp.acp._generated.v2 import methods as acp_v2
from codex_acp.codex._generated import methods as codex_methods
from codex_acp.errors import InvalidPayload
from codex_acp.wire.codec import encode
from codex_acp.wire.registry import ModelRegistry
from tests.support.schema_values import ValueMaker, same_json


@cache
def _pin(key: str) -> Any:
    return read_pins()[key].load()


def _names(load: Callable[[], object]) -> dict[str, str]:
    """Schema definition → class name, as the generator decided."""
    seen: list[Normaliser] = []
    original = Normaliser.definition

    def spy(self: Normaliser, key: str) -> str:
        if self not in seen:
            seen.append(self)
        return original(self, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Normaliser, "definition", spy)
        load()
    return dict(seen[0].names)


def _codex() -> tuple[dict[str, Any], dict[str, str], ModelRegistry]:
    bundle, stable = _pin("codex/experimental.json"), _pin("codex/stable.json")
    return (
        codex.flat_definitions(bundle),
        _names(lambda: codex.load(bundle, stable)),
        codex_methods.MODELS,
    )


def _acp(name: str, part: str, models: ModelRegistry) -> Any:
    schema = apply(_pin(f"acp/{name}{part}.json"), acp_overrides.PATCHES[name], strict=False)
    names = _names(lambda: acp.load(name, _pin(f"acp/{name}{part}.json"), _pin(f"acp/{name}.json")))
    return schema["$defs"], names, models


PROTOCOLS: dict[str, Callable[[], Any]] = {
    "codex": _codex,
    "acp": partial(_acp, "v1", "", acp_v1.STABLE_MODELS),
    "acp_unstable": partial(_acp, "v1", "_unstable", acp_v1.MODELS),
    "acp_v2": partial(_acp, "v2", "", acp_v2.STABLE_MODELS),
    "acp_v2_unstable": partial(_acp, "v2", "_unstable", acp_v2.MODELS),
    "acp_v2_unstable_as_unknown": partial(_acp, "v2", "_unstable", acp_v2.STABLE_MODELS),
}
"""All unions of version 2 are open: what is unstable is kept where it is not known."""

TYPES = {"codex": 800, "acp": 110, "acp_unstable": 111, "acp_v2": 110, "acp_v2_unstable": 111}
"""More types than these, so that every class of a protocol is reached."""

VALUES_OF_EACH_TYPE = 8


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_value_of_every_type_is_written_as_it_was_read(protocol: str) -> None:
    definitions, names, models = PROTOCOLS[protocol]()
    assert len(names) > TYPES.get(protocol, 0)
    wrong = []
    for key, number in product(sorted(names), range(VALUES_OF_EACH_TYPE)):
        maker = ValueMaker(definitions, random.Random(f"{protocol}/{key}/{number}"))
        value = maker.make(definitions[key])
        try:
            written = json.loads(encode(models.decode(names[key], value, key)))
        except InvalidPayload as error:
            wrong.append(f"{key} {number}: read {value!r}\n{error}")
            continue
        if not same_json(written, value):
            wrong.append(f"{key} {number}: read {value!r}\nwrote {written!r}")
    assert not wrong, f"{len(wrong)} values:\n" + "\n".join(wrong[:20])
