"""Faults to plant, each in a line on which the contract, or somebody's secrets, rest.

The old text of each stands exactly once in its file, and is short, so that code may move around it.
``tests`` are those that should notice, and no more than that.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Mutant(NamedTuple):
    """A fault: in ``file`` below ``src/codex_acp``, ``old`` becomes ``new``."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: str
    """Arguments of pytest, separated by spaces."""


CHAOS: Final = "tests/soak/chaos/test_chaos.py"
LEDGER: Final = "tests/routing/test_ledger.py"
POLICY: Final = "tests/codex/test_policy_runner.py tests/codex/test_policy_questions.py"
CLAIMS: Final = "tests/routing/test_classify_claims.py tests/routing/test_classify.py"
IDS: Final = "tests/codex/test_action_ids.py"
OWNERS: Final = "tests/network/test_owners.py"
KEPT: Final = "tests/network/test_kept_sessions.py"
DOOR: Final = "tests/attacks/test_network_attacks.py tests/attacks/test_http_attacks.py"
JOURNAL: Final = "tests/network/test_journal.py"
CHILD: Final = "tests/transport/test_child_process.py"
SECRETS: Final = "tests/transcript"
TURNS: Final = "tests/adapter/test_session_turns.py tests/adapter/test_session_cancel.py"
LATE: Final = f"{TURNS} tests/adapter/test_session_given_up.py"
FORMS: Final = "tests/acp/test_form_answers.py"
FILES: Final = "tests/runtime/test_confined_files.py tests/runtime/test_roots.py"

