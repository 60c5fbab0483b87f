"""What a client may send: it is answered once under its own id, and nothing is allowed by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import CodexHome
from tests.fuzz.adapter_process import AdapterProcess
from tests.fuzz.fuzzed_codex import FuzzedCodex

pytestmark = [pytest.mark.e2e, pytest.mark.attack("client")]

Json = dict[str, Any]


class Client:
    """An adapter whose Codex is a stand-in, and a session in it."""

    def __init__(self, home: CodexHome, folder: Path) -> None:
        self.cwd = home.workspace
        self.codex = FuzzedCodex(folder)
        env = {**home.env, "CODEX_PATH": str(self.codex.path)}
        self.adapter = AdapterProcess(env)
        self.adapter.initialize()
        self._before = 0

    def new_session(self) -> str:
        params = {"cwd": str(self.cwd), "mcpServers": []}
        session: str = self.adapter.ask("session/new", params)["result"]["sessionId"]
        return session

    def start(self, request_id: object, session: str, text: str) -> None:
        blocks = [{"type": "text", "text": text}]
        params = {"sessionId": session, "prompt": blocks}
        self.adapter.say({"id": request_id, "method": "session/prompt", "params": params})

    def asked(self) -> Json:
        """The next question of the agent."""
        asked = self.adapter.wait_for_question()
        self.adapter.asked.remove(asked)
        return asked

    def decisions(self) -> list[object]:
        """What Codex was answered since the test began."""
        lines = self._answers()[self._before :]
        return [json.loads(line).get("result", {}).get("decision") for line in lines]

    def begin(self) -> None:
        self._before = len(self._answers())

    def _answers(self) -> list[str]:
        answers = self.codex.answers
        return answers.read_text().splitlines() if answers.exists() else []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with CodexHome() as home:
        client = Client(home, tmp_path_factory.mktemp("codex"))
        try:
            yield client
            client.adapter.stop()
        finally:
            client.adapter.kill()


@pytest.fixture
def client(shared: Client) -> Iterator[Client]:
    """The shared one; after each test all is answered and a prompt works."""
    shared.begin()
    yield shared
    shared.adapter.settle()
    shared.adapter.works(shared.cwd)


def selected(option: object) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": option}}


GUESSES: dict[str, Callable[[Json], Any]] = {
    "allow": lambda _: selected("allow"),
    "allow_once": lambda _: selected("allow_once"),
    "a number": lambda _: selected(0),
    "the name instead of the id": lambda asked: selected(asked["params"]["options"][0]["name"]),
    "the id in capitals": lambda asked: selected(allowing(asked).upper()),
    "the id and a space": lambda asked: selected(allowing(asked) + " "),
    "the id in a list": lambda asked: selected([allowing(asked)]),
    "no outcome": lambda asked: {"optionId": allowing(asked)},
    "an outcome that is a text": lambda _: {"outcome": "selected"},
    "cancelled with an option": lambda asked: {
        "outcome": {"outcome": "cancelled", "optionId": allowing(asked)}
    },
    "the answer to a form": lambda _: {"action": "accept", "content": {}},
    "nothing": lambda _: None,
    "true": lambda _: True,
}


def allowing(asked: Json) -> str:
    options = asked["params"]["options"]
    return next(str(each["optionId"]) for each in options if each["kind"] == "allow_once")


@pytest.mark.parametrize("guess", GUESSES.values(), ids=GUESSES)
def test_a_permission_answered_with(client: Client, guess: Callable[[Json], Any]) -> None:
    client.start("p", client.new_session(), "ask")
    asked = client.asked()
    client.adapter.say({"id": asked["id"], "result": guess(asked)})
    client.adapter.settle()
    assert client.decisions() == ["decline"]


def test_an_option_of_another_question(client: Client) -> None:
    client.start("p", client.new_session(), "ask")
    client.start("q", client.new_session(), "ask")
    first, second = client.asked(), client.asked()
    client.adapter.say({"id": first["id"], "result": selected(allowing(second))})
    client.adapter.say({"id": second["id"], "result": selected(allowing(first))})
    client.adapter.settle()
    assert client.decisions() == ["decline", "decline"]


def test_a_second_answer_to_a_question(client: Client) -> None:
    client.start("p", client.new_session(), "ask")
    asked = client.asked()
    no = asked["params"]["options"][-1]
    assert no["kind"].startswith("reject")
    for option in (no["optionId"], allowing(asked), allowing(asked)):
        client.adapter.say({"id": asked["id"], "result": selected(option)})
    client.adapter.settle()
    assert client.decisions() == ["decline"]


def test_an_answer_whose_id_has_another_type(client: Client) -> None:
    client.start("p", client.new_session(), "ask")
    asked = client.asked()
    for other in (str(asked["id"]), [asked["id"]], None, True):
        client.adapter.say({"id": other, "result": selected(allowing(asked))})
    client.adapter.say(
        {"id": asked["id"], "result": selected(asked["params"]["options"][-1]["optionId"])}
    )
    client.adapter.settle()
    assert client.decisions() == ["decline"]


def test_an_answer_behind_the_cancel(client: Client) -> None:
    session = client.new_session()
    client.start("p", session, "ask")
    asked = client.asked()
    client.adapter.say({"method": "session/cancel", "params": {"sessionId": session}})
    client.adapter.say({"id": asked["id"], "result": selected(allowing(asked))})
    client.adapter.settle()
    assert client.decisions() == ["cancel"]


def test_answers_to_questions_that_nobody_has_asked_yet(client: Client) -> None:
    for guess in range(200):
        client.adapter.say({"id": guess, "result": selected("allow")})
    client.start("p", client.new_session(), "ask")
    asked = client.asked()
    client.adapter.say({"id": asked["id"], "error": {"code": 0, "message": "allow"}})
    client.adapter.settle()
    assert client.decisions() == ["decline"]


PING = {"jsonrpc": "2.0", "id": "ping", "method": "session/levitate", "params": {}}

LINES = {
    "a million open brackets": b"[" * 1_000_000 + b"\n",
    "a million objects in each other": b'{"a":' * 1_000_000 + b"\n",
    "a batch": b"[" + b",".join([json.dumps(PING).encode()] * 1000) + b"]\n",
    "twin members": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b","params":{}}\n',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":NaN,"y":-Infinity}}\n',
    "a number of four thousand digits": b'{"jsonrpc":"2.0","id":%b,"method":"a"}\n' % (b"9" * 4000),
    "a fraction as id": b'{"jsonrpc":"2.0","id":1.5,"method":"a"}\n',
    "null as id": b'{"jsonrpc":"2.0","id":null,"method":"session/new","params":{}}\n',
    "true as id": b'{"jsonrpc":"2.0","id":true,"method":"session/new","params":{}}\n',
    "bytes that are no UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe\xc0\xaf"}\n',
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps(PING).encode() + b"\n",
    "UTF-16": json.dumps(PING).encode("utf-16") + b"\n",
    "CRLF": json.dumps(PING).encode() + b"\r\n",
    "carriage returns alone": b"\r" * 100_000 + b"\n",
    "a header of LSP": b"Content-Length: 2\r\n\r\n{}\r\n",
    "NUL bytes": b"\x00" * 100_000 + b"\n",
    "a method of a megabyte": json.dumps({**PING, "method": "m" * 1_000_000}).encode() + b"\n",
    "an id of a megabyte": json.dumps({**PING, "id": "i" * 1_000_000}).encode() + b"\n",
    "another version": b'{"jsonrpc":"1.0","id":1,"method":"initialize","params":{}}\n',
    "a request and an answer at once": b'{"jsonrpc":"2.0","id":1,"method":"a","result":{}}\n',
    "ten thousand unknown methods": b"".join(
        json.dumps({**PING, "id": n, "method": f"m/{n}"}).encode() + b"\n" for n in range(10_000)
    ),
    "ten thousand cancels of nothing": b"".join(
        json.dumps(
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": n}}
        ).encode()
        + b"\n"
        for n in range(10_000)
    ),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_line_with(client: Client, line: bytes) -> None:
    client.adapter.write(line)


@pytest.mark.parametrize("version", [0, -1, 65535, "1", None])
def test_a_protocol_version_of(tmp_path: Path, version: object) -> None:
    with CodexHome() as home:
        env = {**home.env, "CODEX_PATH": str(FuzzedCodex(tmp_path).path)}
        adapter = AdapterProcess(env)
        try:
            answer = adapter.ask("initialize", {"protocolVersion": version})
            if "result" in answer:  # the highest that this agent has, and what is older than all
                assert (version, answer["result"]["protocolVersion"]) in ((65535, 2), (0, 1))
            else:
                adapter.initialize()
                adapter.works(home.workspace)
            adapter.stop()
        finally:
            adapter.kill()


def test_an_id_that_is_used_again_while_it_is_open(client: Client) -> None:
    session = client.new_session()
    for _ in range(20):
        client.start("p", session, "wait")
    client.adapter.settle()


def test_a_hundred_prompts_at_once_and_cancels_among_them(client: Client) -> None:
    session = client.new_session()
    for number in range(100):
        client.start(f"p{number}", session, ("say", "ask", "form", "wait")[number % 4])
        if number % 7 == 0:
            client.adapter.say({"method": "session/cancel", "params": {"sessionId": session}})
    client.adapter.settle()
    assert "accept" not in client.decisions()


@pytest.mark.parametrize(
    "session", ["../../../etc/passwd", "x" * 1_000_000, "\x00", "\x1b[2J", "", "__proto__", "a/b"]
)
def test_a_session_id_that_is(client: Client, session: str) -> None:
    of = {"sessionId": session, "cwd": str(client.cwd), "mcpServers": []}
    for method in ("session/load", "session/resume", "session/close", "session/delete"):
        client.adapter.ask(method, of)
