// The pane of one event: its ids, its question or answer, the messages of the wire, and the recorded line.

const PARTS = { client: 'Client', adapter: 'Adapter', codex: 'Codex' };
const FACTS = {
  session_id: 'session', thread_id: 'thread', turn_id: 'turn', item_id: 'item', method: 'method',
  codex_request_id: 'request of Codex', acp_request_id: 'request of ACP', generation: 'connection to Codex',
  arguments_sha256: 'digest of the arguments', decision: 'Codex was told', code: 'failed check', size: 'bytes', left_out: 'not kept',
};

class Detail {
  constructor(timeline) {
    this.timeline = timeline;
    this.pane = document.getElementById('detail');
    this.number = null;
  }

  get open() { return !this.pane.hidden; }

  close() {
    this.pane.hidden = true;
    this.number = null;
    this.timeline.list.focus();
  }

  show(number) {
    this.number = number;
    const row = this.timeline.rows[number];
    const record = JSON.parse(this.timeline.details[number]);
    this.pane.className = `detail ${row.kind} t-${row.tone}`;
    const name = element('h2', '', shape(signOf(row)), element('span', 'badge', WORDS[row.kind]), element('span', 'verb', visible(row.verb)));
    name.id = 'detail-name';
    const close = element('button', '', 'Close');
    close.type = 'button';
    close.addEventListener('click', () => this.close());
    this.pane.replaceChildren(element('header', '', name, close));
    if (row.title) this.pane.append(element('p', 'subject', ...visibleNodes(row.title)));
    this.pane.append(element('p', row.title ? 'said' : 'subject', ...visibleNodes(row.about)));
    if (row.detail) this.pane.append(element('p', 'said', ...visibleNodes(row.detail)));
    this.pane.append(this.facts(row, record));
    this.addPair(row);
    this.addWire(row);
    const whole = row.kind === 'unread' || (row.kind === 'wire' && !record.message);
    this.pane.append(element('h3', '', 'The line of the transcript'), this.message(element('b', '', 'as it was recorded'), record, whole));
    this.pane.hidden = false;
    this.pane.scrollTop = 0;
  }

  facts(row, record) {
    const list = element('dl', '');
    const add = (name, value) => list.append(element('dt', '', name), element('dd', '', ...visibleNodes(value)));
    if (row.t !== null) add('time', new Date(row.t).toISOString());
    add('way', `${PARTS[row.from]} \u2192 ${PARTS[row.to]}`);
    for (const [key, name] of Object.entries(FACTS)) {
      const value = record[key];
      if (value === null || value === undefined) continue;
      const quoted = typeof value === 'string' && /request_id$/.test(key);  // the id "0" is not 0
      add(name, quoted ? JSON.stringify(value) : String(value));
    }
    for (const option of record.options || []) add('choice', `${option.name} (${String(option.kind).replace('_', ' ')})`);
    return list;
  }

  addPair(row) {
    if (row.pair === undefined) return;
    const other = this.timeline.rows[row.pair];
    const later = row.took === undefined;
    const took = later ? other.took : row.took;
    const go = element('button', '', later ? `To its answer: ${visible(other.verb)}, after ${took === undefined ? '?' : lasted(took)}` : `To its beginning, ${lasted(row.took)} before`);
    go.type = 'button';
    go.addEventListener('click', () => this.toPair());
    this.pane.append(go);
  }

  /** Go from a question to its answer, or back. */
  toPair() {
    const pair = this.timeline.rows[this.number]?.pair;
    if (pair === undefined) return;
    if (!this.timeline.go(pair)) this.show(pair);
  }

  addWire(row) {
    if (row.kind === 'unread') return;
    this.pane.append(element('h3', '', 'The wire'));
    const messages = row.kind === 'wire' ? [this.number] : row.wire;
    if (!messages) {
      const recorded = this.timeline.rows.some((other) => other.kind === 'wire');
      this.pane.append(element('p', 'said', recorded ? 'No message of the wire belongs to this event.' : 'The wire was not recorded. Start the agent with --transcript-wire to have it here.'));
      return;
    }
    for (const number of messages) {
      const wire = this.timeline.rows[number];
      const record = JSON.parse(this.timeline.details[number]);
      const head = [element('b', '', `${PARTS[wire.from]} \u2192 ${PARTS[wire.to]}`), element('span', '', ` ${visible(wire.verb)} `), visible(wire.about), element('span', '', ` \u00b7 ${clock(wire.t)} \u00b7 ${visible(wire.detail)}`)];
      this.pane.append(this.message(head, record.message ?? record, true));
    }
  }

  message(head, value, open) {
    const made = element('details', 'message', element('summary', '', ...[head].flat()), element('pre', '', ...jsonNodes(value)));
    made.open = open;
    return made;
  }
}
