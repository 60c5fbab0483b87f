"""Frames of HTTP/2 are counted however the bytes arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.adapter.network import limits as module
from codex_acp.adapter.network.limits import HTTP2_PREFACE, Http2FrameLimit


def frame(kind: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + bytes(4) + payload


def meter() -> Http2FrameLimit:
    return Http2FrameLimit(lambda: 0.0)


@given(st.lists(st.integers(0, 3000), max_size=8), st.integers(0, 3))
def test_the_count_does_not_depend_on_how_it_is_cut(cuts: list[int], more: int) -> None:
    module_frames = module.PENDING_FRAMES
    data = (
        HTTP2_PREFACE + frame(4, b"x" * 6) * (module_frames - 2) + frame(0, b"y" * 2000) + frame(1)
    )
    data += frame(6) * more
    at = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    counted = meter()
    taken = [counted.accepts(data[a:b], authorized=False) for a, b in pairwise(at)]
    assert all(taken) is (more == 0)


def test_a_client_that_sends_much_data_and_takes_much_is_not_cut_off() -> None:
    counted = meter()
    assert counted.accepts(HTTP2_PREFACE + frame(4), authorized=False)
    for _ in range(1_000):
        assert counted.accepts(frame(0, b"x" * 16_384) + frame(8, b"xxxx") * 2, authorized=True)


@pytest.mark.parametrize(
    "body", [b'{"text":"PRI * HTTP/2.0\\r\\n"}', b"PRI", b"GET / HTTP/1.1\r\n"]
)
def test_what_is_not_http2_is_not_counted(body: bytes) -> None:
    counted = meter()
    for _ in range(10_000):
        assert counted.accepts(body, authorized=False)
