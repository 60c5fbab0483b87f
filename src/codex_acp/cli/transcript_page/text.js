// Show texts of the transcript: characters without a glyph as codes, never as markup.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
const KEPT = /[\n\t]/;  // not written out in a text of several lines

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function shape(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  svg.setAttribute('class', 'shape');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', `#shape-${name}`);
  svg.append(use);
  return svg;
}

function writtenOut(character) {
  return `\u27e6U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}\u27e7`;
}

/** Return `text` on one line, its invisible characters as codes. */
function visible(text) {
  return text.replace(/\n/g, '\u23ce').replace(/\t/g, '\u21e5').replace(HIDDEN, writtenOut);
}

/** Return nodes of `text` on several lines, its invisible characters as marked codes. */
function visibleNodes(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (KEPT.test(found[0])) continue;
    nodes.push(text.slice(from, found.index), element('span', 'esc', writtenOut(found[0])));
    from = found.index + found[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

/** Return nodes of `text` with the matches of `wanted` marked. */
function marked(text, wanted) {
  const shown = visible(text);
  if (!wanted) return [shown];
  const nodes = [];
  let from = 0;
  for (const found of shown.matchAll(wanted)) {
    nodes.push(shown.slice(from, found.index), element('mark', '', found[0]));
    from = found.index + found[0].length;
  }
  nodes.push(shown.slice(from));
  return nodes;
}

const JSON_PARTS = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;
const MAX_COLOURED = 200000;  // characters of JSON; longer JSON has no colours

/** Return nodes of a JSON value, indented and coloured. */
function jsonNodes(value) {
  const text = JSON.stringify(value, null, 2);
  if (text.length > MAX_COLOURED) return visibleNodes(text);
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(JSON_PARTS)) {
    nodes.push(text.slice(from, found.index));
    const kind = found[2] ? 'name' : found[1] ? 'string' : /[a-z]/.test(found[0][0]) ? 'word' : 'number';
    nodes.push(element('span', `j-${kind}`, ...visibleNodes(found[1] || found[0])));
    if (found[2]) nodes.push(found[2]);
    from = found.index + found[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

function clock(milliseconds) {
  return milliseconds === null ? '\u2013' : new Date(milliseconds).toISOString().slice(11, 23);
}

function lasted(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 60000) return `${(milliseconds / 1000).toFixed(1)} s`;
  const minutes = Math.floor(milliseconds / 60000);
  if (minutes < 60) return `${minutes} min ${Math.floor(milliseconds / 1000) % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
