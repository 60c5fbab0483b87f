"""Whose a message is, by its first bytes."""

from __future__ import annotations

import pytest

from codex_acp.jsonrpc import (
    HEAD_BYTES,
    JsonValue,
    LineFramer,
    MessageHead,
    RequestId,
    TooLong,
    encode_error,
    encode_json,
    encode_request,
    encode_result,
    read_head,
)

LONG: JsonValue = {"id": 99, "text": '"id":98,"result":' + "x" * 5000}


def head_of(line: bytes) -> MessageHead | None:
    (too_long,) = LineFramer(1000).feed(line)
    assert isinstance(too_long, TooLong)
    assert len(too_long.head) == HEAD_BYTES
    return read_head(too_long.head)


@pytest.mark.parametrize("version", [True, False])
@pytest.mark.parametrize("request_id", [0, 17, -3, "0", 'a "quoted" \\ id', "ä"])
def test_each_kind_of_message_of_both_protocols_is_recognised(
    request_id: RequestId, *, version: bool
) -> None:
    params = encode_json(LONG)
    line = encode_request(request_id, "fs/write_text_file", params, version=version)
    assert head_of(line) == MessageHead("request", request_id)
    line = encode_result(request_id, params, version=version)
    assert head_of(line) == MessageHead("answer", request_id)
    line = encode_error(request_id, -1, "x" * 5000, version=version)
    assert head_of(line) == MessageHead("answer", request_id)


def test_white_space_between_the_members_is_no_matter() -> None:
    head = b' { "jsonrpc" : "2.0" ,\t"id" : 4 , "result" : [ 1, 2'
    assert read_head(head) == MessageHead("answer", 4)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"x" * 256,
        b'{"method":"m","params":{"id":1,"result":2}}',
        b'{"jsonrpc":"1.0","id":1,"result":2}',
        b'{"id":1.5,"result":"',
        b'{"id":null,"error":{',
        b'{"id":{"id":1,"result":2},"result":"',
        b'{"params":{},"id":1,"result":"',
        b'{"id":"' + b"x" * 300,
        b'{"id":"\\x","result":"',
        b'{"id":"\xff","result":"',
        b'{"id":1,"other":"',
        b'[{"id":1,"result":2}',
    ],
)
def test_what_does_not_tell_is_no_guess(head: bytes) -> None:
    assert read_head(head) is None
