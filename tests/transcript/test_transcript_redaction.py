"""What may not be recorded is not recorded (contract 5.2)."""

from __future__ import annotations

import json
import re
import string
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp._urls import bare_url
from codex_acp.jsonrpc import JsonValue
from codex_acp.transcript import (
    ApprovalRequested,
    ElicitationAnswered,
    ElicitationRequested,
    Entry,
    OfferedOption,
    PromptEnded,
    RequestDeclined,
    ToolIdentity,
    Transcript,
    TranscriptEvent,
    TranscriptWriter,
    redacted,
)
from codex_acp.transcript.secrets import (
    REDACTED,
    remember_secrets,
    scrub,
    scrub_fields,
    without_remembered,
)
from tests.transcript.event_strategies import (
    DIGEST,
    REF,
    REF_OF_SESSION,
    answered,
    any_event,
    contents,
    quick,
)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
SECRETS = [
    ("sk-proj-abcdefgh12345678", "the key {} was refused"),
    ("sk-ant-api03-abcdefgh-12345678", "using {}"),
    (JWT, "got {}, expired"),
    ("abc.def-ghi_jkl~123", "sent Bearer {} to it"),
    ("dXNlcjpwYXNz", "Authorization: Basic {}"),
    ("dXNlcjpwYXNz", 'headers {{"Authorization": "Basic {}"}}'),
    ('username="mufasa", response="6629fae4"', "authorization: Digest {}"),
    ("id=77aa88bb", "Cookie: {}"),
    ("s3cr3t", "https://host.example/cb?code={}&x=1 failed"),
    ("s3cr3t", "see https://host.example/cb#access={}"),
    ("s3cr3t", "clone https://user:{}@host.example/x.git"),
    ("s3cr3t", "GET /callback?state={}&y=2"),
    ("correct horse", 'sent {{"password": "{}"}}'),
    ('quo\\"ted', 'sent {{"api_key": "{}"}}'),
    ("plainvalue", "OPENAI_API_KEY={} codex"),
    ("plainvalue", "client_secret: {}"),
    ("ghp_abcdefghijklmnop1234", "pushed with {}"),
    ("AKIAABCDEFGHIJKLMNOP", "as {}"),
    ("MIIEvQIBADANBg\nkqhkiG9w0BAQ", "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"),
    ("MIIEvQIBADANBg", "-----BEGIN RSA PRIVATE KEY-----\n{}"),
    ("dXNlcjpwYXNz0000", "sent Basic {}"),
    ("plainvalue", "mytool --api-key {} run"),
    ("plain value", "mytool --password '{}'"),
    ("s3cr3t", "curl -u bob:{} https://host.example/x"),
    ("plainvalue", "DB_PASS={} psql"),
    ("plainvalue", "GITHUB_PAT={}"),
    ("plainvalue", "AccountKey={};Endpoint=x"),
    ("plainvalue", "code_verifier={}"),
    ("plainvalue", "password%3D{}"),
    ("plainvalue", 'sent "{{\\"access_token\\": \\"{}\\"}}"'),
    ("T0/B0/xyz", "https://hooks.slack.com/services/{}"),
    ("ABCD-EFGH", '{{"userCode": "{}"}}'),
]


