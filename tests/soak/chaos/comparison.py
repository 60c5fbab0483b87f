"""What Codex said beside what each client saw: nothing lost, nothing twice, nothing of another's.

All that the random Codex says bears a mark of its own, such as ``<turn-1-i0.3>``. A *view* is what
a client sees of a session from its opening on. It must be whole until somebody upsets it: closes or
deletes the session, opens it anew, gives a request up, or leaves. A client that opens a session
sees what Codex has stored if it asks for the history, and else what comes from then on, with what
nobody has seen if sessions are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

Json = dict[str, Any]

SOON: Final = 1.0
"""Seconds, on a clock that stands still while anything is on its way: all has arrived by then."""

CLOSED: Final = ("completed", "failed", "cancelled")

_PIECE: Final = re.compile("<[^<>]*>")
_ITEM: Final = re.compile(r"touch (turn-\d+-i\d+)")


@dataclass
class Saying:
    """Something that Codex has said: a text's piece, a call, a plan or a question."""

    mark: str
    kind: str
    turn: str
    item: str
    at: float


@dataclass
class Turn:
    """A turn of Codex; ``ended`` says when and how, ``given_up`` that it ignored an interrupt.

    ``prompt`` is the mark of the prompt that began it: one that is steered into a turn may be taken
    by the next one.
    """

    thread: str
    prompt: str = ""
    ended: float | None = None
    status: str = ""
    given_up: bool = False


@dataclass
class Answer:
    """The client's answer to a question, and when it was given."""

    at: float
    message: Json


@dataclass
class Token:
    """Something that a client saw of a session."""

    at: float
    kind: str
    mark: str
    value: str = ""


@dataclass
class View:
    """How and when a client opened a session, and where in its stream that view begins."""

    how: str
    asked: float
    began: float
    start: int


