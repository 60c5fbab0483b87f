// The list of events. Only visible rows have elements.

const WORDS = {
  approval: 'Approval', elicitation: 'Elicitation', decline: 'Declined', prompt: 'Prompt',
  session: 'Session', wire: 'Wire', unread: 'Unreadable',
};
const SIDES = ['client', 'adapter', 'codex'];
const SPARE = 8;  // rows with elements above and below the visible ones

class Timeline {
  constructor(rows, details) {
    this.rows = rows;
    this.details = details;
    this.shown = [];
    this.at = -1;
    this.wanted = null;
    this.onchoose = () => {};
    this.list = document.getElementById('list');
    this.tall = document.getElementById('tall');
    this.box = document.getElementById('rows');
    this.map = document.getElementById('map');
    this.start = rows.find((row) => row.t !== null)?.t ?? null;
    this.drawn = '';
    this.made = new Map();
    this.list.addEventListener('scroll', () => this.soon());
    new ResizeObserver(() => { this.drawn = ''; this.draw(); this.drawMap(); }).observe(this.list);
    this.box.addEventListener('click', (event) => {
      const row = event.target.closest('.row');
      if (row) this.choose(Number(row.dataset.at), true);
    });
    this.map.addEventListener('pointerdown', (event) => this.jump(event));
    this.map.addEventListener('pointermove', (event) => { if (event.buttons) this.jump(event); });
  }

