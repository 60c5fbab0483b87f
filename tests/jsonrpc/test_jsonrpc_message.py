"""What is a message, and what a malformed one deserves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from codex_acp.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    EncodedJson,
    ErrorObject,
    ErrorResponse,
    JsonValue,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    encode_error,
    encode_json,
    encode_notification,
    encode_request,
    encode_result,
)

WELL_FORMED: list[tuple[str, Message]] = [
    ('{"method":"m"}', Notification("m", None)),
    ('{"method":"m","params":null}', Notification("m", None)),
    ('{"method":"m","params":{"a":1}}', Notification("m", {"a": 1})),
    ('{"jsonrpc":"2.0","method":"m","params":[1]}', Notification("m", [1])),
    ('{"method":"m","extra":1}', Notification("m", None)),
    ('{"id":0,"method":"m"}', Request(0, "m", None)),
    ('{"id":"0","method":"m","params":{}}', Request("0", "m", {})),
    ('{"id":-7,"method":"","params":[]}', Request(-7, "", [])),
    ('{"id":1,"result":null}', Response(1, None)),
    ('{"id":"a","result":[1]}', Response("a", [1])),
    ('{"id":1.0,"result":2}', Response(1, 2)),
    ('{"id":-1e2,"error":{"code":-1,"message":"no"}}', ErrorResponse(-100, ErrorObject(-1, "no"))),
    ('{"id":1,"error":{"code":-1,"message":"no"}}', ErrorResponse(1, ErrorObject(-1, "no"))),
    (
        '{"id":null,"error":{"code":1,"message":"","data":{"x":2}}}',
        ErrorResponse(None, ErrorObject(1, "", {"x": 2})),
    ),
]

ANSWERED: list[tuple[str, int | str | None]] = [
    ("[]", None),
    ('[{"method":"m"}]', None),
    ("1", None),
    ("null", None),
    ('"text"', None),
    ("true", None),
    ("{}", None),
    ('{"foo":1}', None),
    ('{"params":{}}', None),
    ('{"id":true,"method":"m"}', None),
    ('{"id":false,"method":"m"}', None),
    ('{"id":1.0,"method":"m"}', None),
    ('{"id":null,"method":"m"}', None),
    ('{"id":[1],"method":"m"}', None),
    ('{"id":{},"method":"m"}', None),
    ('{"id":1,"method":2}', 1),
    ('{"id":"x","method":null}', "x"),
    ('{"method":true}', None),
    ('{"method":1,"params":{}}', None),
    ('{"id":1,"method":"m","params":"text"}', 1),
    ('{"id":1,"method":"m","params":0}', 1),
    ('{"id":1,"method":"m","params":false}', 1),
    ('{"method":"m","params":true}', None),
    ('{"jsonrpc":"1.0","id":1,"method":"m"}', 1),
    ('{"jsonrpc":2.0,"id":1,"method":"m"}', 1),
    ('{"jsonrpc":null,"method":"m"}', None),
    ('{"jsonrpc":"1.0","method":"m"}', None),
]

NEVER_ANSWERED: list[tuple[str, int | str | None]] = [
    ('{"id":1}', 1),
    ('{"id":null}', None),
    ('{"jsonrpc":"2.0","id":"a"}', "a"),
    ('{"id":1,"result":1,"error":{"code":1,"message":"m"}}', 1),
    ('{"id":1,"result":1,"error":null}', 1),
    ('{"id":1,"method":"m","result":1}', 1),
    ('{"id":1,"method":"m","error":{"code":1,"message":"m"}}', 1),
    ('{"method":"m","result":1}', None),
    ('{"result":1}', None),
    ('{"id":null,"result":1}', None),
    ('{"id":true,"result":1}', None),
    ('{"id":1.5,"result":1}', None),
    ('{"error":{"code":1,"message":"m"}}', None),
    ('{"id":true,"error":{"code":1,"message":"m"}}', None),
    ('{"id":1,"error":null}', 1),
    ('{"id":1,"error":"text"}', 1),
    ('{"id":1,"error":{"message":"m"}}', 1),
    ('{"id":1,"error":{"code":1}}', 1),
    ('{"id":1,"error":{"code":true,"message":"m"}}', 1),
    ('{"id":1,"error":{"code":1.0,"message":"m"}}', 1),
    ('{"id":1,"error":{"code":1,"message":null}}', 1),
    ('{"jsonrpc":"1.0","id":1,"result":1}', 1),
    ('{"jsonrpc":"1.0","id":1,"error":{"code":1,"message":"m"}}', 1),
]


def same(left: object, right: object) -> bool:
    """Equal, with the types of ids told apart (in Python 0 == False)."""
    return repr(left) == repr(right)


@pytest.mark.parametrize(("line", "message"), WELL_FORMED)
def test_a_message_is_read(line: str, message: Message) -> None:
    assert same(decode(line.encode()), message)
    assert same(decode(line.encode(), from_json), message)


@pytest.mark.parametrize(("line", "answer_id"), ANSWERED)
def test_a_malformed_request_is_to_be_answered(line: str, answer_id: int | str | None) -> None:
    found = decode(line.encode())
    assert isinstance(found, Malformed)
    assert same((found.id, found.code, found.answerable), (answer_id, INVALID_REQUEST, True))


@pytest.mark.parametrize(("line", "response_id"), NEVER_ANSWERED)
def test_a_malformed_response_is_never_to_be_answered(
    line: str, response_id: int | str | None
) -> None:
    found = decode(line.encode())
    assert isinstance(found, Malformed)
    assert same((found.id, found.code, found.answerable), (response_id, INVALID_REQUEST, False))


@pytest.mark.parametrize("line", [b"{", b"\xff", b"nonsense", b'{"a":1}}', b"[" * 100_000])
@pytest.mark.parametrize("loads", [json.loads, from_json])
def test_what_is_not_json_is_a_parse_error_without_an_id(line: bytes, loads: object) -> None:
    assert callable(loads)
    found = decode(line, loads)
    assert isinstance(found, Malformed)
    assert same((found.id, found.code, found.answerable), (None, PARSE_ERROR, True))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"key": secret}', "not valid JSON: an error at column 9"),
        (b'{"key": "\xff"}', "not valid JSON: not UTF-8 at byte 9"),
    ],
)
@pytest.mark.parametrize("loads", [json.loads, from_json])
def test_a_parse_error_names_the_place_and_quotes_nothing(
    line: bytes, reason: str, loads: Any
) -> None:
    found = decode(line, loads)
    assert isinstance(found, Malformed)
    assert found.reason == reason


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), KeyError(1)])
def test_whatever_the_decoder_raises_is_a_parse_error(error: Exception) -> None:
    def loads(_: bytes) -> object:
        raise error

    found = decode(b"{}", loads)
    assert isinstance(found, Malformed)
    assert found.code == PARSE_ERROR


ids = st.one_of(st.integers(), st.text())
values: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
params = st.one_of(
    st.none(), st.lists(values, max_size=3), st.dictionaries(st.text(), values, max_size=3)
)


def one_line(line: bytes) -> bytes:
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    return line


def encoded(value: JsonValue, indent: int | None) -> EncodedJson:
    """As a model may write it: UTF-8 unescaped, perhaps over several lines."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return EncodedJson(text.replace("\n", "\r\n").encode())