@dataclass
class Spoken:
    """What Codex said in each thread, and what has upset the views of it."""

    keep: float = 0.0
    """Seconds that a session is kept without its client."""
    journal: bool = False
    """Whether a client that opens a session is shown all of the turn that runs."""
    threads: dict[str, dict[str, Saying]] = field(default_factory=dict)
    turns: dict[str, Turn] = field(default_factory=dict)
    done: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Item → when it was completed, and how."""
    prompts: dict[str, str] = field(default_factory=dict)
    """A prompt's mark → the turn that it began."""
    replies: dict[str, Answer] = field(default_factory=dict)
    """A question's mark → what Codex was answered."""
    upsets: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Thread → when somebody did what ends a view, and what it was."""
    deaths: list[float] = field(default_factory=list)

    def say(self, at: float, kind: str, turn: str, item: str, mark: str) -> None:
        """Note what Codex says."""
        thread = self.threads.setdefault(self.turns[turn].thread, {})
        thread[mark] = Saying(mark, kind, turn, item, at)

    def begin(self, turn: str, prompt: str) -> None:
        """Note which prompt begins a turn."""
        self.turns[turn].prompt = prompt
        self.prompts[prompt] = turn

    def die(self, at: float, running: Iterable[str]) -> None:
        """Note that Codex dies, and that its turns end so."""
        self.deaths.append(at)
        for turn in running:
            self.turns[turn].ended, self.turns[turn].status = at, "lost"

    def fork(self, source: str, copy: str) -> None:
        """Note that a thread begins with all that another one has stored."""
        said = self.threads.get(source, {})
        self.threads[copy] = {
            mark: replace(each, at=0.0) for mark, each in said.items() if each.item in self.done
        }

    def upset(self, at: float, session: str, what: str) -> None:
        """Note that views of a session need not be whole from now on."""
        self.upsets.setdefault(session, []).append((at, what))

    def upset_between(self, session: str, begin: float, end: float, *, stops: bool = False) -> bool:
        """Return whether somebody upset a session; ``stops``: or only cancelled what runs."""
        found = self.upsets.get(session, ())
        dead = stops and any(begin - SOON <= at <= end for at in self.deaths)
        return dead or any(begin <= at <= end and (stops or w != "cancel") for at, w in found)


class Seen:
    """What one client saw of its sessions, in the order in which it came."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.streams: dict[str, list[Token]] = {}
        self.views: dict[str, list[View]] = {}
        self.loads: dict[str, list[tuple[int, int]]] = {}
        """Session → of each load between which tokens its history may come."""
        self.answers: dict[str, Answer] = {}
        """A question's mark → what was answered first, wherever it was asked last."""
        self.prompts: dict[str, tuple[str, float]] = {}
        """A prompt's mark → its session, and when it was asked."""
        self.ends: dict[str, tuple[int, float, Json]] = {}
        """A prompt's mark → after how many tokens and when it was answered, and what."""
        self._text: dict[str, str] = {}
        self._items: dict[tuple[str, str], str] = {}
        self._opening: dict[int, tuple[str, str, float, int]] = {}

    def asks(self, at: float, request_id: int, method: str, params: Json) -> None:
        """Note a request of the client's."""
        session = params.get("sessionId") or ""
        if method in ("session/load", "session/resume"):
            whole = method == "session/load" or "replayFrom" in params
            how = "load" if whole else "resume"
            self._opening[request_id] = session, how, at, len(self.streams.get(session, ()))
        elif method == "session/prompt":
            self.prompts[prompt_mark(params)] = session, at

    def answered(self, at: float, request_id: int, method: str, params: Json, reply: Json) -> None:
        """Note the answer to a request of the client's."""
        if method in ("session/new", "session/fork") and "result" in reply:
            session = reply["result"]["sessionId"]
            self.views.setdefault(session, []).append(View(method[8:], at, at, 0))
        elif request_id in self._opening:
            session, how, asked, start = self._opening.pop(request_id)
            now = len(self.streams.get(session, ()))
            if how == "load":
                self.loads.setdefault(session, []).append((start, now))
            if "result" in reply:
                views = self.views.setdefault(session, [])
                start = max([start, *(view.start for view in views)])
                views.append(View(how, asked, at, start))
        elif method == "session/prompt":
            mark = prompt_mark(params)
            count = len(self.streams.get(self.prompts[mark][0], ()))
            self.ends[mark] = count, at, reply

    def histories(self, session: str) -> list[tuple[int, int]]:
        """Return between which tokens the history may come, of each load, answered or not."""
        end, loads = len(self.streams[session]), self.loads.get(session, ())
        waiting = [
            (start, end)
            for of, how, _, start in self._opening.values()
            if (of, how) == (session, "load")
        ]
        return [*loads, *waiting]

    def update(self, at: float, session: str, update: Json) -> None:
        """Note a ``session/update``."""
        stream = self.streams.setdefault(session, [])
        match update["sessionUpdate"]:
            case "agent_message_chunk":
                text = self._text.get(session, "") + update["content"].get("text", "")
                for piece in _PIECE.findall(text):
                    stream.append(Token(at, "text", piece))
                self._text[session] = text[text.rfind(">") + 1 :]
            case "tool_call" | "tool_call_update":
                call = session, update["toolCallId"]
                found = _ITEM.search(str(update))
                if found is not None:
                    self._items[call] = found[1]
                if call in self._items:
                    status = update.get("status") or ""
                    stream.append(Token(at, "call", self._items[call], status))
            case "plan" | "plan_update":
                entries = (update.get("plan") or update)["entries"]
                stream.append(Token(at, "plan", entries[0]["content"]))
            case "state_update":
                how = f"{update['state']} {update.get('stopReason', '')}"
                stream.append(Token(at, "state", "", how))

    def asked(self, at: float, session: str, mark: str) -> None:
        """Note a question; whatever was answered to it elsewhere counts no more."""
        self.streams.setdefault(session, []).append(Token(at, "question", mark))
        self.answers.pop(mark, None)

    def answer(self, at: float, mark: str, message: Json) -> None:
        """Note what the client answers to a question."""
        self.answers.setdefault(mark, Answer(at, message))


def prompt_mark(params: Json) -> str:
    """Return the mark of a prompt or of the params of a turn."""
    found = re.search(r"#\d+", str(params.get("prompt") or params.get("input")))
    return "" if found is None else found[0]


def question_mark(message: Json) -> str:
    """Return the mark of a question as it is asked: of its command, or of its words."""
    found = re.search(r"touch (turn-\d+-i\d+)|<(turn-\d+-i\d+)\?>", str(message["params"]))
    return "" if found is None else f"<{found[1] or found[2]}?>"


def differences(spoken: Spoken, seen: Seen, end: float, clients: Sequence[Seen]) -> list[str]:
    """Return what a client should have seen and did not, and what it saw and should not have.

    ``clients`` are all that there were, this one too.
    """
    found: list[str] = []
    for session, stream in seen.streams.items():
        found += _order(spoken, seen, session, stream)
    for session in seen.views:
        for view, until in _views(spoken, seen, session, end):
            found += _Whole(spoken, seen, session, view, until, clients).missing()
    return [*found, *_ends(spoken, seen), *_replies(spoken, seen)]


