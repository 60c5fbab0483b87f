"""Both JSON decoders of a connection take the same lines and give the same values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.jsonrpc import EncodedJson, Malformed, Request, decode, encode_result
from codex_acp.transport.json_decoding import (
    MAX_SURROGATES,
    default_loads,
    fast_loads,
    standard_loads,
)

Loads = Callable[[bytes], object]

BOTH = pytest.mark.parametrize("loads", [fast_loads, standard_loads])

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
PIECES = ["[", "]", "{", "}", '"', ",", ":", "1", "-", ".5", "e9", "true", "null", " ", "NaN",
          "Infinity", "\\", "u", "d83d", "\\ude00", "\\n", "é", "\t", "\x0c", "\ufeff"]  # fmt: skip

BROKEN = [
    b"NaN", b"-Infinity", b'{"a":Infinity}', b"", b"nul", b"[1,]", b"01", b"'a'", b'"\x00"',
    b'"\\u12"', b'"\\x"', b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", b"\x0c1", b"1 2",
    '"a"'.encode("utf-16"), b"[" * 250 + b"]" * 250, b"[" * 5000, b"1" * 5000, b'"\\ud800',
]  # fmt: skip

SURROGATES = [
    (rb'"\ud800"', "\ufffd"),
    (rb'"a\uDFFFb"', "a\ufffdb"),
    (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
    (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
    (rb'"\ud83d\ude00"', "\U0001f600"),
    (rb'"\\ud800"', r"\ud800"),
    (rb'"\\\ud800"', "\\\ufffd"),
    (rb'"\\ud83d\ude00"', "\\ud83d\ufffd"),
    (rb'"\\\ud83d\ude00\ud83d"', "\\\U0001f600\ufffd"),
    (rb'"\ud83d\\ude00"', "\ufffd\\ude00"),
    (rb'"\ud83dA"', "\ufffdA"),
    (rb'"\ud83d\n"', "\ufffd\n"),
]


@BOTH
@pytest.mark.parametrize("line", BROKEN)
def test_what_is_no_json_is_refused(loads: Loads, line: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as refusal:
        loads(line)
    assert type(refusal.value) is ValueError


@BOTH
@pytest.mark.parametrize(("line", "value"), SURROGATES)
def test_an_unpaired_surrogate_reads_as_the_replacement_character(
    loads: Loads, line: bytes, value: str
) -> None:
    assert loads(line) == value
    assert loads(b'{"k":[' + line + b"]}") == {"k": [value]}
    assert loads(b"{" + line + b":1}") == {value: 1}


@pytest.mark.attack("network")
@BOTH
@pytest.mark.parametrize("escape", [rb"\n", rb"\\", rb"\u000a"])
def test_an_unpaired_surrogate_among_many_escapes_takes_little_memory(
    loads: Loads, escape: bytes
) -> None:
    line = b'["' + escape * 300_000 + rb'\ud800"]'
    tracemalloc.start()
    try:
        loads(line)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(line)
    finally:
        tracemalloc.stop()


@BOTH
def test_more_escaped_surrogates_than_a_line_may_have_are_refused(loads: Loads) -> None:
    pairs = rb"\ud83d\ude00" * MAX_SURROGATES
    assert loads(b'"' + pairs + b'"') == "\U0001f600" * MAX_SURROGATES
    with pytest.raises(ValueError, match="too many escaped surrogates"):
        loads(b'"' + pairs + rb'\ud83d"')


@BOTH
@given(value=VALUES, ascii_only=st.booleans())
def test_json_gives_its_value(loads: Loads, value: object, ascii_only: bool) -> None:
    assert loads(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_both_judge_every_line_alike(text: str) -> None:
    assert _outcome(fast_loads, text.encode()) == _outcome(standard_loads, text.encode())


@pytest.mark.parametrize("depth", [199, 200, 201, 202])
def test_both_take_the_same_depth(depth: int) -> None:
    for line in (b"[" * depth + b"]" * depth, b'{"":' * depth + b"1" + b"}" * depth):
        assert _outcome(fast_loads, line) == _outcome(standard_loads, line)


def test_the_default_changes_once_pydantic_core_is_loaded() -> None:
    code = (
        "import sys\n"
        "from codex_acp.transport.json_decoding import default_loads, fast_loads, standard_loads\n"
        "assert default_loads() is standard_loads\n"
        "assert default_loads()(b'[1]') == [1] and 'pydantic_core' not in sys.modules\n"
        "import pydantic_core\n"
        "assert default_loads() is fast_loads\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert default_loads() is fast_loads


WHILE_ANOTHER_THREAD_IMPORTS_IT = """
import sys, threading
from codex_acp.transport.json_decoding import default_loads, standard_loads

assert default_loads() is standard_loads
threading.Thread(target=__import__, args=("pydantic_core",), daemon=True).start()
while not hasattr(sys.modules.get("pydantic_core._pydantic_core"), "from_json"):
    pass
print(standard_loads(b"[" + b"[]," * 300 + b"1]")[-1])
"""


def test_a_long_line_does_not_wait_for_a_thread_that_imports_the_decoder(tmp_path: Path) -> None:
    """The decoder is there before its module is: an import would wait for the module."""
    slow = tmp_path / "pydantic_core"
    slow.mkdir()
    (slow / "_pydantic_core.py").write_text(
        "import json\ndef from_json(line, **_): return json.loads(line)\n"
    )
    (slow / "__init__.py").write_text(
        "from . import _pydantic_core\n__import__('time').sleep(3600)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", WHILE_ANOTHER_THREAD_IMPORTS_IT],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "1\n"


def _outcome(loads: Loads, line: bytes) -> str:
    try:
        return repr(loads(line))
    except ValueError as error:
        return type(error).__name__


@BOTH
@pytest.mark.parametrize("spelt", [rb"\ud800", rb"a\udfff", rb"\udfff\ud800", r"\ud83d�".encode()])
def test_an_unpaired_surrogate_in_an_id_is_in_its_answer(loads: Loads, spelt: bytes) -> None:
    request = decode(b'{"id":"%b","method":"m","jsonrpc":"2.0","params":{}}' % spelt, loads)
    assert isinstance(request, Request)
    answer = encode_result(request.id, EncodedJson(b"{}"), version=True)
    assert json.loads(answer)["id"] == json.loads(b'"%b"' % spelt)
    malformed = decode(b'{"id":"%b","method":7}' % spelt, loads)
    assert isinstance(malformed, Malformed)
    assert malformed.id == request.id
