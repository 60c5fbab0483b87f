"""Render a drift report as text for the terminal, as Markdown for the changelog, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from codegen.drift_model import Judged, Report, Verdict

_PRODUCTS = {"codex": "Codex app-server", "acp": "ACP"}
_SECTIONS = ("server request", "notification", "item", "elicitation mode", "decision", "request")
"""Areas with a line for each change; types, fields, values and members are listed by type."""
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_VERDICTS = {
    Verdict.NOTHING: "Nothing new.",
    Verdict.COMPATIBLE: "Compatible: nothing has to be decided.",
    Verdict.DECISION: "Needs a decision.",
}
_MAX_PLACES = 6
_CHANGELOG = """# Changelog

Reports on the changes upstream, newest first, by `python -m codegen.drift OLD NEW --changelog`.
"""


def terminal(report: Report) -> str:
    """Return plain lines; changes that need a decision come first."""
    return "\n".join([heading(report), *_body(report, str, "")]) + "\n"


def markdown(report: Report) -> str:
    """Return a section for the changelog, with `heading` as its title."""
    title = f"## {heading(report)}"
    return "\n".join([title, "", *_body(report, lambda name: f"`{name}`", "### ")]) + "\n"


def write_report(path: Path, report: Report) -> None:
    """Put the report on top of the changelog, and remove an earlier one with the same heading."""
    text = path.read_text() if path.exists() else _CHANGELOG
    head, *sections = text.split("\n## ")
    title = heading(report)
    kept = [s for s in sections if s.partition("\n")[0] != title]
    body = [markdown(report).removeprefix("## ").rstrip("\n"), *(s.strip("\n") for s in kept)]
    path.write_text("\n\n## ".join([head.rstrip("\n"), *body]) + "\n")


def as_json(report: Report) -> str:
    """Return the whole report as JSON, with its exit code."""
    body = {
        "old": dict(report.old),
        "new": dict(report.new),
        "exit_code": int(report.verdict),
        "changes": [
            {
                **asdict(j.change), "verdict": j.verdict.name.lower(), "meaning": j.meaning,
                "places": list(j.places),
            }
            for j in report.judged
        ],
    }  # fmt: skip
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def heading(report: Report) -> str:
    """Return ``Codex app-server 0.163.0 → 0.169.0``, for each product that both sets have."""
    return ", ".join(
        f"{_PRODUCTS.get(name, name)} {' → '.join(dict.fromkeys((report.old[name], version)))}"
        for name, version in report.new.items()
        if name in report.old
    )


def _body(report: Report, code: Callable[[str], str], title: str) -> Iterator[str]:
    """Yield the lines. ``code`` marks a name as code; ``title`` stands before a section's title."""
    undecided = [j for j in report.judged if j.verdict is Verdict.DECISION]
    counts = f"{len(report.judged)} changes, {len(undecided)} of them need a decision"
    yield f"{_VERDICTS[report.verdict]} {counts}." if report.judged else _VERDICTS[report.verdict]
    if undecided:
        yield from ("", f"{title}To be decided", "")
        yield from (_line(j, code, with_area=True) for j in undecided)
    for area in _SECTIONS:
        of_area = [j for j in report.judged if j.change.area == area]
        if of_area:
            yield from ("", f"{title}{area.capitalize()}s", "")
            yield from (_line(j, code, with_area=False) for j in of_area)
    yield from _types(report, code, title)


def _line(judged: Judged, code: Callable[[str], str], *, with_area: bool) -> str:
    change = judged.change
    area = f"{change.area} " if with_area and change.area != "generator" else ""
    owner = f"{change.owner}." if change.area in ("field", "value", "member", "decision") else ""
    name = code(owner + change.name) if change.area != "generator" else change.name
    text = f"- {_SIGNS[change.kind]} {area}{name}"
    if change.experimental and change.area != "generator":
        text += " (experimental)"
    if change.kind == "changed" and change.after:
        text += f": {code(change.before or 'a text')} → {code(change.after)}"
    if judged.meaning:
        text += f": {judged.meaning}"
    return text + _places(judged, code)


def _places(judged: Judged, code: Callable[[str], str]) -> str:
    if not judged.places:
        return ""
    shown = [code(place) for place in judged.places[:_MAX_PLACES]]
    if len(judged.places) > _MAX_PLACES:
        shown.append(f"and {len(judged.places) - _MAX_PLACES} more")
    return f" [{', '.join(shown)}]"


def _types(report: Report, code: Callable[[str], str], title: str) -> Iterator[str]:
    """Yield a line for each changed type, then one for the new types and one for the removed."""
    types = [j for j in report.judged if j.change.area == "type"]
    inner = [j for j in report.judged if j.change.area in ("field", "value", "member")]
    if not types and not inner:
        return
    yield from ("", f"{title}Types", "")
    owners: dict[tuple[str, str], list[Judged]] = {}
    for judged in inner:
        owners.setdefault((judged.change.protocol, judged.change.owner), []).append(judged)
    for (protocol, owner), group in sorted(owners.items()):
        where = "" if protocol == "codex" else f" of {protocol}"
        flow = group[0].change.flow or "unused"
        places = tuple(dict.fromkeys(p for j in group for p in j.places if not p.endswith(".py")))
        shown = f", in the signature of {', '.join(map(code, places[:3]))}" if places else ""
        yield f"- {code(owner)}{where}, {flow}{shown}: {'; '.join(_part(j, code) for j in group)}"
    yield from (_line(j, code, with_area=False) for j in types if j.change.kind == "changed")
    for kind, word in (("added", "New"), ("removed", "Gone")):
        names = [code(j.change.name) for j in types if j.change.kind == kind]
        if names:
            yield f"- {word}: {', '.join(names)}"


def _part(judged: Judged, code: Callable[[str], str]) -> str:
    change = judged.change
    text = f"{_SIGNS[change.kind]} {code(change.name)}"
    if change.area == "field" or change.kind == "changed":
        text += f" {' → '.join(map(code, filter(None, (change.before, change.after))))}"
    return f"{text} (experimental)" if change.experimental else text