def _order(spoken: Spoken, seen: Seen, session: str, stream: list[Token]) -> Iterator[str]:
    """Yield what is another session's, and what comes twice or in another order."""
    order = {mark: number for number, mark in enumerate(spoken.threads.get(session, ()))}
    loads, last = seen.histories(session), -1
    for index, token in enumerate(stream):
        if token.kind == "state":
            continue
        known = (m in order for m in (token.mark, f"<{token.mark}>"))
        if not any(known):
            yield f"in {session} is shown what Codex has not said there: {token}"
        elif token.kind == "text":
            if order[token.mark] <= last:
                load = next((each for each in loads if each[0] <= index < each[1]), None)
                if load is None:
                    yield f"in {session} {token} comes twice, or out of order"
                else:
                    loads.remove(load)
            last = order[token.mark]


def _views(spoken: Spoken, seen: Seen, session: str, end: float) -> Iterator[tuple[View, float]]:
    """Yield each view with the moment until which it must be whole."""
    for view in seen.views[session]:
        upsets = [each for each in spoken.upsets.get(session, ()) if each[1] != "cancel"]
        for at, kinds in ((view.asked, ("load", "resume")), (view.began, ("opened",))):
            own = next((each for each in upsets if each[0] == at and each[1] in kinds), None)
            if own is not None:  # the request, or the answer, that begins this very view
                upsets.remove(own)
        until = min((at for at, _ in upsets if at >= view.asked), default=end)
        if until > view.began:
            yield view, until


@dataclass
class _Whole:
    """A view that has to be whole ``until`` a moment; ``clients`` are all that there were."""

    spoken: Spoken
    seen: Seen
    session: str
    view: View
    until: float
    clients: Sequence[Seen]

    def missing(self) -> Iterator[str]:
        """Yield what is not in it."""
        view = self.view
        where = f"({view.how} of {self.session} at {view.began:g}, until {self.until:g})"
        stream = self.seen.streams.get(self.session, [])[view.start :]
        tokens = [token for token in stream if token.at <= self.until]
        said = [s for s in self._said() if not self._is_unwanted(s)]
        for problem in (
            *self._texts(said, tokens), *self._calls(said, tokens),
            *self._plans(said, tokens), *self._questions(said, tokens),
        ):  # fmt: skip
            yield f"{problem} {where}"

    def _said(self) -> list[Saying]:
        known = self.spoken.threads.get(self.session, {}).values()
        return [each for each in known if each.at <= self.until - SOON]

    def _is_unwanted(self, said: Saying) -> bool:
        """Return whether its turn ignored an interrupt, or began when its prompt had ended."""
        turn = self.spoken.turns[said.turn]
        ends = [
            each.ends[turn.prompt][1]
            for each in self.clients
            # In version 2 a prompt is answered when it is taken.
            if turn.prompt in each.ends
            and (each.version == 1 or "error" in each.ends[turn.prompt][2])
        ]
        return turn.given_up or any(at <= said.at for at in ends)

    def _texts(self, said: list[Saying], tokens: list[Token]) -> Iterator[str]:
        shown = {token.mark for token in tokens if token.kind == "text"}
        for each in said:
            if each.kind == "text" and each.mark not in shown and self._is_required(each):
                yield f"{each} was never shown"

    def _calls(self, said: list[Saying], tokens: list[Token]) -> Iterator[str]:
        calls: dict[str, str] = {}
        for token in tokens:
            if token.kind == "call":
                calls[token.mark] = token.value or calls.get(token.mark, "")
        for each in said:
            if each.kind != "call" or each.at < self.view.began:
                continue
            status = calls.get(each.item)
            done, how = self.spoken.done.get(each.item, (self.until, ""))
            ended = self.spoken.turns[each.turn].ended
            if status is None:
                yield f"{each} was never announced"
            elif done <= self.until - SOON and (status == "completed") != (how == "completed"):
                yield f"{each} is {how} and is shown as {status}"
            elif ended is not None and ended <= self.until - SOON and status not in CLOSED:
                yield f"{each} is left {status} though its turn is over"

    def _plans(self, said: list[Saying], tokens: list[Token]) -> Iterator[str]:
        plans = [each for each in said if each.kind == "plan" and each.at >= self.view.began]
        if plans and plans[-1].mark not in {token.mark for token in tokens}:
            yield f"{plans[-1]} was never shown"

    def _questions(self, said: list[Saying], tokens: list[Token]) -> Iterator[str]:
        asked = [t.mark for t in tokens if t.kind == "question" and t.at < self.until]
        for mark in {each for each in asked if asked.count(each) > 1}:
            yield f"{mark} is asked more than once"
        for each in said:
            reply = self.spoken.replies.get(each.mark)
            ends = (self.spoken.turns[each.turn].ended, None if reply is None else reply.at)
            open_until = min([self.until, *(at for at in ends if at is not None)])
            begin = max(each.at, self.view.began)
            here = self.spoken.keep or each.at >= self.view.began
            waits = each.kind == "question" and here and open_until - SOON >= begin
            if waits and each.mark not in [t.mark for t in tokens if t.kind == "question"]:
                yield f"{each} was never asked"

    def _is_required(self, said: Saying) -> bool:
        """Return whether a piece of text has to be in the view."""
        view, turn = self.view, self.spoken.turns[said.turn]
        if said.at >= (view.asked if view.how in ("load", "resume") else view.began):
            return True
        if view.how == "load":
            done, _ = self.spoken.done.get(said.item, (view.asked, ""))
            runs = turn.ended is None or turn.ended > view.began
            return done < view.asked or (self.spoken.journal and runs)
        recent = said.at >= view.asked - self.spoken.keep + SOON
        return view.how == "resume" and recent and self._is_unheard(said)

    def _is_unheard(self, said: Saying) -> bool:
        """Return whether the session was open, and nobody was there, when it was said."""
        asked = self.view.asked
        for each in self.clients:
            stream = each.streams.get(self.session, ())
            if any(token.mark == said.mark and token.at < asked for token in stream):
                return False
        views = [view for each in self.clients for view in each.views.get(self.session, ())]
        upsets = self.spoken.upsets.get(self.session, ())
        since = {what for at, what in upsets if said.at - SOON <= at < asked}
        was_open = any(view.began <= said.at for view in views)
        return was_open and since <= {"left", "cancel", "opened"}


