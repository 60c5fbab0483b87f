"""Which programs are measured side by side, and how each one is started.

Owns command lines, and with what Codex and model an agent is measured; starts nothing else but
``npm install``. Must not know what is measured.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome, ScriptedModel

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from codex_acp.testing import ModelScript

OFFICIAL_PACKAGE = "@agentclientprotocol/codex-acp"
OFFICIAL_VERSION = "2.6.0"
"""The version that the numbers in README.md were measured with."""

TRANSLATOR = Path(__file__).with_name("bare_translator.py")

NPM_TIMEOUT_SECONDS = 600.0
"""The package brings a Codex binary of its own, a few hundred megabytes."""


@dataclass(frozen=True)
class Agent:
    """A program on stdin and stdout; ``protocol`` is what it speaks there, "acp" either version."""

    name: str
    argv: tuple[str, ...]
    protocol: Literal["acp", "acp v1", "acp v2", "codex"] = "acp"


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """The options that `agents_from` reads; the same for every benchmark."""
    parser.add_argument(
        "--official",
        metavar="PATH",
        help="the official adapter: its dist/index.js, its package or the node_modules it is in "
        "(default: the environment variable CODEX_ACP_OFFICIAL)",
    )
    parser.add_argument(
        "--npm",
        action="store_true",
        help=f"install {OFFICIAL_PACKAGE} {OFFICIAL_VERSION} with npm into a temporary directory",
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="one more ACP agent to measure, for example another build of ours; may be repeated",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="measure only this one; may be repeated",
    )


def add_protocol_option(parser: argparse.ArgumentParser) -> None:
    """For benchmarks that measure either version of ACP, side by side if both are wanted."""
    parser.add_argument(
        "--protocol",
        choices=("v1", "v2", "both"),
        default="v1",
        help="the version of ACP that is spoken; both: each agent twice (default: %(default)s)",
    )


def agents_from(
    options: argparse.Namespace, directory: Path, *, with_codex: bool, with_translator: bool = True
) -> list[Agent]:
    """The agents to measure, ours first. ``directory`` is where npm may install.

    An official adapter that cannot be had is left out, with a message on stderr. Raises
    SystemExit for options that make no sense.
    """
    agents = [Agent("codex-acp-sdk", (_our_command(),))]
    official = _official(options, directory)
    if official is not None:
        agents.append(official)
    if with_translator:
        agents.append(Agent("python-translator", (sys.executable, str(TRANSLATOR)), "acp v1"))
    if with_codex:
        agents.append(Agent("codex app-server", (find_codex().path, "app-server"), "codex"))
    agents.extend(_named_agent(text) for text in options.agent)
    agents = [made for agent in agents for made in _in_versions(agent, options)]
    if not options.only:
        return agents
    chosen = [agent for agent in agents if agent.name in options.only]
    if len(chosen) < len(set(options.only)):
        names = ", ".join(agent.name for agent in agents)
        message = f"--only names something that is not there; there are: {names}"
        raise SystemExit(message)
    return chosen


def on_models(
    script: ModelScript,
    agents: list[Agent],
    measure: Callable[[Agent, Mapping[str, str], Path], Mapping[str, float]],
) -> dict[str, Callable[[], Mapping[str, float]]]:
    """``measure`` of each agent by its name, each time with a model and a home of its own."""

    def measured(agent: Agent) -> Mapping[str, float]:
        with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
            env = home.env | {"CODEX_PATH": find_codex().path}
            return measure(agent, env, home.workspace)

    return {agent.name: partial(measured, agent) for agent in agents}


def _in_versions(agent: Agent, options: argparse.Namespace) -> list[Agent]:
    protocol = getattr(options, "protocol", "v1")
    newer = replace(agent, name=f"{agent.name}, v2", protocol="acp v2")
    if agent.protocol != "acp" or protocol == "v1":
        return [agent]
    return [newer] if protocol == "v2" else [agent, newer]


def _our_command() -> str:
    path = Path(sysconfig.get_path("scripts")) / "codex-acp-sdk"
    if not path.exists():
        message = f"{path} is missing; install the package into this environment first"
        raise SystemExit(message)
    return str(path)


def _named_agent(text: str) -> Agent:
    name, _, command = text.partition("=")
    if not name or not command:
        message = f"--agent wants NAME=COMMAND, not {text!r}"
        raise SystemExit(message)
    return Agent(name, tuple(shlex.split(command)))


def _official(options: argparse.Namespace, directory: Path) -> Agent | None:
    if options.only and "official" not in options.only:
        return None
    given = options.official or os.environ.get("CODEX_ACP_OFFICIAL")
    if not given and not options.npm:
        _skip("name it with --official PATH, or let npm fetch it with --npm")
        return None
    node = shutil.which("node")
    if node is None:
        _skip("node is not on PATH")
        return None
    script = _script_in(Path(given)) if given else _npm_install(directory)
    return None if script is None else Agent("official", (node, str(script)))


def _script_in(path: Path) -> Path:
    """The adapter's script, wherever in its installation ``path`` points."""
    inside = Path("dist", "index.js")
    candidates = (path, path / inside, path / OFFICIAL_PACKAGE / inside)
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    message = f"there is no {OFFICIAL_PACKAGE} at {path}"
    raise SystemExit(message)


def npm_agent(directory: Path) -> tuple[str, ...] | None:
    """The command of the official adapter, which npm installs in ``directory``; None: it cannot."""
    node, script = shutil.which("node"), _npm_install(directory)
    return None if node is None or script is None else (node, str(script))


def _npm_install(directory: Path) -> Path | None:
    npm = shutil.which("npm")
    if npm is None:
        _skip("npm is not on PATH")
        return None
    # Without optional packages: one of them is a second Codex binary, which is not used here.
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional"]
    done = subprocess.run(
        [*command, "--prefix", str(directory), f"{OFFICIAL_PACKAGE}@{OFFICIAL_VERSION}"],
        capture_output=True,
        text=True,
        timeout=NPM_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        _skip(f"npm install failed: {done.stderr.strip()[-300:]}")
        return None
    return _script_in(directory / "node_modules")


def _skip(why: str) -> None:
    print(f"the official adapter is not measured: {why}", file=sys.stderr)
