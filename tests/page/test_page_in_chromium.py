"""The page of a transcript in a real browser: keys, search, themes, size, and that nothing acts.

Deselected unless asked for: `nox -s page`, or ``pytest -m page``. With ``CODEX_ACP_SCREENSHOTS``
naming a folder, what it looks like is kept there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_acp.cli.main import main
from tests.page.chromium import Chromium, find_chromium
from tests.support.transcript_samples import HOSTILE, lines, many, of_every_kind, with_wire

pytestmark = [
    pytest.mark.page,
    pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium: install `chromium`"),
]

AT = "document.querySelector('[aria-selected=true]')"
SHOWN = "document.getElementById('told').textContent"
ROWS = "document.querySelectorAll('.row').length"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with Chromium() as page:
        yield page


def open_page(chromium: Chromium, folder: Path, text: str) -> None:
    """A transcript as its page, which must load nothing else and complain of nothing."""
    source, page = folder / "transcript.jsonl", folder / "page.html"
    source.write_text(text, encoding="utf-8")
    assert main(["transcript", str(source), "--html", str(page)]) in (0, 1)
    chromium.requests.clear()
    chromium.complaints.clear()
    chromium.size(1280, 760)
    chromium.open(page)
    assert chromium.requests == [page.as_uri()]
    assert chromium.complaints == []


def look(chromium: Chromium, name: str) -> None:
    if folder := os.environ.get("CODEX_ACP_SCREENSHOTS"):
        chromium.screenshot(Path(folder, f"{name}.png"))


def of_row(selector: str) -> str:
    return f"{AT}.querySelector('{selector}').textContent"


def test_keys_move_and_open_and_close(chromium: Chromium, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, "".join(lines(of_every_kind())))
    look(chromium, "light")
    chromium.press("j")
    assert chromium.run(of_row(".badge")) == "Session"
    chromium.press("ArrowDown")
    chromium.press("n")
    assert chromium.run(f"{AT}.className").split()[1:3] == ["approval", "t-open"]
    chromium.press("Enter")
    assert chromium.run("document.querySelector('#detail h2').textContent") == "Approvalasked"
    assert "request of Codex" in chromium.run("document.getElementById('detail').textContent")
    look(chromium, "light-detail")
    chromium.press("o")
    assert chromium.run(of_row(".verb")) == "accepted"
    assert chromium.run("document.querySelector('#detail h2').textContent") == "Approvalaccepted"
    chromium.press("Escape")
    assert chromium.run("document.getElementById('detail').hidden") is True
    chromium.press("G")
    assert chromium.run(of_row(".verb")) == "closed"
    chromium.press("k")
    assert chromium.run(of_row(".verb")) == "failed"
    chromium.press("g")
    assert chromium.run(of_row(".verb")) == "opened"
    chromium.press("?")
    assert chromium.run("document.getElementById('keyhelp').open") is True
    chromium.press("j")
    assert chromium.run(of_row(".verb")) == "opened"
    chromium.press("Escape")
    assert chromium.run("document.getElementById('keyhelp').open") is False
    assert chromium.complaints == []


def test_search_finds_what_is_in_a_row_and_behind_it(chromium: Chromium, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, "".join(lines(of_every_kind())))
    assert chromium.run(SHOWN) == "17 of 17 events are shown"
    chromium.press("/")
    for key in "ASKS":
        chromium.press(key)
    chromium.wait(f"{SHOWN}.startsWith('1 of')")
    assert chromium.run("document.querySelector('mark').textContent") == "asks"
    chromium.press("Enter")
    assert chromium.run(of_row(".badge")) == "Declined"
    chromium.press("/")
    chromium.press("Escape")
    chromium.wait(f"{SHOWN}.startsWith('17 of')")
    chromium.press("/")
    for key in "item-2":  # in no row, but in two lines
        chromium.press(key)
    chromium.wait(f"{SHOWN}.startsWith('2 of')")
    for key in ".*(":  # no pattern
        chromium.press(key)
    chromium.wait("!document.getElementById('nothing').hidden")
    chromium.run("document.getElementById('all').click()")
    chromium.wait(f"{SHOWN}.startsWith('17 of')")


def test_kinds_and_sessions_are_chosen(chromium: Chromium, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, "".join(lines(of_every_kind())))
    chromium.run("document.querySelector('.kinds .approval').click()")
    assert chromium.run(SHOWN) == "12 of 17 events are shown"
    chromium.run("document.querySelector('.kinds .approval').click()")
    choose = "document.getElementById('session').value = 'session-two'"
    chromium.run(f"{choose}; document.getElementById('session').dispatchEvent(new Event('change'))")
    assert chromium.run(SHOWN) == "3 of 17 events are shown"


def test_the_wire_is_behind_an_event(chromium: Chromium, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, "".join(lines(with_wire())))
    assert chromium.run(SHOWN) == "3 of 11 events are shown"
    chromium.press("n")
    chromium.press("Enter")
    heads = chromium.run("[...document.querySelectorAll('.message b')].map(b => b.textContent)")
    assert heads[:4] == [
        "Codex \u2192 Adapter", "Adapter \u2192 Client", "Client \u2192 Adapter",
        "Adapter \u2192 Codex",
    ]  # fmt: skip
    body = chromium.run("document.querySelectorAll('.message pre')[1].textContent")
    assert '"title": "Run: touch made"' in body
    assert chromium.run(of_row(".about")) == "Run: touch made"


def test_light_and_dark_follow_the_person_and_the_switch(
    chromium: Chromium, tmp_path: Path
) -> None:
    open_page(chromium, tmp_path, "".join(lines(of_every_kind())))
    background = "getComputedStyle(document.body).backgroundColor"
    light = chromium.run(background)
    chromium.size(1280, 760, "dark")
    dark = chromium.run(background)
    look(chromium, "dark")
    assert light != dark
    chromium.run("document.getElementById('theme').click()")
    assert chromium.run(background) == light
    chromium.run("document.getElementById('theme').click()")
    assert chromium.run(background) == dark
    chromium.run("localStorage.clear()")


CONTRAST = """
(() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  const texts = '.badge, .verb, .about, .rest, .time, .took, h1, .name p, .kinds .word, .h-lanes b';
  return [...document.querySelectorAll(texts)].filter((e) => e.offsetParent).map((element) => {
    const [one, two] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    return [ratio, `${element.closest('[class]').className} ${element.textContent}`];
  }).filter(([ratio]) => ratio < 4.5);
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_all_texts_can_be_read(chromium: Chromium, tmp_path: Path, scheme: str, width: int) -> None:
    open_page(chromium, tmp_path, "".join(lines(of_every_kind())))
    chromium.size(width, 900, scheme)
    chromium.press("j")
    look(chromium, f"{scheme}-{width}")
    assert chromium.run(CONTRAST) == []
    wide = "document.documentElement.scrollWidth"
    assert chromium.run(wide) <= width


def test_a_screen_reader_is_told_of_the_list(chromium: Chromium, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, "".join(lines(of_every_kind())))
    chromium.press("j")
    tree = chromium.call("Accessibility.getFullAXTree")["nodes"]
    nodes = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if "role" in n]
    assert ("listbox", "Events") in nodes
    options = [name for role, name in nodes if role == "option"]
    assert len(options) >= 15
    assert any("Approval" in name and "accepted" in name for name in options)
    assert any(role == "searchbox" and name == "Search" for role, name in nodes)
    assert chromium.run("document.activeElement.getAttribute('aria-activedescendant')") == "row-0"
    unnamed = [role for role, name in nodes if role in ("button", "combobox") and not name]
    assert unnamed == []


