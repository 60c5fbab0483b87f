"""What an older Codex sends can be read: the models ask for nothing that it does not have."""

from __future__ import annotations

import random
from typing import Any

import pytest

from codegen import codex, regen
from codegen.bundles import EXPERIMENTAL, STABLE, read_schema_set
from codegen.ir import ClassDef, FieldDef
from codegen.older import RECEIVED, readable
from codegen.pinned import SCHEMA_DIR, read_pins
from codex_acp.codex._generated.methods import MODELS
from codex_acp.errors import InvalidPayload
from tests.support import small_protocol
from tests.support.schema_values import ValueMaker

Schema = dict[str, Any]


def small(edit: Any = None) -> Any:
    files = small_protocol.files(edit).files
    return codex.load(files[EXPERIMENTAL], files[STABLE], strict=False)


def field(protocol: Any, owner: str, wire: str) -> FieldDef:
    definition = protocol.definitions[owner]
    assert isinstance(definition, ClassDef)
    return next(f for f in definition.fields if f.wire == wire)


def test_a_field_that_an_older_version_lacks_is_not_required() -> None:
    def older(definitions: Schema) -> None:
        del definitions["v2"]["Thing"]["properties"]["name"]
        definitions["v2"]["Thing"]["required"] = []

    found = field(readable(small(), {"0.9.0": small(older)}), "Thing", "name")
    assert not found.required
    assert "Codex 0.9.0 may leave it out." in found.doc


def test_a_field_that_could_be_null_still_can() -> None:
    def older(definitions: Schema) -> None:
        definitions["v2"]["Thing"]["properties"]["name"] = {"type": ["string", "null"]}

    found = field(readable(small(), {"0.9.0": small(older)}), "Thing", "name")
    assert (found.required, found.node) == (True, {"anyOf": [{"type": "string"}, {"type": "null"}]})


def test_what_we_send_is_not_touched() -> None:
    def older(definitions: Schema) -> None:
        definitions["v2"]["ThingGetParams"] = {"type": "object", "properties": {}}

    assert field(readable(small(), {"0.9.0": small(older)}), "ThingGetParams", "id").required


def _older_bundles() -> list[str]:
    return regen.older_keys(read_pins())


UNREADABLE = {
    "0.147.0": {"hooks/list": "its hooks have no handler type yet; nothing here asks for them"}
}
"""Version → what these models cannot read of it, and why that is no harm."""

VALUES_OF_EACH = 6


@pytest.mark.parametrize("key", _older_bundles())
def test_every_message_of_an_older_version_can_be_read(key: str) -> None:
    version = read_pins()[key].version
    files = read_schema_set(SCHEMA_DIR / key).files
    protocol = codex.load(files[EXPERIMENTAL], files[STABLE], strict=False)
    now = regen.load_codex()
    definitions = codex.flat_definitions(files[EXPERIMENTAL])
    trouble: dict[str, str] = {}
    for direction, part in RECEIVED:
        here = {m.wire: getattr(m, part) for m in now.methods[direction]}
        for method in protocol.methods[direction]:
            old = getattr(method, part)
            if old is None or here.get(method.wire) is None:
                continue
            for number in range(VALUES_OF_EACH):
                rng = random.Random(f"{method.wire}/{number}")
                value = ValueMaker(definitions, rng).make(definitions[old])
                try:
                    MODELS.decode(here[method.wire], value, method.wire)
                except InvalidPayload as error:
                    trouble[method.wire] = str(error)
    assert trouble.keys() == UNREADABLE.get(version, {}).keys(), trouble
