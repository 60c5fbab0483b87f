"""acpx, a client of others, with our command as its agent: approve, deny, sessions."""

from __future__ import annotations

import json

import pytest

from tests.clients.third_party import command_and_answer, third_party_bench

pytestmark = pytest.mark.e2e


def test_what_acpx_approves_runs() -> None:
    with third_party_bench(command_and_answer("All done.")) as bench:
        done = bench.acpx("--approve-all", "exec", "Go.")

        assert done.returncode == 0, done.stderr
        assert "hi-from-shell" in done.stdout
        assert "All done." in done.stdout
        assert bench.command_ran


def test_what_acpx_denies_does_not_run_and_the_turn_goes_on() -> None:
    with third_party_bench(command_and_answer("Then not.")) as bench:
        done = bench.acpx("--deny-all", "--format", "json", "exec", "Go.")

        messages = [json.loads(line) for line in done.stdout.splitlines()]
        ended = [m["result"] for m in messages if "stopReason" in (m.get("result") or {})]
        assert [end["stopReason"] for end in ended] == ["end_turn"]
        assert "Then not." in done.stdout
        assert not bench.command_ran


def test_acpx_keeps_a_session_over_several_prompts() -> None:
    with third_party_bench(command_and_answer("First.", "Second.")) as bench:
        assert bench.acpx("sessions", "new").returncode == 0
        first = bench.acpx("--approve-all", "--ttl", "60", "prompt", "Go.")
        second = bench.acpx("--ttl", "60", "prompt", "Again.")

        assert "First." in first.stdout, first.stderr
        assert "Second." in second.stdout, second.stderr
        said = str(bench.model.requests[-1].items)
        assert "First." in said, "the model was told what was said before"
        assert bench.acpx("sessions", "close").returncode == 0


def test_acpx_sets_a_mode_and_a_config_option() -> None:
    with third_party_bench(command_and_answer("Done.")) as bench:
        bench.acpx("sessions", "new")
        mode = bench.acpx("--ttl", "60", "set-mode", "read-only")
        unknown = bench.acpx("--ttl", "60", "set", "no-such-option", "x")

        bench.acpx("sessions", "close")

        assert mode.returncode == 0, mode.stdout + mode.stderr
        assert unknown.returncode != 0
