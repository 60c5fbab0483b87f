"""The recorded terminal session: a real run of ``demo`` in a terminal, drawn as an SVG."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from html import escape
from typing import TYPE_CHECKING

import pyte

if TYPE_CHECKING:
    from pyte.screens import Char

COLUMNS = 100
LINES = 300
"""More rows than the demo prints, so that nothing scrolls away."""

COMMAND = ("codex-acp-sdk", "demo", "--yes")
COLORS = {
    "default": "#d7dce2", "black": "#5c6370", "red": "#ff7b72", "green": "#7ee787",
    "brown": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#76e3ea",
    "white": "#f0f6fc", "brightblack": "#8b949e",
}  # fmt: skip
WIDTH, HEIGHT, MARGIN = 8.2, 18, 16


def record() -> str:
    """Run the command and draw the last screen of its terminal."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ {' '.join(COMMAND)}\r\n".encode())
    stream.feed(_without_places(_run()))
    return _drawn(screen)


def _run() -> bytes:
    """Run the command in its own terminal, and return its output."""
    command = [sys.executable, "-P", "-m", "codex_acp", *COMMAND[1:]]
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    env |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    ours, theirs = pty.openpty()
    output = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env):
        os.close(theirs)
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # Linux says so when the last writer is gone
                break
            if not data:
                break
            output += data
    os.close(ours)
    return output


def _without_places(output: bytes) -> bytes:
    """Shorten the folders of this machine in the output."""
    return re.sub(rb"(?<![:/\w])/[^\s()]*/", b".../", output)


def _drawn(screen: pyte.Screen) -> str:
    rows = [screen.buffer[y] for y in range(LINES)]
    last = max(y for y, row in enumerate(rows) if any(row[x].data.strip() for x in range(COLUMNS)))
    width = COLUMNS * WIDTH + 2 * MARGIN
    height = (last + 1) * HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        "<title>codex-acp-sdk demo --yes, recorded in a terminal</title>",
        "<style>text{font:13.6px ui-monospace,Menlo,Consolas,monospace;white-space:pre}</style>",
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#161b22"/>',
    ]
    for y in range(last + 1):
        top = MARGIN + (y + 0.75) * HEIGHT
        lines += [
            f'<text x="{MARGIN + x * WIDTH:g}" y="{top:g}" fill="{_color(char)}"'
            f"{' font-weight=' + chr(34) + 'bold' + chr(34) if char.bold else ''}"
            f' textLength="{len(text) * WIDTH:g}">{escape(text)}</text>'
            for x, char, text in _runs(rows[y])
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _runs(row: dict[int, Char]) -> list[tuple[int, Char, str]]:
    """Return (column, style, text) of each run of one style, without blank ends."""
    runs: list[tuple[int, Char, str]] = []
    for x in range(COLUMNS):
        char = row[x]
        if runs and (char.fg, char.bold) == (runs[-1][1].fg, runs[-1][1].bold):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + char.data)
        else:
            runs.append((x, char, char.data))
    return [(x, char, text.rstrip()) for x, char, text in runs if text.strip()]


def _color(char: Char) -> str:
    known = re.fullmatch("[0-9a-f]{6}", char.fg)
    return f"#{char.fg}" if known else COLORS.get(char.fg, COLORS["default"])