def written(event: TranscriptEvent, *, record_content: bool = False) -> str:
    """What the file holds after the event went the whole way."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcript.jsonl"
        transcript = Transcript(record_content=record_content)
        with TranscriptWriter(path) as writer:
            transcript.subscribe(writer.write)
            transcript.record(event)
        assert writer.lost == 0
        return path.read_text()


letters = st.text(string.ascii_letters + string.digits + "!#%+-_ '\\\"\n", min_size=6, max_size=20)
secrets = letters.map(lambda text: f"zq{text}qz")
"""Strings that stand nowhere else in an event."""


def with_secret(secret: str) -> st.SearchStrategy[dict[str, JsonValue]]:
    """Form contents that hold ``secret`` as a value somewhere, at any depth."""

    def wrap(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
        listed: st.SearchStrategy[JsonValue] = inner.map(lambda v: [1, v, "x"])
        return listed | inner.map(lambda v: {"inside": v})

    places: st.SearchStrategy[JsonValue] = st.recursive(
        st.sampled_from([secret, f"my {secret}.", secret * 2]), wrap, max_leaves=3
    )
    return st.builds(lambda rest, value: {**rest, "answer": value}, contents, places)


@quick
@given(data=st.data(), secret=secrets)
def test_5_2_no_value_of_a_form_is_ever_in_the_file(data: st.DataObject, secret: str) -> None:
    event = answered(data.draw(with_secret(secret)))
    text = written(event)
    line = json.loads(text)
    assert secret not in text
    assert json.dumps(secret)[1:-1] not in text
    assert line["content"] is None
    assert "answer" in line["fields"]


@quick
@given(secret=secrets, spell=st.sampled_from([str, repr, json.dumps]))
def test_5_2_a_problem_that_quotes_a_value_by_mistake_does_not_leak_it(
    secret: str, spell: Any
) -> None:
    line = json.loads(written(answered({"pin": secret}, f"pin: {spell(secret)} is too long")))
    assert spell(secret) not in line["problem"]
    assert secret not in line["problem"]
    assert line["problem"].startswith("pin: ")
    assert line["problem"].endswith(" is too long")


def test_5_2_a_short_value_is_found_as_a_word_only() -> None:
    event = redacted(answered({"n": 7, "m": "is"}, "n: 7 is below 17 in this"))
    assert isinstance(event, ElicitationAnswered)
    assert event.problem == f"n: {REDACTED} {REDACTED} below 17 in this"


def test_5_2_the_content_is_recorded_when_the_user_asks_for_it() -> None:
    line = json.loads(written(answered({"city": "Bern", "n": [1, "x"]}), record_content=True))
    assert line["content"] == {"city": "Bern", "n": [1, "x"]}


@pytest.mark.parametrize(
    "name", ["password", "API key", "githubToken", "client_secret", "PWD", "authCode"]
)
def test_5_2_content_of_a_field_with_a_secret_name_is_never_recorded(name: str) -> None:
    content: dict[str, JsonValue] = {"author": "Ada", "deep": {name: ["hunter2"]}, name: "hunter2"}
    text = written(answered(content), record_content=True)
    assert "hunter2" not in text
    assert json.loads(text)["content"] == {
        "author": "Ada",
        "deep": {name: REDACTED},
        name: REDACTED,
    }


def test_what_a_model_used_is_recorded_and_no_token() -> None:
    content: dict[str, JsonValue] = {
        "tokenUsage": {"total": {"totalTokens": 12, "accessToken": "hunter2"}},
        "tokens": {"github": "hunter2"},
        "max_tokens": "hunter2",
        "pinToken": 1234,
    }
    assert scrub_fields(content) == {
        "tokenUsage": {"total": {"totalTokens": 12, "accessToken": REDACTED}},
        "tokens": REDACTED,
        "max_tokens": REDACTED,
        "pinToken": REDACTED,
    }


@pytest.mark.parametrize(("secret", "template"), SECRETS)
def test_5_2_tokens_and_keys_are_in_no_text_of_an_event(secret: str, template: str) -> None:
    text = template.format(secret)
    option = OfferedOption("o", "allow_once", text)
    events: list[TranscriptEvent] = [
        RequestDeclined(ref=REF, route="decline", discriminator=text, reason=text, asked=False),
        ApprovalRequested(
            ref=REF,
            tool=ToolIdentity("shell", text),
            arguments_sha256=DIGEST,
            options=(option, option),
        ),
        PromptEnded(ref=REF_OF_SESSION, stop_reason=None, error=text),
        replace(answered({"a": text, "b": [text], "c": {"d": text}}), problem=text, server=text),
    ]
    for event in events:
        line = written(event, record_content=True)
        assert secret not in line
        assert json.dumps(secret)[1:-1] not in line
        assert REDACTED in line


@pytest.mark.parametrize(
    "text",
    [
        "the option is not one that was offered",
        "item/tool/requestUserInput: no such item in turn 0199-aa; exit code: 1",
        "every call of notes/write_note in this session, with any arguments",
        "task-sketch_live_test used 300 tokens: too many",
        "see https://host.example:8443/a/b for authors, is it open?",
        "monkey=1 author: Ada",
        "see https://host.example/a/b.py#L10-L20, tests that pass: 3, --max-tokens 100",
        "compass=1, the path: /x, git commit --author bob; -u bob",
    ],
)
def test_a_text_without_secrets_is_recorded_as_it_is(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    ("url", "recorded"),
    [
        ("https://h.example/connect?token=abc#frag", "https://h.example/connect"),
        ("https://user:pw@h.example:8443/a/b", "https://h.example:8443/a/b"),
        ("http://[::1]:9/cb?x", "http://[::1]:9/cb"),
        ("https://h.example", "https://h.example"),
        ("https://h.example/a;jsessionid=1/b", "https://h.example/a/b"),
        ("https://h.example/go/a1b2c3d4e5f6a7b8c9d0e1/ok", f"https://h.example/go/{REDACTED}/ok"),
        ("https://h.example:port/", REDACTED),
        ("javascript:alert(1)", REDACTED),
        ("", REDACTED),
        ("no url", REDACTED),
    ],
)
def test_5_2_of_a_url_scheme_host_and_path_are_recorded(url: str, recorded: str) -> None:
    assert bare_url(url) == recorded
    event = redacted(ElicitationRequested(ref=REF, mode="url", server="s", url=url))
    assert isinstance(event, ElicitationRequested)
    assert event.url == recorded


def test_a_very_long_text_is_cut_between_words_and_says_so() -> None:
    text = scrub("word " * 2000 + "sk-abcdefgh12345678")
    assert len(text) < 5000
    kept, _, note = text.rpartition(" [")
    left = int(note.split()[0])
    assert len(kept) + left == len("word " * 2000 + "sk-abcdefgh12345678")
    assert note == f"{left} more characters]"


@pytest.mark.parametrize("before", range(4080, 4100))
def test_5_2_a_token_at_the_cut_of_a_long_text_is_not_recorded_in_half(before: int) -> None:
    text = scrub("x" * 4000 + " " + "y" * (before - 4002) + " sk-abcdefgh12345678" + " tail" * 9)
    assert "sk-" not in text
    assert text.startswith("x" * 4000 + " ")


def test_5_2_what_an_approval_is_about_is_recorded_without_secrets() -> None:
    command = "curl -u me:hunter22 -H 'Authorization: Bearer abc.def-ghi_jkl~123' https://h.example"
    event = ApprovalRequested(
        ref=REF,
        tool=ToolIdentity("shell", "shell"),
        arguments_sha256=DIGEST,
        subject=(command, "update /w/a"),
        options=(),
    )
    (line, file) = redacted(event).subject  # type: ignore[union-attr]
    assert line.startswith("curl -u")
    assert not [secret for secret in ("hunter22", "abc.def-ghi_jkl~123") if secret in line]
    assert file == "update /w/a"


@quick
@given(event=any_event)
def test_ids_and_everything_without_secrets_stay_and_twice_is_once(event: TranscriptEvent) -> None:
    once = redacted(event)
    assert type(once) is type(event)
    assert once.ref == event.ref
    assert redacted(once) == once


def test_5_2_no_listener_sees_more_than_the_file() -> None:
    seen: list[Entry] = []
    transcript = Transcript()
    transcript.subscribe(seen.append)
    transcript.record(answered({"pin": "hunter2"}))
    (entry,) = seen
    assert "hunter2" not in repr(entry)
    assert isinstance(entry.event, ElicitationAnswered)
    assert entry.event.content is None


def test_5_2_an_event_in_a_log_line_does_not_show_the_content() -> None:
    assert "hunter2" not in repr(answered({"pin": "hunter2"}))


@pytest.mark.attack("MCP server")
@pytest.mark.parametrize(
    "text",
    [
        "the value {}",
        "{!r} in an exception",
        "/callback/{quoted}/x",
        "redirect={quoted_low}&x",
        "form+{plus}",
        'a JSON text "{escaped}"',
    ],
)
def test_a_secret_that_was_told_goes_however_it_is_written(text: str) -> None:
    secret = "käse 'und\\brot\"/+%zzz"
    remember_secrets([secret])
    low = re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quote(secret, safe=""))
    shown = text.format(
        secret,
        quoted=quote(secret, safe=""),
        quoted_low=low,
        plus=quote_plus(secret),
        escaped=json.dumps(secret, ensure_ascii=False)[1:-1],
    )
    said = scrub(shown)
    assert REDACTED in said
    assert "brot" not in said
    assert "zzz" not in said


@pytest.mark.attack("MCP server")
def test_each_line_of_a_secret_of_several_goes() -> None:
    """What an agent writes to stderr arrives line by line."""
    remember_secrets(["first-line-of-it\nsecond-line-of-it\nend"])
    for line in ("> first-line-of-it", "second-line-of-it <"):
        assert "line-of-it" not in scrub(line)
    assert scrub("the end") == "the end"


@pytest.mark.attack("MCP server")
def test_a_secret_that_was_told_goes_wherever_in_a_message_it_stands() -> None:
    remember_secrets(["abcde6", "abc-5"])
    message: JsonValue = {"said": ["an abcde6 and an abc-5", {"more": ["abcde6"]}], "count": 1}
    assert without_remembered(message) == {
        "said": [f"an {REDACTED} and an abc-5", {"more": [REDACTED]}],
        "count": 1,
    }, "but for a value so short that other words have it"