MUTANTS: Final = (
    # Approvals: routing, and what is shared with programs.
    Mutant("ledger-token", "routing/ledger.py", "or entry.token != token", "",
        "3.2: an answer to an earlier question settles a later one", LEDGER),
    Mutant("ledger-reject", "routing/ledger.py", "if choice.grant is None:", "if False:",
        "3.4: a no is not declined", LEDGER),
    Mutant("ledger-twice", "routing/ledger.py", "if key in self._pending:", "if False:",
        "1.4: a request is entered twice", LEDGER),
    Mutant("ledger-turn", "routing/ledger.py",
        "if (entry.route.thread_id, entry.route.turn_id) == (thread_id, turn_id)",
        "if entry.route.thread_id == thread_id",
        "3.2: another turn's end settles what waits", LEDGER),
    Mutant("ledger-generation", "routing/ledger.py",
        "if entry.key.generation == generation", "if entry.key.generation",
        "3.1: the loss of one Codex settles what another asks", LEDGER),
    Mutant("grant-offer", "codex/approvals/grants.py", "if grant not in offered:", "if False:",
        "2.6: what Codex did not offer is granted", f"{POLICY} {LEDGER} tests/routing"),
    Mutant("grant-digest", "codex/approvals/grants.py", "or digest_of(now, looks) != shown", "",
        "3.2: something else is allowed than was shown", f"{POLICY} {LEDGER} tests/routing"),
    Mutant("grant-running", "codex/approvals/grants.py", "if not running:", "if False:",
        "3.2: allowed although the turn is over", f"{POLICY} {LEDGER} tests/routing"),
    Mutant("policy-turn-over", "codex/approvals/policy_runner.py",
        "running = self.items.is_running(question.thread_id, question.turn_id)",
        "running = True", "3.2: a policy allows in a turn that is over", POLICY),
    Mutant("policy-withdraw", "codex/approvals/policy_runner.py",
        "if not self.withdrawn.done():", "if False:",
        "3.2: what Codex settled itself is answered", POLICY),
    Mutant("policy-resolved-early", "codex/approvals/policy_runner.py",
        "if key in self._resolved_early:", "if False:",
        "3.2: a request that was resolved before it is asked", POLICY),
    Mutant("claim-kind", "codex/approvals/classify.py", "if kind != TOOL_CALL:", "if False:",
        "2.7: an unknown approval kind is believed", CLAIMS),
    Mutant("claim-properties", "codex/approvals/classify.py",
        "if params.requested_schema.properties:", "if False:",
        "2.7: a form that asks for input passes for an approval", CLAIMS),
    Mutant("claim-tool", "codex/approvals/classify.py",
        'if "tool_name" in meta and meta["tool_name"] != call.tool:', "if False:",
        "2.7: another tool's name is believed", CLAIMS),
    Mutant("claim-same", "codex/approvals/classify.py",
        "if not calls or not all(same_call(call, calls[0]) for call in calls):",
        "if not calls:", "2.7: one of several different calls is chosen", CLAIMS),
    Mutant("ids-barred", "codex/approvals/actions.py", "and shared_id not in self._barred", "",
        "3.7: an id that was used twice is asked for again", IDS),
    Mutant("ids-collide", "codex/approvals/actions.py",
        "others = [entry for entry in self._entries if _collide(entry, new)]", "others = []",
        "3.7: two actions under one id are asked for", IDS),
    Mutant("items-asked-once", "codex/approvals/running_items.py", "and not running.asked", "",
        "2.7: a second request rides on a call that was asked about", f"{CLAIMS} {POLICY}"),
    Mutant("form-required", "acp/form_answers.py", "if name in required:", "if False:",
        "2.5: a form without what it requires is passed on", FORMS),
    Mutant("form-extra", "acp/form_answers.py", "    if extra:", "    if False:",
        "2.5: fields that the form does not have are passed on", FORMS),
    Mutant("display-hidden", "routing/display.py",
        "return char.isprintable() or char in _JOINERS",
        "return True or char in _JOINERS",
        "3.8: characters without a glyph are shown as they are", "tests/routing/test_display.py"),
    # The adapter.
    Mutant("stale-turn", "adapter/session/machine.py",
        "if self.cancelled or turn in self.stale or self.is_answered(turn):", "if False:",
        "3.10: what belongs to a prompt that was answered is asked", LATE),
    Mutant("failed-is-end", "mapping/session.py",
        "return failure(turn.error or last_error)", 'return events.PromptStop("end_turn")',
        "4.4: a failed turn reads as end_turn", f"{TURNS} {CHAOS}"),
    Mutant("interrupted-is-end", "mapping/session.py",
        'return events.PromptStop("cancelled")', 'return events.PromptStop("end_turn")',
        "4.4: an interrupted turn reads as end_turn", f"{TURNS} {CHAOS}"),
    Mutant("outflow-lost-pieces", "adapter/outflow.py", "pieces, self._pieces = self._pieces, []",
        "pieces, self._pieces = self._pieces[:1], []",
        "4.2: pieces of a text are lost", f"tests/adapter/test_outflow_joining.py {CHAOS}"),
    Mutant("outflow-joins-sessions", "adapter/outflow.py", " and last.session_id == session_id", "",
        "4.2: a text is joined to another session's", "tests/adapter/test_outflow.py"
        " tests/adapter/test_outflow_joining.py"),
    # The network.
    Mutant("room-of-others", "adapter/network/registry.py",
        "(each for each in idle if each.owner in over_share)", "(each for each in idle)",
        "another owner's idle session is ended", OWNERS),
    Mutant("owned-open", "adapter/network/registry.py", "return session.owner == owner",
        "return True", "another owner's open session is reached",
        f"{OWNERS} {KEPT} {CHAOS}"),
    Mutant("spelled-id", "adapter/network/registry.py",
        'session_id = canonical_id(session_id)\n        session = self.sessions.get(session_id)\n'
        "        if session is None and",
        "session = self.sessions.get(session_id)\n        if session is None and",
        "an id that is spelled otherwise is nobody's", OWNERS),
    Mutant("shown-owner", "adapter/network/connection.py",
        "if session is None or session.owner != self._token.owner:", "if session is None:",
        "prompts in another owner's session are told more than that it is not there",
        f"{KEPT} tests/network/test_archive_over_network.py {CHAOS}"),
    Mutant("shown-client", "adapter/network/connection.py",
        "if session.client is not self.client:", "if False:",
        "a connection that does not show a session changes it", f"{KEPT} {CHAOS}"),
    Mutant("listed-owner", "adapter/network/connection.py",
        'mine = [each for each in found if owned(owner, text_at(each, "sessionId") or "")]',
        "mine = found",
        "another owner's sessions are listed", OWNERS),
    Mutant("late-answer", "adapter/network/network_session.py",
        "        for scope in tuple(self._sent_questions):\n            scope.cancel()",
        "        return",
        "the answer of a connection that was displaced settles a question", KEPT),
    Mutant("not-asked-again", "adapter/network/network_session.py",
        "        self._questions_held = False\n        self._wake_questions()\n\n    def reopen",
        "        self._wake_questions()\n\n    def reopen",
        "a question that waits is not asked again", KEPT),
    Mutant("journal-drops", "adapter/network/network_session.py",
        "            self._append(_Entry(event, turn, sent=sent))", "            pass",
        "what nobody heard is lost", f"{JOURNAL} {CHAOS}"),
    Mutant("journal-unheard", "adapter/network/network_session.py", "entry.sent = True", "pass",
        "what was heard is told twice", f"{JOURNAL} {CHAOS}"),
    Mutant("door-token", "adapter/network/access_control.py",
        "if hmac.compare_digest(token.digest, digest):", "if True:", "a stranger comes in", DOOR),
    Mutant("door-host", "adapter/network/access_control.py",
        "if host is None or not self._host_allowed(host):", "if False:",
        "a page comes in by a name that was bound to this machine", DOOR),
    Mutant("door-origin", "adapter/network/access_control.py",
        "if any(origin not in self._origins for origin in origins):", "if False:",
        "a foreign page comes in", DOOR),
    Mutant("door-share", "adapter/network/access_control.py", "or self._open[owner] >= share", "",
        "one owner uses up the connections of all", DOOR),
    Mutant("token-expired", "adapter/network/access_control.py",
        "if found is None or not found.valid(self._clock()):", "if found is None:",
        "a token is good for ever", DOOR),
    Mutant("token-watched", "adapter/network/access_control.py",
        "return any((each.owner, each.digest) == identity and each.valid(now) for each in tokens)",
        "return True", "a connection outlives its token", OWNERS),
    # Processes, records, files.
    Mutant("child-last-output", "transport/child.py",
        "            self._reader.drain(FINAL_READ_LIMIT)", "            pass",
        "the last output of a child is lost", CHILD),
    Mutant("child-last-words", "transport/child.py",
        "        self._stderr_reader.drain(FINAL_READ_LIMIT)", "        pass",
        "why a child has ended is lost", CHILD),
    Mutant("secret-told", "transcript/secrets.py",
        "if len(value) >= _MIN_SECRET:", "if False:",
        "secrets that are known stand in the record", SECRETS),
    Mutant("fleet-links", "runtime/filesystem.py",
        "_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC",
        "_NO_LINK: Final = os.O_CLOEXEC",
        "a link that is put in while a path is walked leads out of the roots", FILES),
    Mutant("file-regular", "runtime/filesystem.py",
        "if not stat.S_ISREG(status.st_mode) or status.st_dev in virtual:", "if False:",
        "an agent reads what is no file, and waits for ever", FILES + " tests/runtime"),
    Mutant("fleet-begun", "fleet/outcomes.py",
        "self.first_prompt, self.prompt_sent = number + 1, False", "pass",
        "a resumed task repeats a prompt that has ended",
        "tests/fleet/test_fleet_resuming.py"),
    Mutant("question-no-answer", "cli/questions.py",
        "return None if chosen is None else options[chosen]",
        "return options[chosen or 0]",
        "6.1: a question that was left is answered with the first option",
        "tests/cli/test_run_questions.py tests/cli/test_run_terminal.py tests/cli/test_chat.py"),
)  # fmt: skip
"""Some forty, over all that stands between a person's answer and what runs."""