def _ends(spoken: Spoken, seen: Seen) -> Iterator[str]:
    """Yield prompts that ended otherwise than their turns, or before all of these was shown."""
    for mark, (count, at, reply) in seen.ends.items():
        session, asked = seen.prompts[mark]
        turn_id = spoken.prompts.get(mark)
        result = reply.get("result") or {}
        reason = result.get("stopReason", "error" if "error" in reply else "")
        turn = spoken.turns[turn_id] if turn_id else None
        if seen.version != 1 or spoken.upset_between(session, asked, at, stops=True):
            continue
        if turn is None or turn.thread != session or turn.given_up or turn.ended is None:
            continue
        wanted = {"completed": "end_turn", "failed": "error"}.get(turn.status, "cancelled")
        if reason != wanted:
            yield f"{mark} ended as {reason}, its turn {turn_id} as {turn.status}"
        for token in seen.streams.get(session, [])[count:]:
            later = token.kind == "text" and token.at >= at
            of_turn = later and spoken.threads[session][token.mark].turn == turn_id
            loads = any(begin <= count < end for begin, end in seen.histories(session))
            if of_turn and not loads and not spoken.upset_between(session, at, token.at):
                yield f"{token} is shown behind the answer of its prompt {mark}"


def _replies(spoken: Spoken, seen: Seen) -> Iterator[str]:
    """Yield questions of which Codex was answered something else than the client said."""
    said = {m: (s, t) for t, each in spoken.threads.items() for m, s in each.items()}
    for mark, reply in spoken.replies.items():
        if mark not in said or mark not in seen.answers:
            continue
        question, session = said[mark]
        answer = seen.answers[mark]
        if spoken.upset_between(session, question.at, reply.at + SOON, stops=True):
            continue
        turn = spoken.turns[question.turn]
        over = turn.ended is not None and turn.ended <= reply.at
        if over or answer.at > reply.at:
            continue
        result = reply.message.get("result") or {}
        given = answer.message
        accepted = given.get("action") == "accept" or bool(given.get("allowed"))
        now = result.get("decision") == "accept" or result.get("action") == "accept"
        now = now or bool(result.get("answers"))
        if accepted != now:
            yield f"{mark}: the client said {given}, Codex was told {result}"
        word = given.get("word")
        if accepted and word and word not in str(result):
            yield f"{mark}: the client wrote {word}, Codex was told {result}"
