"""The page of a transcript as one file of HTML, which loads nothing and runs only its own script.

The parts lie in ``page/``. What a transcript holds travels as JSON in which nothing can end the
element that it stands in; the script shows it as text. The policy names script and style by
their hashes, so that whatever else came to be in the page is not run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import stat
import sys
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from codex_acp.errors import MisuseError
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from codex_acp.cli.transcript_view.page_data import PageData

SCRIPTS: Final = ("text.js", "timeline.js", "detail.js", "page.js")
"""In this order they are one script."""

STANDARD_OUTPUT: Final = "-"


def page_text(name: str, data: PageData) -> str:
    """The whole page; ``name`` is the transcript's."""
    style = _part("page.css")
    script = "(() => {\n'use strict';\n" + "\n".join(_part(one) for one in SCRIPTS) + "})();\n"
    return Template(_part("page.html")).substitute(
        policy=(
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        title=html.escape(visible(Path(name).name or name)),
        style=style,
        script=script,
        rows=_inert(json.dumps(data.rows, separators=(",", ":"))),
        details=_inert("\n".join(data.details)),
    )


def write_page(out: str, text: str) -> None:
    """Write it to ``out``, for its owner alone if it is new; ``-`` is standard output.

    Raises MisuseError if it cannot be written.
    """
    if out == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    path = Path(out)
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_text(text, encoding="utf-8")
            return
        # Whole or not at all: beside it first, so that a page that is open is not half a page.
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
                stream.write(text)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MisuseError(f"the page {out!r} cannot be written: {reason}") from error


def _part(name: str) -> str:
    return (files("codex_acp.cli.transcript_view") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _inert(text: str) -> str:
    """JSON as it may stand in an element of script: it means the same, and has no markup."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
