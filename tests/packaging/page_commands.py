"""How each command of the pages is run for a user, or why it cannot be.

Every line of every ``sh`` block is in `WAYS` or in `NOT_RUN`, and nothing else is:
`tests/packaging/test_page_commands.py`. `tests.packaging.run_pages` runs them.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.docs.pages import shell_lines

QUESTION = "What is in this directory?"
ANSWER = "Nothing at all."
READY = "\x1b[?2004h"
"""A line is read on the terminal."""
CHOOSE_FIRST = "the first choice"
"""Typed as the key that the question gives it, which is another one each time."""


class Way(NamedTuple):
    """How a line is run, and how it is to end."""

    shows: str = ""
    """Stands in what it writes."""
    exit_code: int = 0
    typed: tuple[tuple[str, str], ...] = ()
    """On a terminal: what is waited for, and what is typed then."""
    goes_on: bool = False
    """It runs until the page's last line has run; then it gets a Ctrl-C."""
    as_agent: bool = False
    """A client starts it, opens a session, and sends the question."""
    installs: bool = False
    """In a new environment, whose command then says its version."""
    in_checkout: bool = False
    """In a copy of the checkout, without what lies beside it."""


_CHAT = Way(ANSWER, typed=((READY, f"{QUESTION}\r"), (ANSWER, ""), (READY, "\x04")))
_ASKED = Way(ANSWER)
_SHOWS_THE_TRANSCRIPT = Way("prompt")

WAYS = {
    "python3 -m venv .venv && .venv/bin/pip install -q '.[codex]'"
    " && .venv/bin/codex-acp-sdk demo --yes": Way("it went as the script says", in_checkout=True),
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[codex,dev]'": Way(in_checkout=True),
    "pip install 'codex-acp-sdk[codex]'": Way("codex-acp-sdk 0.", installs=True),
    "codex-acp-sdk demo": Way("it went as the script says", typed=(("Start it? [Y/n]", "\r"),)),
    "codex-acp-sdk demo --yes": Way("it went as the script says"),
    "codex-acp-sdk doctor": Way("ok       codex: Codex "),
    "codex-acp-sdk doctor --turn": Way("ok       turn: "),
    "codex-acp-sdk doctor --editor zed": Way('"agent_servers"'),
    "codex-acp-sdk login": Way("https://auth.openai.com/", goes_on=True, exit_code=-2),
    "codex-acp-sdk serve --listen http://127.0.0.1:8765/acp --token-file tokens": Way(
        "listening at", goes_on=True
    ),
    'curl -i http://127.0.0.1:8765/acp -H "Authorization: Bearer $TOKEN"'
    ' -H "Content-Type: application/json" -d \'{"jsonrpc":"2.0","id":1,"method":"initialize",'
    '"params":{"protocolVersion":1,"clientCapabilities":{}}}\'': Way('"agentCapabilities"'),
    'curl -N http://127.0.0.1:8765/acp -H "Authorization: Bearer $TOKEN"'
    ' -H "Accept: text/event-stream" -H "Acp-Connection-Id: $CONNECTION"': Way(
        goes_on=True, exit_code=-2
    ),
    "codex-acp-sdk run --connect http://127.0.0.1:8765/acp --token-file tokens"
    ' --cwd /srv/project "Hello"': _ASKED,
    f'codex-acp-sdk run "{QUESTION}"': _ASKED,
    'codex-acp-sdk run --command "my-agent --acp" "Go."': Way("You said: Go."),
    f'codex-acp-sdk run --command "my-agent --acp" --json "{QUESTION}"': Way('"end_turn"'),
    'codex-acp-sdk run --command "python my_agent.py" "Hello"': Way("You said: Hello"),
    'codex-acp-sdk run --command "python my_agent.py" "delete notes.txt"': Way(
        "It is gone.", typed=((" to choose; Enter rejects: ", CHOOSE_FIRST),)
    ),
    "codex-acp-sdk chat": _CHAT,
    'codex-acp-sdk chat --command "codex-acp-sdk demo --agent"': Way(
        "I am a script", typed=((READY, "Hello\r"), ("I am a script", ""), (READY, "\x04"))
    ),
    "codex-acp-sdk chat --connect ws://127.0.0.1:8765/acp --token-file tokens"
    " --cwd /srv/project": _CHAT,
    "codex-acp-sdk chat --last": Way(ANSWER, typed=((READY, "\x04"),)),
    "codex-acp-sdk chat --resume": Way(ANSWER, typed=((READY, "1\r"), (READY, "\x04"))),
    "codex-acp-sdk chat --list": Way(QUESTION[:20], typed=(("", ""),)),
    "codex-acp-sdk --transcript ~/codex.jsonl": Way(as_agent=True),
    "codex-acp-sdk transcript codex.jsonl": _SHOWS_THE_TRANSCRIPT,
    "codex-acp-sdk transcript codex.jsonl --kind approval,decline --since 2h": Way(),
    "codex-acp-sdk transcript codex.jsonl --decided rejected,client": Way(),
    "codex-acp-sdk transcript codex.jsonl --session 01a2 --kind wire": Way(),
    "codex-acp-sdk transcript codex.jsonl -f": Way("prompt", goes_on=True, exit_code=130),
    "codex-acp-sdk transcript codex.jsonl --json --decided refused | jq .reason": Way(),
    "codex-acp-sdk transcript codex.jsonl --html page.html": Way("events in page.html"),
    'echo \'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\''
    " | codex-acp-sdk": Way('"agentCapabilities"'),
}
"""A line, without its comment."""