  get height() { return parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row')); }

  /** Show the rows with these numbers, and mark the matches of `wanted`. */
  show(shown, wanted) {
    const before = this.shown[this.at];
    this.shown = shown;
    this.wanted = wanted;
    this.at = before === undefined ? -1 : shown.indexOf(before);
    document.getElementById('nothing').hidden = shown.length > 0;
    this.drawn = '';
    this.made.clear();
    this.draw();
    if (this.at >= 0) this.reveal();
    this.drawMap();
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); this.drawMap(); });
  }

  draw() {
    const height = this.height;
    const first = Math.max(0, Math.floor(this.list.scrollTop / height) - SPARE);
    const last = Math.min(this.shown.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / height) + SPARE);
    const state = `${first} ${last} ${this.at}`;
    if (state === this.drawn) return;
    this.drawn = state;
    this.tall.style.height = `${this.shown.length * height}px`;
    this.box.style.transform = `translateY(${first * height}px)`;
    const made = new Map();
    for (let at = first; at < last; at += 1) {
      const row = this.made.get(at) || this.row(this.shown[at], at);
      row.setAttribute('aria-selected', at === this.at);
      made.set(at, row);
    }
    this.made = made;
    this.box.replaceChildren(...made.values());
    if (this.at >= first && this.at < last) this.list.setAttribute('aria-activedescendant', `row-${this.shown[this.at]}`);
    else this.list.removeAttribute('aria-activedescendant');
  }

  row(number, at) {
    const row = this.rows[number];
    const ends = [SIDES.indexOf(row.from), SIDES.indexOf(row.to)];
    const way = ends[0] === ends[1] ? 'none' : [...ends].sort().map((side) => SIDES[side]).join('-');
    const made = element('div', `row ${row.kind} t-${row.tone} a-${row.from} w-${way}`);
    made.id = `row-${number}`;
    made.dataset.at = at;
    made.setAttribute('role', 'option');
    made.setAttribute('aria-posinset', at + 1);
    made.setAttribute('aria-setsize', this.shown.length);
    const name = [WORDS[row.kind], row.verb, row.title || '', row.about, row.detail, clock(row.t)];
    made.setAttribute('aria-label', visible(name.filter(Boolean).join(', ')));
    const lanes = element('span', 'lanes', element('span', `arrow ${ends[0] < ends[1] ? 'right' : 'left'}`), shape(signOf(row)));
    const text = element('span', 'text', element('span', 'badge', WORDS[row.kind]), element('span', 'verb', visible(row.verb)));
    const about = row.title && row.kind !== 'wire' ? row.title : row.about;
    if (about) text.append(element('span', 'about', ...marked(about, this.wanted)));
    const rest = row.title && row.kind === 'wire' ? `${row.title} \u00b7 ${row.detail}` : row.detail;
    text.append(element('span', 'rest', ...marked(rest, this.wanted)));
    if (row.took !== undefined) text.append(element('span', 'took', lasted(row.took)));
    const time = element('span', 'time', clock(row.t));
    if (row.t !== null) time.title = `${new Date(row.t).toISOString()}, ${lasted(row.t - this.start)} after the first event`;
    made.append(time, lanes, text);
    return made;
  }

  choose(at, open) {
    if (!this.shown.length) return;
    this.at = Math.min(Math.max(at, 0), this.shown.length - 1);
    this.reveal();
    this.draw();
    this.onchoose(this.shown[this.at], open);
  }

  /** Go to a row by its number; return whether it is shown. */
  go(number) {
    const at = this.shown.indexOf(number);
    if (at >= 0) this.choose(at, false);
    return at >= 0;
  }

  /** Go to the next row in a direction that a test accepts. */
  seek(step, test) {
    for (let at = this.at + step; at >= 0 && at < this.shown.length; at += step) {
      if (test(this.rows[this.shown[at]])) return this.choose(at, false);
    }
  }

  reveal() {
    const [top, height] = [this.at * this.height, this.height];
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (top + height > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + height - this.list.clientHeight;
  }

  jump(event) {
    const part = event.offsetY / this.map.clientHeight;
    this.list.scrollTop = part * this.shown.length * this.height - this.list.clientHeight / 2;
  }

  /** Draw the map beside the list: the places of approvals, elicitations and declines. */
  drawMap() {
    const [width, height] = [this.map.clientWidth, this.map.clientHeight];
    const scale = window.devicePixelRatio || 1;
    const theme = document.documentElement.dataset.theme;
    const state = `${width} ${height} ${scale} ${theme}`;
    if (this.marksOf !== this.shown || this.marksState !== state) {
      [this.marksOf, this.marksState] = [this.shown, state];
      this.marks = this.paintMarks(width, height, scale);
    }
    this.map.width = width * scale;
    this.map.height = height * scale;
    const paint = this.map.getContext('2d');
    const unit = this.map.height / Math.max(this.shown.length, 1) / this.height;
    paint.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--lane');
    paint.globalAlpha = 0.5;
    paint.fillRect(0, this.list.scrollTop * unit, this.map.width, Math.max(this.list.clientHeight * unit, 6 * scale));
    paint.globalAlpha = 1;
    if (this.map.width && this.map.height) paint.drawImage(this.marks, 0, 0);
  }

  paintMarks(width, height, scale) {
    const made = document.createElement('canvas');
    made.width = width * scale;
    made.height = height * scale;
    const paint = made.getContext('2d');
    paint.scale(scale, scale);
    const unit = height / Math.max(this.shown.length, 1);
    const style = getComputedStyle(document.documentElement);
    const lanes = { approval: [1, '--approval-edge'], elicitation: [5, '--elicitation-edge'], decline: [9, '--decline-edge'], unread: [9, '--decline-edge'] };
    const painted = {};
    for (const [at, number] of this.shown.entries()) {
      const kind = this.rows[number].kind;
      const pixel = Math.floor(at * unit);
      if (!lanes[kind] || painted[kind] === pixel) continue;
      painted[kind] = pixel;
      paint.fillStyle = style.getPropertyValue(lanes[kind][1]);
      paint.fillRect(lanes[kind][0], at * unit, 4, Math.max(unit - 1, 2));
    }
    return made;
  }
}

function signOf(row) {
  if (row.kind !== 'approval') return row.kind;
  return { good: 'accepted', bad: 'rejected', halted: 'rejected' }[row.tone] || 'approval';
}
