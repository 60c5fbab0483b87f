"""The scripted model over plain HTTP."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from codex_acp.errors import MisuseError
from codex_acp.testing import Delay, Disconnect, Fail, Gate, ModelResponse, ScriptedModel, Text


def post(model: ScriptedModel, body: object = None, path: str = "/responses") -> tuple[int, str]:
    """Status and text of one request."""
    raw = body if isinstance(body, bytes) else json.dumps(body or {"input": []}).encode()
    with closing(connected(model)) as connection:
        connection.request("POST", urlsplit(model.base_url).path + path, raw)
        response = connection.getresponse()
        return response.status, response.read().decode()


def connected(model: ScriptedModel) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(model.base_url).netloc, timeout=60)


@pytest.fixture
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_responses_are_streamed_and_requests_recorded() -> None:
    with ScriptedModel([[Text("a")], [Text("b")]]) as model:
        status, text = post(model, {"input": [], "model": "m1"})
        assert status == 200
        assert '"delta":"a"' in text
        assert text.rstrip().splitlines()[-2] == "event: response.completed"
        assert model.remaining == 1
        post(model, {"input": [], "model": "m2"})
    assert [request.model for request in model.requests] == ["m1", "m2"]
    assert model.requests[0].headers["host"].startswith("127.0.0.1:")


def test_a_failure_has_its_status_body_and_headers() -> None:
    fail = Fail(429, {"error": {"message": "slow down"}}, {"Retry-After": "7"})
    with ScriptedModel([[fail]]) as model, closing(connected(model)) as connection:
        connection.request("POST", "/v1/responses", b"{}")
        response = connection.getresponse()
        assert response.status == 429
        assert response.headers["Retry-After"] == "7"
        assert json.loads(response.read()) == {"error": {"message": "slow down"}}


def test_an_exhausted_script_says_so() -> None:
    with ScriptedModel([]) as model:
        status, text = post(model)
        assert status == 400
        assert "no response left" in text
        assert model.unanswered == model.requests


def test_a_repeated_response_has_new_ids_each_time() -> None:
    with ScriptedModel([ModelResponse(Text("a"), repeat=True)]) as model:
        assert "msg_0_0" in post(model)[1]
        assert "msg_1_0" in post(model)[1]


@pytest.mark.parametrize(("body", "path"), [(b"{", "/responses"), (b"[]", "/responses")])
def test_what_is_not_a_request_is_refused_and_uses_nothing(body: bytes, path: str) -> None:
    with ScriptedModel([[Text("a")]]) as model:
        assert post(model, body, path)[0] == 400
        assert model.remaining == 1


def test_another_path_is_not_found() -> None:
    with ScriptedModel([[Text("a")]]) as model, closing(connected(model)) as connection:
        assert post(model, path="/other")[0] == 404
        connection.request("GET", "/v1/models")
        assert connection.getresponse().status == 404


def test_a_disconnect_ends_the_stream_without_an_end() -> None:
    with ScriptedModel([[Text("a"), Disconnect()]]) as model:
        assert "response.completed" not in post(model)[1]


@pytest.mark.usefixtures("no_thread_stays")
def test_a_gate_holds_back_what_comes_after_it() -> None:
    with ScriptedModel([[Text("before"), Gate("go"), Text("after")]]) as model:
        answers: list[tuple[int, str]] = []
        caller = threading.Thread(target=lambda: answers.append(post(model)))
        caller.start()
        model.wait_for_gate("go")
        assert answers == []
        model.open("go")
        caller.join(60)
        assert '"delta":"after"' in answers[0][1]


def test_a_gate_that_nobody_opens_fails_the_response() -> None:
    with ScriptedModel([[Gate("go"), Text("after")]], gate_seconds=0.05) as model:
        text = post(model)[1]
    assert "nobody opened the gate 'go'" in text
    assert '"delta"' not in text


@pytest.mark.usefixtures("no_thread_stays")
@pytest.mark.parametrize("hold", [Gate("never"), Delay(3600)], ids=["gate", "delay"])
def test_closing_ends_streams_that_are_held(hold: Gate | Delay) -> None:
    with ScriptedModel([[Text("a"), hold, Text("b")]]) as model:
        connection = connected(model)
        connection.request("POST", urlsplit(model.base_url).path + "/responses", b'{"input": []}')
        response = connection.getresponse()  # so it is on its way when the model is closed
    with closing(connection):
        text = response.read().decode()
    assert '"delta":"b"' not in text
    assert "response.completed" not in text


def test_a_wait_that_is_in_vain_ends() -> None:
    with ScriptedModel([]) as model:
        with pytest.raises(TimeoutError, match="0 of 1"):
            model.wait_for_requests(1, timeout=0.01)
        with pytest.raises(TimeoutError, match="'go'"):
            model.wait_for_gate("go", timeout=0.01)


def test_a_model_is_used_once_and_in_a_with_statement() -> None:
    model = ScriptedModel([])
    with pytest.raises(MisuseError, match="with statement"):
        _ = model.base_url
    with model:
        pass
    with pytest.raises(MisuseError, match="once"):
        model.__enter__()
    model.close()