def test_fifty_thousand_events_are_a_list_of_a_few_rows(chromium: Chromium, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, "".join(lines(many(50_000))))
    assert chromium.run(SHOWN) == "50000 of 50000 events are shown"
    look(chromium, "many")
    chromium.press("G")
    assert chromium.run(f"{AT}.getAttribute('aria-posinset')") == "50000"
    assert chromium.run(f"{AT}.getBoundingClientRect().bottom <= innerHeight + 1") is True
    for part in (0.1, 0.5, 0.9):
        chromium.run(f"document.getElementById('list').scrollTop = {part} * 50000 * 40")
        chromium.settle()
        assert 10 < chromium.run(ROWS) < 60
        top = chromium.run("document.querySelector('.row').getAttribute('aria-posinset')")
        assert abs(int(top) - part * 50_000) < 20
    chromium.run("const box = document.getElementById('search'); box.value = 'tool 12345'")
    chromium.run("document.getElementById('search').dispatchEvent(new Event('input'))")
    chromium.wait(f"{SHOWN} === '2 of 50000 events are shown'")
    assert chromium.complaints == []


def test_nothing_in_a_transcript_acts(chromium: Chromium, tmp_path: Path) -> None:
    texts = "".join("".join(lines(of_every_kind(text))) for text in (*HOSTILE, "x" * 10_000_000))
    broken = '{"torn\n\x00\nnull\n</script><script>document.title=1</script>\n'
    open_page(chromium, tmp_path, texts + broken + texts[:77])
    title = chromium.run("document.title")
    for _ in range(200):
        chromium.press("j")
        chromium.press("Enter")
    assert chromium.run("document.title") == title == "transcript.jsonl \u00b7 transcript"
    assert chromium.run("document.querySelectorAll('script').length") == 3
    assert chromium.run("document.querySelectorAll('img, iframe, a, object, embed').length") == 0
    text = chromium.run("document.body.innerText")
    assert not set(text) & set("\u202e\u2066\u200b\ufeff\x1b\x00")
    assert chromium.complaints == []
    # The policy holds whoever put an element there.
    made = "Object.assign(document.createElement('script'), {text: 'document.title = 1'})"
    chromium.run(f"document.body.append({made})")
    image = "<img src=x onerror='document.title = 1'>"
    chromium.run(f'document.body.insertAdjacentHTML("beforeend", "{image}")')
    chromium.settle()
    assert chromium.run("document.title") == title
    assert any("Content Security Policy" in text for text in chromium.complaints)
