// A long list of which only what can be seen is there: rows of one height, fetched a part at a time.

import { look, query } from "./ask.js";
import { h, refill, say, soon } from "./draw.js";
import { count } from "./words.js";

const PART = 100;
// So many rows are there above and below what can be seen.
const MORE = 8;
// So many parts are kept; those that were seen least lately are fetched again.
const PARTS_MAX = 60;
// How often parts are fetched again because something has changed that may move them.
const AGAIN_AFTER = 1000;
// How long after it could not be had a part is asked for again.
const RETRY_AFTER = 3000;

const same = (one, other) => one === other || (one && other && JSON.stringify(one) === JSON.stringify(other));

// `columns` are [title, class]; `cells` gives what is in a row; `key` tells rows apart; `noun` is what they are.
export class LongList {
  constructor({ path, parameters, columns, cells, key, noun, onMatching }) {
    Object.assign(this, { path, parameters, columns, cells, key, noun, onMatching });
    this.parts = new Map();
    this.rows = new Map();
    this.matching = 0;
    this.age = 0;
    this.changes = 0;
    this.abort = new AbortController();
    this.body = h("div.rows", { role: "rowgroup" });
    this.head = h("div", { role: "rowgroup" }, h("div.row.head", { role: "row", "aria-rowindex": 1 },
      columns.map(([title, name, sort]) => h(`div.cell.${name}`, { role: "columnheader", "aria-sort": sort ?? null }, title))));
    this.element = h("div.list", { role: "table", "aria-label": noun[1], "aria-rowcount": -1 }, this.head, this.body);
    this.empty = h("p.empty");
    this.empty.hidden = true;
    this.onScroll = () => this.show();
    this.again = soon(AGAIN_AFTER, () => this.fetchAgain());
    addEventListener("scroll", this.onScroll, { passive: true });
    this.watch = new ResizeObserver(() => this.show());
    this.watch.observe(this.body);
    this.body.addEventListener("keydown", (event) => this.move(event));
    this.fetch(0);
  }

  close() {
    this.abort.abort();
    this.again.stop();
    clearTimeout(this.retry);
    removeEventListener("scroll", this.onScroll);
    this.watch.disconnect();
  }

  // The part that begins with this row, once.
  async fetch(part) {
    if (this.parts.get(part)?.age === this.age) return;
    const held = { age: this.age, items: this.parts.get(part)?.items ?? [], seen: performance.now() };
    const changes = this.changes;
    this.parts.set(part, held);
    try {
      const answer = await look(query(this.path, { ...this.parameters, limit: PART, offset: part * PART }), this.abort.signal);
      held.items = answer.items;
      this.takeMatching(answer);
      this.forget();
      this.show();
      // What was told meanwhile may be newer than the answer.
      if (this.changes !== changes) this.again();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      // What was there stays, and is asked for again.
      held.age = -1;
      this.takeMatching({ matching: this.matching, problem });
      clearTimeout(this.retry);
      const isRefused = problem.status >= 400 && problem.status < 500 && problem.status !== 429;
      if (!isRefused) this.retry = setTimeout(() => this.show(), RETRY_AFTER);
    }
  }

  takeMatching({ matching, problems, problem }) {
    const text = problem ? problem.words : count(matching, ...this.noun);
    if (this.matching !== matching || !this.isKnown || problem) say(text);
    this.isKnown = true;
    this.matching = matching;
    this.empty.hidden = matching > 0 && !problem;
    this.empty.textContent = problem ? problem.words : `There are no ${this.noun[1]} like that.`;
    this.element.setAttribute("aria-rowcount", matching + 1);
    this.onMatching?.(text, problems ?? []);
  }

  forget() {
    const oldest = [...this.parts].sort(([, one], [, other]) => one.seen - other.seen);
    oldest.slice(0, Math.max(0, oldest.length - PARTS_MAX)).forEach(([part]) => this.parts.delete(part));
  }

