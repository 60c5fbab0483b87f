"""Lines are taken only if a decoder would have read just that; texts are as it would write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from codex_acp.jsonrpc.framing import LineFramer
from codex_acp.jsonrpc.message import Notification, decode
from codex_acp.transport.continuation import MAX_TAIL, Continuation
from codex_acp.transport.json_decoding import fast_loads

IDS: Final = {"threadId": "t", "turnId": "u", "itemId": 'i"\\'}

Line = Callable[[bytes], bytes]


def as_codex_does(text: bytes, moment: bytes = b"1795402247784") -> bytes:
    head = to_json({"method": "m", "params": IDS})[:-2]
    return head + b',"delta":"' + text + b'"},"emittedAtMs":' + moment + b"}"


def in_another_order(text: bytes) -> bytes:
    ids = json.dumps(IDS).encode()[1:-1]
    return b'{"params": {"delta": "' + text + b'", ' + ids + b'}, "method": "m"}'


LINES: Final = (as_codex_does, in_another_order)


class Taken:
    """What was written and noted after a line."""

    def __init__(self, line: bytes, text: str = "a") -> None:
        self.written: list[bytes] = []
        self.noted: list[bytes] = []
        self.takes = True
        self.framer = LineFramer()
        said = Notification("m", {**IDS, "delta": text})
        self.continuation = Continuation.of(
            line, said, "delta", self.write, self.noted.append, fast_loads
        )

    def write(self, text: bytes) -> bool:
        if self.takes:
            self.written.append(text)
        return self.takes

    def take(self, data: bytes) -> bytes | None:
        assert self.continuation is not None
        return self.continuation.take(data, self.framer)


def escaped(text: str) -> bytes:
    return to_json(text)[1:-1]


TEXTS = st.text() | st.sampled_from(
    ['"},"emittedAtMs":1795402247784}\n', "\\", "\x00", "\x7f", "\u2028"]
)


@pytest.mark.parametrize("line", LINES)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), cut=st.integers(0, 30))
def test_texts_are_carried_over_as_they_would_be_written(
    line: Line, texts: list[str], cut: int
) -> None:
    taken = Taken(line(b"a"))
    data = b"".join(line(escaped(text)) + b"\n" for text in texts)
    begun = line(b"rest")[:cut]
    left = taken.take(data + begun)
    if "".join(texts):
        assert left is None
        assert taken.written == taken.noted == [escaped("".join(texts))]
        assert taken.framer.whole_with(b"") == begun
    else:
        assert left == data + begun


PARTS = st.sampled_from(
    [
        as_codex_does(b"b") + b"\n",
        as_codex_does(b"b", b"1795402247785") + b"\n",
        as_codex_does(b"b", b"0795402247785") + b"\n",
        as_codex_does(b"b", b"5") + b"\n",
        as_codex_does(b"b").partition(b'"b"')[0],
        as_codex_does(b"b").partition(b'"b"')[2] + b"\n",
        as_codex_does(b"b") + b"\r\n",
        in_another_order(b"b") + b"\n",
        as_codex_does(b"\xc3") + b"\n",
        as_codex_does(b"\xa9") + b"\n",
        as_codex_does(b"\\ud83d") + b"\n",
        as_codex_does(b"\\u00e9\\/") + b"\n",
        as_codex_does(b"\\u001b\\u001B") + b"\n",
        as_codex_does(b"\x00") + b"\n",
        as_codex_does(b"\\") + b"\n",
        as_codex_does(b'x"},"delta":"y') + b"\n",
        as_codex_does(b'","itemId":"j","delta":"y') + b"\n",
        b"\0", b"\n", b" ", b"b", b'"', b"\\", b"}",
    ]
)  # fmt: skip


@given(parts=st.lists(PARTS | st.binary(max_size=2), max_size=5))
def test_nothing_is_taken_that_a_decoder_reads_differently(parts: list[bytes]) -> None:
    taken = Taken(as_codex_does(b"a"))
    data = b"".join(parts)
    left = taken.take(data)
    lines = LineFramer().feed(data)
    texts: list[str] = []
    for line in lines:
        assert isinstance(line, bytes)
        message = decode(line, fast_loads)
        if isinstance(message, Notification) and isinstance(message.params, dict):
            text = message.params.get("delta")
            if message == Notification("m", {**IDS, "delta": text}) and isinstance(text, str):
                texts.append(text)
    if left is None:
        assert len(texts) == len(lines)
        assert taken.written == taken.noted == [escaped("".join(texts))]
    else:
        assert left == data
        assert not taken.written
        assert not taken.noted


def test_a_line_that_comes_in_two_reads_is_taken_whole() -> None:
    taken = Taken(as_codex_does(b"a"))
    data = as_codex_does(b"one") + b"\n" + as_codex_does(b"two") + b"\n"
    for cut in range(len(as_codex_does(b"one")) + 1, len(data)):
        taken.written.clear()
        assert taken.take(data[:cut]) is None
        assert taken.take(data[cut:]) is None
        assert taken.written == [b"one", b"two"]
        assert not taken.framer.pending


def test_what_is_not_taken_is_given_back_with_what_came_before_it() -> None:
    taken = Taken(as_codex_does(b"a"))
    line = as_codex_does(b"one") + b"\n"
    assert taken.take(line + line[:9]) is None
    assert taken.take(b"{}\n") == line[:9] + b"{}\n"
    assert taken.framer.feed(line) == [line[:-1]]


def test_a_line_above_the_limit_is_for_the_framer() -> None:
    taken = Taken(as_codex_does(b"a"))
    line = as_codex_does(b"b" * 100) + b"\n"
    taken.framer = LineFramer(len(line) - 1)
    assert taken.take(line) == line
    assert not taken.written


def test_a_head_that_is_none_is_not_made_up_for() -> None:
    taken = Taken(as_codex_does(b"a"))
    line = as_codex_does(b"b") + b"\n"
    head, _, rest = line.partition(b'b"}')
    forged = b"\0b" + line[len(head) + 1 :]
    assert rest in forged
    data = forged + b"x" * (len(head) - 2) + b"\n"
    assert len(data) == len(line)
    assert taken.take(data) == data


def test_what_may_not_be_written_is_not_noted() -> None:
    taken = Taken(as_codex_does(b"a"))
    taken.takes = False
    line = as_codex_does(b"b") + b"\n"
    assert taken.take(line) == line
    assert not taken.noted


def test_what_cannot_be_noted_is_not_written_twice(caplog: pytest.LogCaptureFixture) -> None:
    taken = Taken(as_codex_does(b"a"))
    said = Notification("m", {**IDS, "delta": "a"})

    def fail(text: bytes) -> None:
        raise RuntimeError(text)

    continuation = Continuation.of(
        as_codex_does(b"a"), said, "delta", taken.write, fail, fast_loads
    )
    assert continuation is not None
    assert continuation.take(as_codex_does(b"b") + b"\n", taken.framer) is None
    assert taken.written == [b"b"]
    assert "could not be noted" in caplog.text


HOSTILE: Final = {
    "the text is that of another member": b'{"method":"m","params":{"delta":"a","threadId":"t",'
    b'"turnId":"u","itemId":"i\\"\\\\"},"more":{"delta":"a"}}',
    "the last of two members counts": b'{"method":"m","params":{"delta":"b","threadId":"t",'
    b'"turnId":"u","itemId":"i\\"\\\\","delta":"a","x\\"delta":"a"}}',
    "params of another kind": as_codex_does(b"a").replace(b'"delta"', b'"later":1,"delta"'),
    "another item": as_codex_does(b"a").replace(b'"itemId":"i', b'"itemId":"j'),
    "a text that is spelled otherwise": as_codex_does(b"\\u0061"),
    "a request": as_codex_does(b"a").replace(b'"emittedAtMs"', b'"id"'),
    "more than a pattern is made of": as_codex_does(b"a").replace(
        b'"emittedAtMs"', b'"later":"' + b"x" * MAX_TAIL + b'","emittedAtMs"'
    ),
    "no JSON": as_codex_does(b"a")[:-1],
    "an empty line": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_goes_on_after(name: str) -> None:
    assert Taken(HOSTILE[name]).continuation is None
