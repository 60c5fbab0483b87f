"""Reads the answers of Codex: its configuration, login, sandbox and MCP servers. PURE."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, value_at
from codex_acp.cli.doctor.finding import Finding, problem, warning
from codex_acp.errors import how_ended
from codex_acp.transcript.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codex_acp.cli.doctor.codex_talk import Answers
    from codex_acp.jsonrpc.message import JsonValue

_QUOTED: Final = re.compile(r'"""(?s:.*?)"""|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_NAMED_VALUE: Final = re.compile(
    r"(unknown variant|invalid (?:type|value): \w+|invalid (?:type|value): [a-z ]+) "
    r"(`[^`]*`|\"(?:[^\"\\]|\\.)*\")"
)
_MIN_VALUE: Final = 4
_NOISE: Final = re.compile(
    r" \[[\w:]*::[^\n]*\] error|^MCP client for `[^`]*` (failed to start: )?(MCP startup failed: )?"
    r"|, when send initialize request[^\n]*"
)
_MAX_ERROR: Final = 220

SANDBOXES: Final[dict[str, list[str]]] = {"read-only": [], "workspace-write": ["inside"]}
"""Sandbox mode → where a command can write: inside the directory of its session, or outside."""

LEFT_OUT: Final = "\u2026"


def values_in(content: bytes | None) -> list[str]:
    """Every quoted value of a configuration, whether or not it can be parsed."""
    quoted = _QUOTED.findall((content or b"").decode(errors="replace"))
    return [text for one in quoted if len(text := one.strip("\"'")) >= _MIN_VALUE]


def without_values(text: str, values: Iterable[str]) -> str:
    """Return Codex's words about a configuration without its values: one may be a key."""
    text = _NAMED_VALUE.sub(rf"\1 {LEFT_OUT}", text)
    for value in sorted(values, key=len, reverse=True):
        for quote in ('"', "'", "`"):
            text = text.replace(f"{quote}{value}{quote}", LEFT_OUT)
    return text


def codex_findings(
    answers: Answers, values: list[str], environ: Mapping[str, str], login: list[Finding]
) -> Iterator[Finding]:
    """Everything that was asked, in the order of the report; ``login`` stands among it."""
    if answers.failed is not None:
        advice = "see what `codex app-server` says in a terminal; reinstall or update Codex"
        yield problem("start", f"Codex does not start: {answers.failed}", advice)
        return
    yield Finding("start", "ok", "`codex app-server` starts and answers")
    found = list(_configuration(answers, values))
    yield from found
    valid = all(one.level != "problem" for one in found)
    yield from _requirements(answers)
    yield from _account(answers, environ, login)
    # With a configuration that it cannot use Codex lets no command write anywhere.
    yield from _sandbox(answers, SANDBOXES if valid else {"read-only": []})
    yield from _servers(answers)


def _configuration(answers: Answers, values: list[str]) -> Iterator[Finding]:
    check, invalid = "codex_config", False
    for params in answers.warnings:
        summary, details = str(params.get("summary") or ""), params.get("details")
        text = summary if not isinstance(details, str) else f"{summary.rstrip('.')}: {details}"
        text = without_values(text, values)
        if "bubblewrap" in summary:
            own = "there is no bubblewrap on PATH; Codex uses the one that it brings"
            yield warning("bubblewrap", own, "install bubblewrap with the system's package manager")
        elif isinstance(details, str):
            invalid = True
            advice = "mend it; until then Codex ignores the whole file and uses its defaults"
            yield problem(check, text, advice)
        else:
            yield warning(check, text, "see Codex's documentation of its configuration")
    config = _config_of(answers)
    if "config" in answers.errors:
        if not invalid:
            text = f"Codex cannot read it: {without_values(answers.errors['config'], values)}"
            yield problem(check, text, "mend it, or move config.toml away")
    elif not invalid:
        yield Finding(check, "ok", "Codex can use its configuration")
    if config.get("approval_policy") == "never":
        mode = config.get("sandbox_mode")
        text = "Codex is configured never to ask"
        if mode == "danger-full-access":
            text += ", and not to use its sandbox: it runs whatever the model wants"
        yield warning("approvals", text, "set approval_policy to on-request to be asked")


def _requirements(answers: Answers) -> Iterator[Finding]:
    found = value_at(answers.results, "requirements", "requirements")
    if isinstance(found, dict):
        names = ", ".join(sorted(name for name, value in found.items() if value is not None))
        text = f"an administrator restricts Codex on this machine ({names or 'no setting'})"
        yield Finding("requirements", "ok", text)


