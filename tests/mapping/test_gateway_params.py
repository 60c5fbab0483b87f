"""Where a thread is told of a gateway, beside what else there is of providers."""

from __future__ import annotations

import pytest

from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.session_setup import gateway_of, with_gateway

GATEWAY = gateway_of("https://gateway.example/v1", {})


WHOLE = "model_providers"
DOTTED = "model_providers.custom-gateway"


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({f"{WHOLE}.p.name": "P"}, [DOTTED, f"{WHOLE}.p.name"]),
        ({WHOLE: {"a b": {"name": "P"}}}, [WHOLE]),
    ],
)
def test_other_providers_are_not_hidden_by_the_gateway(
    config: dict[str, JsonValue], keys: list[str]
) -> None:
    told = with_gateway({"config": config}, GATEWAY)["config"]
    assert isinstance(told, dict)
    assert sorted(told) == keys
    for text in ("'P'", "'https://gateway.example/v1'"):
        assert text in str(told)
