"""The changelog's sections about upstream: one for each step from version to version."""

from __future__ import annotations

from pathlib import Path

from codegen.drift_model import Report
from codegen.drift_render import heading, markdown

HEAD = """# Changelog

What upstream changed, and what became of it here; each report is written by
`python -m codegen.drift OLD NEW --changelog`, newest first.
"""


def write_report(path: Path, report: Report) -> None:
    """Put the report on top of the changelog, in place of an older one of the same step."""
    text = path.read_text() if path.exists() else HEAD
    head, *sections = text.split("\n## ")
    title = heading(report)
    kept = [s for s in sections if s.partition("\n")[0] != title]
    body = [markdown(report).removeprefix("## ").rstrip("\n"), *(s.strip("\n") for s in kept)]
    path.write_text("\n\n## ".join([head.rstrip("\n"), *body]) + "\n")