_CLAUDE = "npx fetches another agent, which needs an account"
_FLEET = "a fleet wants a file of tasks and an account; tests/cli/test_fleet_command.py runs one"
_CHECKOUT = "works on a change to the checkout that somebody has made"

_RECORDED = "needs jq, and the three lines together; tests/examples runs what reads the stream"

NOT_RUN = {
    'codex-acp-sdk run --command "codex-acp-sdk --transcript codex.jsonl --transcript-wire" '
    '"List the files."': _RECORDED,
    """jq -c 'select(.peer == "codex" and .direction == "received") | .message' """
    "codex.jsonl > wrote.jsonl": _RECORDED,
    "python examples/bridge_updates.py < wrote.jsonl": _RECORDED,
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[codex,dev]'"
    " && .venv/bin/python -m pytest -n auto": "runs all the tests: CI runs this very line",
    ".venv/bin/nox -s quick": "a part of all the tests, which CI runs",
    "towncrier build --draft --version 0.2.0": "for a release: the wheel holds no fragments",
    f'codex-acp-sdk run --agent claude "{QUESTION}"': _CLAUDE,
    "codex-acp-sdk chat --agent claude": _CLAUDE,
    ".venv/bin/nox -s goldens": _CHECKOUT,
    "git diff tests/golden/": _CHECKOUT,
    "git diff tests/golden/ src/codex_acp/routing/": _CHECKOUT,
    "git diff tests/golden/items.md": _CHECKOUT,
    "codex-acp-sdk fleet run tasks.jsonl --out results": _FLEET,
    "codex-acp-sdk fleet run tasks.jsonl --out results --engine ray --address auto": _FLEET,
    "codex-acp-sdk fleet show results": _FLEET,
    "codex-acp-sdk play record.jsonl": "somebody has recorded it; tests/adapter/session has some",
    "pip install 'codex-acp-sdk[ray]'": "Ray is large: `nox -s fleet` installs it",
}
"""Why a line is not run."""


def command_lines() -> dict[str, list[str]]:
    """Page → its lines of shell in order."""
    found: dict[str, list[str]] = {}
    for page, line in shell_lines():
        found.setdefault(page, []).append(line)
    return found
