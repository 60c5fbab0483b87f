"""Draws two kinds of diagrams as SVG, for light and dark pages: boxes, and sequences."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

STYLE = """\
<style>
text{font:13px system-ui,sans-serif;fill:#1f2328}
.box{fill:#f6f8fa;stroke:#57606a}
.line{stroke:#57606a;fill:none}
.lane{stroke:#d0d7de;stroke-dasharray:4 4}
.head{fill:#57606a}
.said{fill:#0550ae}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.box{fill:#161b22;stroke:#8b949e}.line{stroke:#8b949e}.lane{stroke:#30363d}
.head{fill:#8b949e}.said{fill:#79c0ff}}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"\
 orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>"""

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y = 176, 60, 90, 30
LANE, STEP = 290, 38


class Box(NamedTuple):
    """A box, by its column and row."""

    name: str
    column: int
    row: int
    text: str


class Arrow(NamedTuple):
    """An arrow between two boxes, with a word at its middle."""

    start: str
    end: str
    text: str = ""


class Message(NamedTuple):
    """One message of a sequence; a message of a lane to itself is a note."""

    start: str
    end: str
    text: str


def flow(title: str, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """Return the SVG of boxes in columns, with arrows from left to right."""
    width = (max(b.column for b in boxes) + 1) * (BOX_WIDTH + GAP_X) - GAP_X + 20
    height = (max(b.row for b in boxes) + 1) * (BOX_HEIGHT + GAP_Y) - GAP_Y + 20
    place = {b.name: (10 + b.column * (BOX_WIDTH + GAP_X), 10 + b.row * (BOX_HEIGHT + GAP_Y))
             for b in boxes}  # fmt: skip
    parts: list[str] = []
    for arrow in arrows:
        (x1, y1), (x2, y2) = place[arrow.start], place[arrow.end]
        x1, y1, y2 = x1 + BOX_WIDTH, y1 + BOX_HEIGHT // 2, y2 + BOX_HEIGHT // 2
        bend = (x1 + x2) // 2
        path = f"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"
        parts.append(f'<path class="line" d="{path}" marker-end="url(#tip)"/>')
        if arrow.text:
            up = -6 if y2 <= y1 else 16
            parts.append(_text(bend, (y1 + y2) // 2 + up, arrow.text, "said"))
    for box in boxes:
        x, y = place[box.name]
        parts.append(
            f'<rect class="box" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
        )
        lines = wrap(box.text, 26, break_long_words=False)
        top = y + BOX_HEIGHT / 2 + 5 - (len(lines) - 1) * 8
        parts += [_text(x + BOX_WIDTH // 2, top + n * 16, line) for n, line in enumerate(lines)]
    return _svg(title, width, height, parts)


def sequence(title: str, lanes: Sequence[str], messages: Sequence[Message]) -> str:
    """Return the SVG of a sequence: lanes from left to right, messages from top to bottom."""
    at = {lane: 150 + n * LANE for n, lane in enumerate(lanes)}
    height = 60 + (len(messages) + 1) * STEP
    parts: list[str] = []
    for lane, x in at.items():
        parts.append(f'<path class="lane" d="M{x} 44V{height - 10}"/>')
        parts.append(f'<rect class="box" x="{x - 60}" y="10" width="120" height="32" rx="6"/>')
        parts.append(_text(x, 31, lane))
    for number, message in enumerate(messages, 1):
        y = 50 + number * STEP
        x1, x2 = at[message.start], at[message.end]
        if x1 == x2:
            wide = 7.2 * len(message.text) + 16
            parts.append(
                f'<rect class="box" x="{x1 - wide / 2:g}" y="{y - 18}" width="{wide:g}"'
                ' height="26" rx="3"/>'
            )
            parts.append(_text(x1, y, message.text))
        else:
            parts.append(f'<path class="line" d="M{x1} {y}H{x2}" marker-end="url(#tip)"/>')
            parts.append(_text((x1 + x2) // 2, y - 6, message.text, "said"))
    return _svg(title, 300 + (len(lanes) - 1) * LANE, height, parts)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'


def _svg(title: str, width: float, height: float, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" role="img">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, *parts, "</svg>"]) + "\n"