indents = st.sampled_from([None, 2])


@given(ids, st.text(), params, st.booleans(), indents)
def test_a_request_survives_the_round_trip(
    request_id: int | str,
    method: str,
    given_params: list[JsonValue] | dict[str, JsonValue] | None,
    version: bool,
    indent: int | None,
) -> None:
    wire = None if given_params is None else encoded(given_params, indent)
    line = one_line(encode_request(request_id, method, wire, version=version))
    assert same(decode(line), Request(request_id, method, given_params))
    assert (b'"jsonrpc":"2.0"' in line[:17]) == version
    line = one_line(encode_notification(method, wire, version=version))
    assert same(decode(line), Notification(method, given_params))
    assert (b'"jsonrpc":"2.0"' in line[:17]) == version


@given(ids, values, st.booleans(), indents)
def test_a_result_survives_the_round_trip(
    request_id: int | str, result: JsonValue, version: bool, indent: int | None
) -> None:
    line = one_line(encode_result(request_id, encoded(result, indent), version=version))
    assert same(decode(line), Response(request_id, result))


@given(ids | st.none(), st.integers(), st.text(), values, st.booleans())
def test_an_error_survives_the_round_trip(
    request_id: int | str | None, code: int, message: str, data: JsonValue, version: bool
) -> None:
    line = one_line(encode_error(request_id, code, message, data, version=version))
    assert same(decode(line), ErrorResponse(request_id, ErrorObject(code, message, data)))
    assert (b'"data"' in line) or data is None


def test_an_absent_params_member_is_left_out() -> None:
    assert encode_request(0, "m", None, version=True) == b'{"jsonrpc":"2.0","id":0,"method":"m"}\n'
    assert encode_notification("m", None, version=False) == b'{"method":"m"}\n'


@pytest.mark.parametrize("value", [float("nan"), [float("inf"), float("nan")]])
def test_what_json_cannot_hold_is_not_encoded(value: JsonValue) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode_json(value)


@pytest.mark.parametrize("text", ["1e400", "-1E+0400", "1" * 400 + ".0"])
def test_a_number_that_reads_as_an_infinity_is_written_as_null(text: str) -> None:
    value = json.loads(f'{{"a":[1,{text}],"b":{text}}}')
    assert encode_json(value) == b'{"a":[1,null],"b":null}'
