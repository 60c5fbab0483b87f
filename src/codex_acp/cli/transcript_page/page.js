// The page: its filters, its theme and its keys.

const MARKS = new Set(['approval', 'elicitation', 'decline', 'unread']);  // kinds that n and p go to
const SEARCH_PAUSE = 120;  // milliseconds after a key before the search begins

const rows = JSON.parse(document.getElementById('data-rows').textContent);
const details = document.getElementById('data-details').textContent.split('\n');
const timeline = new Timeline(rows, details);
const detail = new Detail(timeline);
const search = document.getElementById('search');
const sessions = document.getElementById('session');
const kinds = new Map();
const status = document.getElementById('told');

function filter() {
  const text = search.value.trim();
  const escaped = text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const wanted = text ? new RegExp(escaped, 'gi') : null;
  const escapedJson = JSON.stringify(text).slice(1, -1).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const inLine = text ? new RegExp(escapedJson, 'i') : null;
  const shown = [];
  for (const [number, row] of rows.entries()) {
    if (kinds.get(row.kind)?.getAttribute('aria-pressed') === 'false') continue;
    if (sessions.value && row.session !== null && row.session !== sessions.value) continue;
    if (wanted) {
      wanted.lastIndex = 0;
      if (!wanted.test(`${WORDS[row.kind]} ${row.verb} ${row.title || ''} ${row.about} ${row.detail}`) && !inLine.test(details[number])) continue;
    }
    shown.push(number);
  }
  timeline.show(shown, wanted);
  status.textContent = `${shown.length} of ${rows.length} events are shown`;
}

function addKinds() {
  const counts = new Map();
  for (const row of rows) counts.set(row.kind, (counts.get(row.kind) || 0) + 1);
  const onlyWire = counts.size === 1 && counts.has('wire');
  for (const [kind, word] of Object.entries(WORDS)) {
    if (!counts.has(kind)) continue;
    const button = element('button', kind, shape(kind), element('span', 'word', word), element('span', 'count', String(counts.get(kind))));
    button.type = 'button';
    button.setAttribute('aria-pressed', kind !== 'wire' || onlyWire);
    button.addEventListener('click', () => { button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') === 'false'); filter(); });
    kinds.set(kind, button);
    document.getElementById('kinds').append(button);
  }
}

function addSessions() {
  const known = new Map();
  for (const row of rows) if (row.session !== null) known.set(row.session, (known.get(row.session) || 0) + 1);
  const option = (value, text) => { const made = element('option', '', text); made.value = value; return made; };
  sessions.append(option('', `All sessions (${known.size})`));
  for (const [session, count] of known) sessions.append(option(session, `${visible(session).slice(-18)} (${count})`));
  sessions.disabled = known.size < 2;
  sessions.addEventListener('change', filter);
}

function addTime() {
  const times = rows.map((row) => row.t).filter((time) => time !== null);
  const [first, last] = [times.reduce((a, b) => Math.min(a, b), Infinity), times.reduce((a, b) => Math.max(a, b), -Infinity)];
  const when = times.length ? `${new Date(first).toISOString().slice(0, 19).replace('T', ' ')} UTC, ${lasted(last - first)}` : 'no times';
  document.getElementById('span').textContent = `${rows.length} events \u00b7 ${when}`;
}

function store(name, value) {
  try { return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value); } catch { return null; }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  timeline.drawMap();
}

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
prefersDark.addEventListener('change', () => { if (!store('transcript-theme')) setTheme(prefersDark.matches ? 'dark' : 'light'); });
document.getElementById('theme').addEventListener('click', () => {
  const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  store('transcript-theme', theme);
  setTheme(theme);
});

const help = document.getElementById('keyhelp');
document.getElementById('help').addEventListener('click', () => help.showModal());
document.getElementById('all').addEventListener('click', () => {
  search.value = sessions.value = '';
  for (const [kind, button] of kinds) button.setAttribute('aria-pressed', kind !== 'wire');
  filter();
});
let typing = 0;
search.addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(filter, SEARCH_PAUSE); });

timeline.onchoose = (number, open) => { if (open || detail.open) detail.show(number); };

const KEYS = {
  j: () => timeline.choose(timeline.at + 1, false), ArrowDown: () => timeline.choose(timeline.at + 1, false),
  k: () => timeline.choose(timeline.at - 1, false), ArrowUp: () => timeline.choose(timeline.at - 1, false),
  n: () => timeline.seek(1, (row) => MARKS.has(row.kind)), p: () => timeline.seek(-1, (row) => MARKS.has(row.kind)),
  g: () => timeline.choose(0, false), Home: () => timeline.choose(0, false),
  G: () => timeline.choose(rows.length, false), End: () => timeline.choose(rows.length, false),
  PageDown: () => timeline.choose(timeline.at + Math.floor(timeline.list.clientHeight / timeline.height), false),
  PageUp: () => timeline.choose(timeline.at - Math.floor(timeline.list.clientHeight / timeline.height), false),
  Enter: () => { if (timeline.at < 0) timeline.choose(0, true); else detail.show(timeline.shown[timeline.at]); },
  o: () => { if (detail.number === null && timeline.at >= 0) detail.show(timeline.shown[timeline.at]); detail.toPair(); },
  '/': () => { search.focus(); search.select(); },
  '?': () => help.showModal(),
  Escape: () => {
    if (detail.open) detail.close();
    else if (search.value) { search.value = ''; filter(); }
  },
};

document.addEventListener('keydown', (event) => {
  if (help.open || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest('input, select, textarea, button, summary');
  if (field === search && (event.key === 'Enter' || event.key === 'ArrowDown')) { filter(); timeline.list.focus(); timeline.choose(0, false); event.preventDefault(); return; }
  if (field === search && event.key === 'Escape') { if (search.value) { search.value = ''; filter(); } timeline.list.focus(); event.preventDefault(); return; }
  if (field && (field === search || field === sessions || event.key === 'Enter' || event.key.startsWith('Arrow'))) return;
  const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
  if (!act) return;
  event.preventDefault();
  act();
});

addKinds();
addSessions();
addTime();
setTheme(store('transcript-theme') || (prefersDark.matches ? 'dark' : 'light'));
filter();
timeline.list.focus({ preventScroll: true });
