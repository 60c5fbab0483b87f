"""The documentation is true: what it names is there, and what is made of the code is current."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import shlex
from pathlib import Path

import pytest

from codex_acp.cli.arguments import serve_parser
from codex_acp.cli.commands import COMMANDS
from codex_acp.cli.logs import LEVEL_VARIABLE, LEVELS
from codex_acp.codex.connection.launch import CODEX_PATH_VARIABLE
from codex_acp.codex.threads.options import StartOptions, TurnOptions
from codex_acp.errors import CodexAcpError
from docs.make.__main__ import pages
from docs.make.command_pages import parsers
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, shell_lines

NOXFILE = (ROOT / "noxfile.py").read_text()
COMMAND = "codex-acp-sdk"
OTHER_COMMANDS = (
    "pip install 'codex-acp-sdk", "python3 -m venv .venv && .venv/bin/pip install -q ",
    ".venv/bin/nox -s ",
    "git diff tests/golden/", "towncrier build --draft", "(umask 077; python -c ",
    "curl ", "jq -c ", "python examples/",
)  # fmt: skip
"""How the commands begin that the pages tell somebody to run, besides ours."""


MADE = pages()
"""The pages that are made of the code, by their path below ``docs/``."""


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_page_that_is_made_of_the_code_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == MADE[name], "run `nox -s docs_pages`"


def test_every_page_is_in_the_navigation_and_every_entry_is_there() -> None:
    lines = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].splitlines()
    listed = [line.rpartition(": ")[2] for line in lines if line.endswith(".md")]
    there = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_link_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        target, _, anchor = link.partition("#")
        if target.startswith(("http:", "https:")):
            continue
        found = (path.parent / target) if target else path
        assert found.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
            assert anchor in anchors, link


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_code_in_a_table_has_a_bar(path: Path) -> None:
    """The site shows the backslash before it, too, GitHub does not."""
    assert re.findall(r"`[^`\n]*\\\|[^`\n]*`", path.read_text()) == []


_VERBS = (
    "is|are|was|were|has|have|had|do|does|did|can|may|must|will|also|only|costs?|ends?|happens?|helps?"
    "|holds?|keeps?|lets?|makes?|means?|needs?|says?|shows?|stays?|takes?|tells?|works?"
)
_AFTER_A_PRONOUN = (
    "that|which|who|whose|of|is|has|can|may|with|without|in|on|for|from|behind|at|by|as|was|does|must"
    "|needs"
)
STOPS_A_READER = (
    r"^\W*(?:It|They)\b",
    rf"^\W*(?:This|That|These|Those) (?:{_VERBS})\b",
    r"\b[Ss]uch\b",
    rf"\bones\b|\b[Oo]ne(?=[.,;:)!?]|$)|\b[Oo]ne (?:{_AFTER_A_PRONOUN})\b",
    r"\bwhat\b|^\W*What\b(?!.*\?$)",
    r"\b[Tt]here (?:is|are|was|were)\b|\b(?:is|are) there\b",
)
"""Words for a thing that stands elsewhere: the reader has to look for it."""

NOT_YET_HELD: frozenset[str] = frozenset()
"""Pages whose sentences do not have their nouns yet."""


def _sentences(text: str) -> list[str]:
    """Return the sentences of a page, without code, quotations, targets of links and headings."""
    text = re.sub(r"^( *)```.*?^\1```$", "\n\n", text, flags=re.M | re.S)
    text = re.sub(r"^#.*$", "\n", re.sub(r"<!--.*?-->", "", text, flags=re.S), flags=re.M)
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |\|))", text):
        for cell in block.split("|") if block.lstrip().startswith("|") else [block]:
            words = re.sub(r"^(?:[-*>]|\d+\.) +", "", " ".join(cell.split()))
            words = re.sub(r"``.*?``|`[^`]*`|\"[^\"]*\"", "\0", words)
            words = re.sub(r"\]\([^)]*\)", "]", words)
            if re.search(r"[.?!](?:\W|$)", words):  # else it is a heading, or a few words
                found += re.split(r"(?<=[.!?:;])[*_)\]]* +(?=[\[*_(\0]*[A-Z\0])", words)
    return found


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in (*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md")
        if path.relative_to(DOCS if DOCS in path.parents else ROOT).as_posix()
        not in NOT_YET_HELD | MADE.keys()
    ],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_a_sentence_has_its_nouns(path: Path) -> None:
    """Pages that are made of the code have the words of its docstrings and help texts."""
    sentences = _sentences(path.read_text())
    assert [s for s in sentences if any(re.search(stop, s) for stop in STOPS_A_READER)] == []


def _errors() -> list[str]:
    """Every public exception."""
    found = set()
    for name in ("errors", "codex", "runtime", "acp", "fleet", "testing", "transcript"):
        module = importlib.import_module(f"codex_acp.{name}")
        for public in module.__all__:
            value = getattr(module, public)
            if inspect.isclass(value) and issubclass(value, CodexAcpError):
                found.add(public)
    return sorted(found - {"CodexAcpError"})


@pytest.mark.parametrize("error", _errors())
def test_every_error_has_its_cause_and_its_cure(error: str) -> None:
    text = (DOCS / "errors.md").read_text()
    assert f"\n### `{error}`\n" in text or f"\n| `{error}` |" in text
    section = text.partition(f"\n### `{error}`\n")[2].partition("\n#")[0]
    assert "**Cause**" in section
    assert "**Cure**" in section


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_an_editors_settings_are_json_that_starts_the_command(block: Block) -> None:
    setting = json.loads(block.text)
    if "agent_servers" in setting:
        (server,) = setting["agent_servers"].values()
        if server["command"].endswith(COMMAND):
            parse(server["args"])
        else:
            assert server["args"] == ["/path/to/my_agent.py"]


def parse(words: list[str]) -> None:
    """Raises SystemExit for what the command would not take."""
    if words[:1] == ["login"]:
        return  # Codex's own
    found = parsers().get(f"{COMMAND} {words[0]}" if words else "")
    if found is None:
        serve_parser().parse_args(words)
    else:
        found.parse_args(words[1:])


def _commands() -> list[str]:
    """Every line of shell."""
    return sorted({line for _, line in shell_lines()})


@pytest.mark.parametrize("line", _commands())
def test_a_command_is_one_that_there_is(line: str) -> None:
    if line.startswith(OTHER_COMMANDS):
        return
    found = re.findall(rf"(?<![\w/]){COMMAND} ?([^|)>]*)", line)
    assert found
    for ours in found:
        parse(shlex.split(ours, comments=True))


def test_every_command_is_in_the_table() -> None:
    text = (DOCS / "command.md").read_text()
    for word in COMMANDS:
        assert f"| `{COMMAND} {word}" in text or word in ("serve", "help"), word


@pytest.mark.parametrize(("options", "column"), [(StartOptions, 2), (TurnOptions, 3)])
def test_every_option_of_a_thread_and_a_turn_is_in_the_table(options: type, column: int) -> None:
    text = (DOCS / "codex-library.md").read_text().partition("\n## Options\n")[2]
    rows = [row.split("|") for row in text.splitlines() if row.startswith("| `")]
    named = {
        name for row in rows if "yes" in row[column] for name in re.findall(r"`(\w+)`", row[1])
    }
    assert named - {"service_tier_for_turn"} == set(options.__annotations__) - {
        "service_tier_for_turn"
    }


def test_every_variable_and_level_is_named() -> None:
    text = (DOCS / "command.md").read_text()
    for name in (CODEX_PATH_VARIABLE, LEVEL_VARIABLE, *LEVELS):
        assert f"`{name}`" in text, name


def test_a_file_that_a_contributor_is_sent_to_is_there() -> None:
    maps = (ROOT / "ARCHITECTURE.md", DOCS / "contributing.md", *(DOCS / "recipes").glob("*.md"))
    paths = re.compile(r"`((?:\w+/)+(?:\w+\.(?:py|md))?)`")
    named = {path for page in maps for path in paths.findall(page.read_text())} - {"_generated/"}
    places = (ROOT, ROOT / "src" / "codex_acp")
    assert {p for p in named if not any((place / p).exists() for place in places)} == set()
    assert len(named) > 40


@pytest.mark.parametrize(("page", "fewest"), [("contributing.md", 14), ("glossary.md", 40)])
def test_a_place_that_a_page_names_has_what_it_names(page: str, fewest: int) -> None:
    rows = re.findall(r"\| `([\w/]+\.py)`(?:: `([\w.]+)`)? \|$", (DOCS / page).read_text(), re.M)
    assert len(rows) >= fewest
    for path, symbol in rows:
        text = (ROOT / "src" / "codex_acp" / path).read_text()
        for name in filter(None, symbol.split(".")):
            defined = (
                rf"^ *(?:class|(?:async )?def) {name}\b|^ *{name}\b(?:: \w+)?.* = |^ *{name}: "
            )
            assert re.search(defined, text, re.M), f"{path}: {symbol}"


def test_every_session_of_nox_is_named_and_there() -> None:
    text = (DOCS / "contributing.md").read_text().partition("\n## Sessions of nox\n")[2]
    rows = re.findall(r"^\| (`[\w-]+`(?:, `[\w-]+`)*) \| [a-z]", text, re.MULTILINE)
    named = {name.replace("-", "_") for row in rows for name in re.findall(r"[\w-]+", row)}
    there = set(re.findall(r"\ndef ([a-z]\w+)\(session: nox.Session", NOXFILE))
    assert there - {"shared", "schema_fixtures"} == named


def test_the_workflows_run_sessions_that_there_are() -> None:
    there = set(re.findall(r"\ndef ([a-z]\w+)\(session: nox.Session", NOXFILE))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for names in re.findall(r"nox -s ([\w ]+)$", path.read_text(), re.MULTILINE):
            assert set(names.split()) <= there


def test_fragments_of_the_changelog_are_of_a_known_kind_and_short() -> None:
    for path in sorted((ROOT / "changelog.d").glob("*.md")):
        kind = path.name.split(".")[-2]
        assert kind in {"added", "changed", "fixed", "security", "removed"}, path.name
        assert 10 < len(path.read_text().strip()) < 1200, path.name


def test_no_page_fetches_anything_when_it_is_read() -> None:
    """Nothing is fetched when a page is read: pictures are files, and there is no script."""
    for path in PAGES:
        assert "```mermaid" not in path.read_text(), path


def test_each_alias_of_the_api_reference_says_what_it_is() -> None:
    entry = re.compile(r"^`from codex_acp\S* import (\S+)`\n\n(.*)$", re.MULTILINE)
    pages = list((ROOT / "docs" / "reference").glob("*.md"))
    found = [row for page in pages for row in entry.findall(page.read_text())]
    assert len(found) > 10
    assert not [path for path in pages if "builtins." in path.read_text()]
    assert [name for name, text in found if not text or text.startswith((":::", "##"))] == []
