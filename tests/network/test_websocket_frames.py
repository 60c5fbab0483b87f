"""Small frames of a websocket are counted however the bytes arrive."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from codex_acp.adapter.network.limits import LARGE_FRAME, SMALL_FRAMES_AT_ONCE, WebSocketFrameLimit

HEAD = b"GET /acp HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"


def frame(size: int, opcode: int = 1) -> bytes:
    payload = b"x" * size
    if size < 126:
        return bytes([0x80 | opcode, 0x80 | size]) + bytes(4) + payload
    if size < 1 << 16:
        return bytes([0x80 | opcode, 0x80 | 126]) + size.to_bytes(2, "big") + bytes(4) + payload
    return bytes([0x80 | opcode, 0x80 | 127]) + size.to_bytes(8, "big") + bytes(4) + payload


@given(st.lists(st.integers(0, 210_000), max_size=8), st.integers(0, 2))
def test_the_count_does_not_depend_on_how_it_is_cut(cuts: list[int], more: int) -> None:
    large = frame(LARGE_FRAME) + frame(70_000)
    data = HEAD + large + frame(1, 9) * (SMALL_FRAMES_AT_ONCE - 1) + large + frame(200)
    data += frame(0) * more
    at = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    counted = WebSocketFrameLimit(lambda: 0.0)
    taken = [counted.accepts(data[a:b]) for a, b in pairwise(at)]
    assert all(taken) is (more == 0)


def test_a_client_that_sends_much_is_not_cut_off() -> None:
    counted = WebSocketFrameLimit(lambda: 0.0)
    assert counted.accepts(HEAD)
    assert all(counted.accepts(frame(LARGE_FRAME)) for _ in range(2 * SMALL_FRAMES_AT_ONCE))