def _account(
    answers: Answers, environ: Mapping[str, str], login: list[Finding]
) -> Iterator[Finding]:
    account, config = answers.results.get("account"), _config_of(answers)
    provider = config.get("model_provider")
    if not (isinstance(account, dict) and account.get("requiresOpenaiAuth") is False):
        yield from login
        return
    variable = value_at(config, "model_providers", str(provider), "env_key")
    name = f"the model provider {provider!r}"
    if isinstance(variable, str) and variable and not environ.get(variable):
        text = f"{name} takes its key from the variable {variable}, which is not set"
        yield problem("login", text, f"set {variable} where the editor is started")
    else:
        yield Finding("login", "ok", f"{name} needs no login at OpenAI")


def _sandbox(answers: Answers, expected: Mapping[str, list[str]]) -> Iterator[Finding]:
    failed = []
    for name in expected:
        if name in answers.errors:
            failed.append(f"{name}: {answers.errors[name]}")
            continue
        result = answers.results.get(name)
        out = str(result.get("stdout")) if isinstance(result, dict) else ""
        err = str(result.get("stderr")) if isinstance(result, dict) else ""
        written = out.split()
        if written[:1] != ["started"] or written[-1:] != ["ended"]:
            failed.append(f"{name}: a command did not run: {err or out or 'it said nothing'}")
        elif written[1:-1] != expected[name]:
            where = " and ".join(written[1:-1]) or "nowhere"
            failed.append(f"{name}: a command could write {where} the directory")
    if failed:
        advice = (
            "on Linux: install bubblewrap, and allow user namespaces (on Ubuntu: sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container: its seccomp profile)"
        )
        yield problem("sandbox", f"Codex's sandbox does not work: {'; '.join(failed)}", advice)
    else:
        text = "commands run in Codex's sandbox, and cannot write where they must not"
        yield Finding("sandbox", "ok", text)


def _servers(answers: Answers) -> Iterator[Finding]:
    configured = _config_of(answers).get("mcp_servers")
    if not isinstance(configured, dict):
        return
    for name, settings in configured.items():
        check = "mcp"
        if isinstance(settings, dict) and settings.get("enabled") is False:
            yield Finding(check, "ok", f"MCP server {name!r} is switched off")
            continue
        status = answers.servers.get(name, {})
        state = status.get("status")
        if state == "ready":
            yield Finding(check, "ok", f"MCP server {name!r} starts")
        elif state in ("failed", "cancelled"):
            yield _failed_server(check, name, status, settings)
        elif "thread" in answers.errors:
            text = f"MCP server {name!r} was not looked at: {answers.errors['thread']}"
            yield warning(check, text, "mend what is above first")
        else:
            text = f"MCP server {name!r} has not started in time"
            yield warning(check, text, "see whether its command runs in a terminal")


def _failed_server(
    check: str, name: str, status: Mapping[str, JsonValue], settings: JsonValue
) -> Finding:
    if status.get("failureReason") == "reauthenticationRequired":
        text = f"MCP server {name!r} wants a login, which was not tried from here"
        return warning(check, text, f"if it does not start in a session: codex mcp login {name}")
    why = scrub(_NOISE.sub("", str(status.get("error") or "it failed")))[:_MAX_ERROR]
    remote = isinstance(settings, dict) and settings.get("url") is not None
    see = "see whether its URL answers" if remote else "run its command in a terminal"
    advice = f"{see}, or switch it off: mcp_servers.{name}.enabled = false"
    return problem(check, f"MCP server {name!r} does not start: {why}", advice)


def login_findings(status: int, output: str, store: object) -> list[Finding]:
    """Return the findings of ``codex login status``; ``store`` is where the configuration keeps
    logins."""
    log_in = "log in: codex-acp-sdk login"
    if "Logged in using" in output:
        way = "an API key" if "API key" in output else "ChatGPT"
        return [Finding("login", "ok", f"logged in with {way}")]
    if "Not logged in" in output:
        if store in ("keyring", "auto"):
            text = "the login is kept in the system's keyring, which was not looked at"
            return [warning("login", text, "`codex login status` tells whether there is one")]
        return [problem("login", "nobody is logged in", log_in)]
    if "Error loading configuration" in output:
        text = "it was not looked at: Codex cannot use its configuration"
        return [warning("login", text, "mend the configuration first")]
    if "Error checking login status" in output:
        return [problem("login", "auth.json cannot be read by Codex", log_in)]
    text = f"`codex login status` {how_ended(status)}"
    return [warning("login", text, "run it in a terminal to see why")]


def _config_of(answers: Answers) -> dict[str, JsonValue]:
    return object_at(answers.results, "config", "config")