  fetchAgain() {
    this.age += 1;
    this.show();
  }

  item(index) {
    const held = this.parts.get(Math.floor(index / PART));
    return held?.items[index % PART];
  }

  height() {
    return parseFloat(getComputedStyle(this.body).getPropertyValue("--row")) || 44;
  }

  // The rows that can be seen, from and to.
  range(height) {
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / height) - MORE);
    const last = Math.min(this.matching, Math.ceil((innerHeight - top) / height) + MORE);
    return [first, Math.max(first, last)];
  }

  show() {
    const height = this.height();
    this.body.style.setProperty("height", `${this.matching * height}px`);
    const [first, last] = this.range(height);
    for (const [index, row] of this.rows) {
      const isHeld = row.contains(document.activeElement) && index < this.matching;
      if ((index < first || index >= last) && !isHeld) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) this.showRow(index, height);
    for (let part = Math.floor(first / PART); part * PART < Math.max(last, 1); part += 1) {
      const held = this.parts.get(part);
      if (held) held.seen = performance.now();
      this.fetch(part);
    }
  }

  showRow(index, height) {
    const item = this.item(index);
    let row = this.rows.get(index);
    if (!row) {
      row = h("div.row", { role: "row", "aria-rowindex": index + 2, "data-index": index });
      this.insert(row, index);
      this.rows.set(index, row);
    } else if (row.height === height && same(row.item, item)) {
      return;
    }
    Object.assign(row, { item, height });
    if (item) row.dataset.key = this.key(item);
    else delete row.dataset.key;
    row.style.setProperty("transform", `translateY(${index * height}px)`);
    // What is the same in it stays, so that nobody loses what they are about to press.
    refill(row, item ? this.cells(item).map((cell, at) => h(`div.cell.${this.columns[at][1]}`, { role: "cell" }, cell))
      : this.columns.map(([, name]) => h(`div.cell.${name}`, { role: "cell" }, name === "name" ? "…" : "")));
  }

  // Rows are in the document in their order, as whoever goes through them by the keyboard meets them.
  insert(row, index) {
    const next = [...this.body.children].find((other) => Number(other.dataset.index) > index);
    this.body.insertBefore(row, next ?? null);
  }

  // Something has changed: its row does so at once, and what follows from it for the order, soon.
  changed(item, movesOthers) {
    this.changes += 1;
    const key = this.key(item);
    let isThere = false;
    for (const [part, { items }] of this.parts) {
      const at = items.findIndex((one) => this.key(one) === key);
      if (at < 0) continue;
      isThere = true;
      items[at] = item;
      this.showRowIfSeen(part * PART + at);
    }
    if (movesOthers || !isThere) this.again();
  }

  showRowIfSeen(index) {
    if (this.rows.has(index)) this.showRow(index, this.height());
  }

  // By the keyboard from row to row.
  move(event) {
    const row = event.target.closest(".row");
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = Number(row.dataset.index);
    const seen = Math.max(1, Math.floor(innerHeight / this.height()) - 3);
    const wanted = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + seen, PageUp: at - seen, Home: 0, End: this.matching - 1 }[event.key];
    if (wanted === undefined) return;
    event.preventDefault();
    this.focus(Math.min(Math.max(wanted, 0), this.matching - 1));
  }

  focus(index) {
    const height = this.height();
    const top = this.body.getBoundingClientRect().top + scrollY + index * height;
    const margin = 3 * height;
    if (top < scrollY + margin) scrollTo(0, Math.max(0, top - margin));
    else if (top + height > scrollY + innerHeight - margin) scrollTo(0, top + height + margin - innerHeight);
    this.show();
    const wait = (tries) => {
      const found = this.rows.get(index)?.querySelector("a");
      if (found) found.focus({ preventScroll: true });
      else if (tries > 0) requestAnimationFrame(() => wait(tries - 1));
    };
    wait(120);
  }
}
