"""What a peer may send reads into a model and is written back equal: for every type.

The values are made from the published schemas, with unknown fields and absent, null and set
optional fields.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
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
from codex_acp.wire.codec import encode
from codex_acp.wire.registry import ModelRegistry
from tests.support.schema_values import ValueMaker, same_json

PINS = {key: pin.load() for key, pin in read_pins().items()}


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
    bundle, stable = PINS["codex/experimental.json"], PINS["codex/stable.json"]
    return (
        codex.flat_definitions(bundle),
        _names(lambda: codex.load(bundle, stable)),
        codex_methods.MODELS,
    )


def _acp(name: str, part: str, models: ModelRegistry) -> Any:
    schema = apply(PINS[f"acp/{name}{part}.json"], acp_overrides.PATCHES[name], strict=False)
    names = _names(lambda: acp.load(name, PINS[f"acp/{name}{part}.json"], PINS[f"acp/{name}.json"]))
    return schema["$defs"], names, models


PROTOCOLS = {
    "codex": _codex(),
    "acp": _acp("v1", "", acp_v1.STABLE_MODELS),
    "acp_unstable": _acp("v1", "_unstable", acp_v1.MODELS),
    "acp_v2": _acp("v2", "", acp_v2.STABLE_MODELS),
    "acp_v2_unstable": _acp("v2", "_unstable", acp_v2.MODELS),
    "acp_v2_unstable_as_unknown": _acp("v2", "_unstable", acp_v2.STABLE_MODELS),
}
"""All unions of version 2 are open: what is unstable is kept where it is not known."""

CASES = [(protocol, key) for protocol, (_, names, _) in PROTOCOLS.items() for key in sorted(names)]


VALUES_OF_EACH_TYPE = 8


@pytest.mark.parametrize(("protocol", "key"), CASES)
def test_a_value_of_every_type_is_written_as_it_was_read(protocol: str, key: str) -> None:
    definitions, names, models = PROTOCOLS[protocol]
    for number in range(VALUES_OF_EACH_TYPE):
        maker = ValueMaker(definitions, random.Random(f"{protocol}/{key}/{number}"))
        value = maker.make(definitions[key])
        written = json.loads(encode(models.decode(names[key], value, key)))
        assert same_json(written, value), f"value {number}: read {value!r}\nwrote {written!r}"


def test_every_class_of_every_protocol_is_reached() -> None:
    counts = {protocol: len(names) for protocol, (_, names, _) in PROTOCOLS.items()}
    assert counts["codex"] > 800
    assert counts["acp"] > 110
    assert counts["acp_unstable"] > counts["acp"]
    assert counts["acp_v2_unstable"] > counts["acp_v2"] > 110
