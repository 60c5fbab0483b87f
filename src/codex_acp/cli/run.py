"""``codex-acp-sdk run``: one prompt to any ACP agent, in the terminal or for a script.

Owns the exit code. What is shown and asked is in `codex_acp.cli.screen`, the rest in
`codex_acp.cli.host`.
"""

from __future__ import annotations

import os
import sys

from codex_acp.cli.host import Host
from codex_acp.cli.interrupts import failed
from codex_acp.cli.logs import LEVEL_VARIABLE, chosen_level, start_logging
from codex_acp.cli.run_arguments import EXIT_CODES, NOBODY_ASKED, RunOptions
from codex_acp.cli.screen.output import JsonOutput, TextOutput, is_file, is_terminal, opened
from codex_acp.cli.screen.questions import Questions
from codex_acp.cli.terminal import LineReader
from codex_acp.errors import MisuseError
from codex_acp.transport.loop_runner import run_loop


def run(options: RunOptions) -> int:
    """Run the prompt; the exit code."""
    try:
        text = options.prompt
        if text == "-":
            text = "" if sys.stdin is None else sys.stdin.buffer.read().decode()
        if not text.strip():
            raise MisuseError("the prompt is empty")
        spec, level = options.spec(), log_level()
    except UnicodeDecodeError:
        return failed("run", "the prompt is not UTF-8")
    except (MisuseError, ValueError) as error:
        return failed("run", error)
    asks = not options.json and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    out, err = opened(sys.stdout), opened(sys.stderr)
    screen = TextOutput(
        out, err, guarded=asks and not is_file(out), verbose=options.verbose, live=not options.json
    )
    start_logging(level, screen.logged)
    questions = Questions(screen, LineReader(), spec.name) if asks else None
    json = JsonOutput(out) if options.json else None

    async def main() -> int:
        host = Host(options, spec, screen, questions, json)
        return await host.main(lambda: _once(host, options, text, json or screen))

    return run_loop(main())


def log_level() -> str:
    """A failing agent is told of anyway; whoever wants more asks for it."""
    return chosen_level(None if os.environ.get(LEVEL_VARIABLE) else "ERROR")


async def _once(host: Host, options: RunOptions, text: str, output: JsonOutput | TextOutput) -> int:
    async with await host.open(options.session) as session:
        output.session(session)
        result = await host.send(session, text)
    code = EXIT_CODES[result.stop_reason]
    return NOBODY_ASKED if code == 0 and host.refused else code
