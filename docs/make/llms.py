"""``llms.txt``: an index of the documentation for programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
# codex-acp-sdk

> Runs Codex as an agent of the Agent Client Protocol (ACP), and gives Python programs a typed
> client for the Codex app-server, for any ACP agent, and both sides of ACP. Python 3.11 or newer,
> Linux; macOS is untried. Import name `codex_acp`, command `codex-acp-sdk`.

Public names are those in `__all__` of `codex_acp.codex`, `codex_acp.codex.sync`,
`codex_acp.runtime`, `codex_acp.fleet`, `codex_acp.acp`, `codex_acp.bridge`, `codex_acp.testing`,
`codex_acp.transcript` and `codex_acp.errors`. The package answers every request of Codex exactly
once, and approves nothing by default: see the contract.
"""

LEFT_OUT = ("make", "reference")

INCLUDED = "--8<-- "
"""The beginning of a page that includes a file of the repository."""

LINK = re.compile(r"\[([^]]*)]\([^)]*\)")


def page(docs: Path) -> str:
    """Return the text of the index: each page with its first sentence."""
    lines = [HEAD]
    for folder in sorted({p.parent for p in docs.rglob("*.md")}, key=lambda p: (p != docs, p)):
        if folder.relative_to(docs).parts[:1] in [(name,) for name in LEFT_OUT]:
            continue
        name = folder.relative_to(docs).as_posix()
        lines += [f"## {'Pages' if name == '.' else name.capitalize()}", ""]
        lines += [_line(path, docs) for path in sorted(folder.glob("*.md"))]
        lines.append("")
    lines += ["## Reference", "", "- [API](reference/index.md): from the docstrings"]
    lines += ["- [The command's options](reference/command-options.md): from its parsers"]
    return "\n".join(lines) + "\n"


def _line(path: Path, docs: Path) -> str:
    text = path.read_text()
    if text.startswith(INCLUDED):
        text = (docs.parent / text.removeprefix(INCLUDED).strip().strip('"')).read_text()
    title, _, rest = text.partition("\n")
    first = LINK.sub(r"\1", rest.strip().partition("\n\n")[0].replace("\n", " "))
    said = (
        f": {first.partition('. ')[0].rstrip('.:')}"
        if first[:1] not in "#|!-" and first[:3] != "```"
        else ""
    )
    return f"- [{title.lstrip('# ')}]({path.relative_to(docs).as_posix()}){said}"
