"""The requirements manifest: every rule of the contract has tests that bear its number, and
every test that bears a number names a rule that exists.

``tests/golden/contract.md`` lists both; ``CODEX_ACP_UPDATE_GOLDEN=1`` writes it anew.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.support.golden import assert_golden

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "contract.md"

RULES = {
    "1.1": "One pure classifier routes every server request as approval, elicitation or decline.",
    "1.2": "A new or removed method, mode, kind or decision breaks mypy, the import and regen.",
    "1.3": "What is unknown at run time is declined at once, with one warning that names it.",
    "1.4": "Each request gets exactly one reply, whatever happens.",
    "1.5": "A handler neither blocks the reader nor ends it.",
    "1.6": "What is declined without asking is said to the person, logged and recorded.",
    "2.1": "An approval goes to the client only as session/request_permission.",
    "2.2": "An elicitation goes only as elicitation/create, and only in an advertised mode.",
    "2.3": "No elicitation answer can accept an approval, and no permission an elicitation.",
    "2.4": "Only https and loopback http are forwarded; accept means agreed, not finished.",
    "2.5": "Form content is checked against the schema; secrets are not asked for.",
    "2.6": "Persistence is offered only where the request or its kind has it; never for forms.",
    "2.7": "_meta proves nothing: a tool approval is believed only if Codex's items bear it out.",
    "3.1": "A ledger entry ties an approval to one request, action, digest and set of options.",
    "3.2": "An accepting reply needs all: pending, own answer, offered option, same digest, turn.",
    "3.3": "Anything else fails closed.",
    "3.4": "Rejecting declines one action and the turn goes on; cancelled is for cancelled turns.",
    "3.5": "session/cancel settles what waits and never waits for the client's answer.",
    "3.6": "An unknown decision is left out; amendments are offered only as proposed.",
    "3.7": "A request again is that request; actions or requests that share an id fail closed.",
    "3.8": "What the person sees is what runs; nothing deceives and nothing is cut in silence.",
    "3.9": "A sub-agent's requests belong to the root session and to the child's own turn.",
    "3.9b": "A shown id is that of one item of one thread, and an asked card stays as asked.",
    "3.9c": "A session's model acts with its own session's rights.",
    "3.10": "Nothing of a turn that is over is shown; no message goes to a second Codex.",
    "4.1": "A tool call is announced before its permission request, and not erased by it.",
    "4.2": "Updates keep Codex's order, and all of a turn come before its prompt response.",
    "4.3": "A prompt always returns.",
    "4.4": "A failed turn never reads as end_turn.",
    "4.5": "When a turn ends no tool call of it is left pending or in progress.",
    "5.1": "Approvals and elicitations stand in the transcript as events of their own.",
    "5.2": "Typed values are recorded by field name only; tokens and keys never.",
    "6.1": "Without a handler or policy the reply is the negative one, with one warning.",
    "6.2": "Policies are values, combine, and none accepts everything without naming what.",
    "6.3": "A silent turn is reported.",
    "7.1": "Opening a session runs nothing of its directory and writes no trust.",
    "7.1b": "Codex's git runs what a directory's git configuration names after a yes, or not.",
    "7.2": "The person's own sandbox, policy, roots and network hold from the first turn on.",
    "7.3": "While a question is open on our terminal nothing else is written; all of it is seen.",
    "8.1": "One process writes a session; it is handed over at rest, or who has it is named.",
    "8.2": "Only processes of the same user ask and answer, within bounds.",
}

_NUMBERED = re.compile(r"test_\d_\d+[a-z]?(?:_and_\d_\d+[a-z]?)*_")
_EACH = re.compile(r"(\d)_(\d+[a-z]?)")


@functools.cache
def _numbered_tests() -> dict[str, list[str]]:
    """Rule → the tests whose names bear its number, as ``file::test``."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            match = _NUMBERED.match(node.name)
            if match is None:
                continue
            for part, rule in _EACH.findall(match.group(0)):
                where = f"{path.relative_to(TESTS).as_posix()}::{node.name}"
                found.setdefault(f"{part}.{rule}", []).append(where)
    return found


def test_the_page_of_the_contract_has_every_rule_and_no_other() -> None:
    assert re.findall(r"^\*\*(\d\.\d+[a-z]?)\*\* ", PAGE.read_text(), re.M) == list(RULES)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_has_a_test_that_bears_its_number(rule: str) -> None:
    assert _numbered_tests().get(rule), f"no test_{rule.replace('.', '_')}_…: {RULES[rule]}"


def test_every_number_is_that_of_a_rule() -> None:
    unknown = {r: tests for r, tests in _numbered_tests().items() if r not in RULES}
    assert not unknown


def test_the_golden_manifest_is_current() -> None:
    lines = ["# The contract and its tests", ""]
    for rule, text in RULES.items():
        lines += [f"## {rule} {text}", ""]
        lines += [f"- `{name}`" for name in sorted(set(_numbered_tests().get(rule, [])))]
        lines.append("")
    assert_golden("contract.md", "\n".join(lines))
