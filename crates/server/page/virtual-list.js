// A long list that renders only its visible rows, which have a fixed height, and fetches items in parts.

import { get, query } from "./api.js";
import { h, refill, announce, debounce } from "./dom.js";
import { formatCount } from "./format.js";

const PART_SIZE = 100;
// Number of additional rows above and below the visible rows.
const OVERSCAN = 8;
// Maximum number of cached parts. The parts that were visible least recently are dropped.
const PARTS_MAX = 60;
// Minimum delay between refetches after changes that may move rows, in milliseconds.
const REFETCH_DELAY = 1000;
// Delay before a failed part is fetched again, in milliseconds.
const RETRY_DELAY = 3000;

const isEqual = (a, b) => a === b || (a && b && JSON.stringify(a) === JSON.stringify(b));

// `columns` are [title, class]; `cells` returns the cells of a row; `key` identifies items; `noun` is [singular, plural].
export class LongList {
  constructor({ path, parameters, columns, cells, key, noun, onTotal }) {
    Object.assign(this, { path, parameters, columns, cells, key, noun, onTotal });
    this.parts = new Map();
    this.rows = new Map();
    this.total = 0;
    this.generation = 0;
    this.changes = 0;
    this.abort = new AbortController();
    this.body = h("div.rows", { role: "rowgroup" });
    this.head = h("div", { role: "rowgroup" }, h("div.row.head", { role: "row", "aria-rowindex": 1 },
      columns.map(([title, name, sort]) => h(`div.cell.${name}`, { role: "columnheader", "aria-sort": sort ?? null }, title))));
    this.element = h("div.list", { role: "table", "aria-label": noun[1], "aria-rowcount": -1 }, this.head, this.body);
    this.empty = h("p.empty");
    this.empty.hidden = true;
    this.onScroll = () => this.render();
    this.refetchLater = debounce(REFETCH_DELAY, () => this.refetch());
    addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(() => this.render());
    this.observer.observe(this.body);
    this.body.addEventListener("keydown", (event) => this.handleKey(event));
    this.fetch(0);
  }

  close() {
    this.abort.abort();
    this.refetchLater.stop();
    clearTimeout(this.retry);
    removeEventListener("scroll", this.onScroll);
    this.observer.disconnect();
  }

  // Fetches a part, unless the cached part is current.
  async fetch(part) {
    if (this.parts.get(part)?.generation === this.generation) return;
    const entry = { generation: this.generation, items: this.parts.get(part)?.items ?? [], lastSeen: performance.now() };
    const changes = this.changes;
    this.parts.set(part, entry);
    try {
      const answer = await get(query(this.path, { ...this.parameters, limit: PART_SIZE, offset: part * PART_SIZE }), this.abort.signal);
      entry.items = answer.items;
      this.setTotal(answer);
      this.dropOldParts();
      this.render();
      // An event during the request may be newer than the response.
      if (this.changes !== changes) this.refetchLater();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      // The old items remain visible until the retry.
      entry.generation = -1;
      this.setTotal({ total: this.total, problem });
      clearTimeout(this.retry);
      const isRefused = problem.status >= 400 && problem.status < 500 && problem.status !== 429;
      if (!isRefused) this.retry = setTimeout(() => this.render(), RETRY_DELAY);
    }
  }

  setTotal({ total, problems, problem }) {
    const text = problem ? problem.fullMessage ?? String(problem) : formatCount(total, ...this.noun);
    if (this.total !== total || !this.hasTotal || problem) announce(text);
    this.hasTotal = true;
    this.total = total;
    this.empty.hidden = total > 0 && !problem;
    this.empty.textContent = problem ? problem.fullMessage : `No matching ${this.noun[1]}.`;
    this.element.setAttribute("aria-rowcount", total + 1);
    this.onTotal?.(text, problems ?? []);
  }

  dropOldParts() {
    const oldest = [...this.parts].sort(([, a], [, b]) => a.lastSeen - b.lastSeen);
    oldest.slice(0, Math.max(0, oldest.length - PARTS_MAX)).forEach(([part]) => this.parts.delete(part));
  }

  refetch() {
    this.generation += 1;
    this.render();
  }

  item(index) {
    const entry = this.parts.get(Math.floor(index / PART_SIZE));
    return entry?.items[index % PART_SIZE];
  }

  height() {
    return parseFloat(getComputedStyle(this.body).getPropertyValue("--row")) || 44;
  }

  // Returns the range of rendered rows, end exclusive.
  visibleRange(height) {
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / height) - OVERSCAN);
    const last = Math.min(this.total, Math.ceil((innerHeight - top) / height) + OVERSCAN);
    return [first, Math.max(first, last)];
  }

  render() {
    const height = this.height();
    this.body.style.setProperty("height", `${this.total * height}px`);
    const [first, last] = this.visibleRange(height);
    for (const [index, row] of this.rows) {
      const hasFocus = row.contains(document.activeElement) && index < this.total;
      if ((index < first || index >= last) && !hasFocus) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) this.renderRow(index, height);
    for (let part = Math.floor(first / PART_SIZE); part * PART_SIZE < Math.max(last, 1); part += 1) {
      const entry = this.parts.get(part);
      if (entry) entry.lastSeen = performance.now();
      this.fetch(part);
    }
  }

  renderRow(index, height) {
    const item = this.item(index);
    let row = this.rows.get(index);
    if (!row) {
      row = h("div.row", { role: "row", "aria-rowindex": index + 2, "data-index": index });
      this.insertRow(row, index);
      this.rows.set(index, row);
    } else if (row.height === height && isEqual(row.item, item)) {
      return;
    }
    Object.assign(row, { item, height });
    if (item) row.dataset.key = this.key(item);
    else delete row.dataset.key;
    row.style.setProperty("transform", `translateY(${index * height}px)`);
    // Unchanged cells are kept, so that a link does not disappear under the pointer.
    refill(row, item ? this.cells(item).map((cell, column) => h(`div.cell.${this.columns[column][1]}`, { role: "cell" }, cell))
      : this.columns.map(([, name]) => h(`div.cell.${name}`, { role: "cell" }, name === "name" ? "…" : "")));
  }

  // Rows are kept in document order, because keyboard users move through the rows in that order.
  insertRow(row, index) {
    const next = [...this.body.children].find((other) => Number(other.dataset.index) > index);
    this.body.insertBefore(row, next ?? null);
  }

  // Updates the row of an item immediately, and the order of the list after a short delay.
  updateItem(item, mayMoveOthers) {
    this.changes += 1;
    const key = this.key(item);
    let isLoaded = false;
    for (const [part, { items }] of this.parts) {
      const position = items.findIndex((candidate) => this.key(candidate) === key);
      if (position < 0) continue;
      isLoaded = true;
      items[position] = item;
      this.renderVisibleRow(part * PART_SIZE + position);
    }
    if (mayMoveOthers || !isLoaded) this.refetchLater();
  }

  renderVisibleRow(index) {
    if (this.rows.has(index)) this.renderRow(index, this.height());
  }

  // Moves the focus between rows with the keyboard.
  handleKey(event) {
    const row = event.target.closest(".row");
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const index = Number(row.dataset.index);
    const visibleRows = Math.max(1, Math.floor(innerHeight / this.height()) - 3);
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, PageDown: index + visibleRows, PageUp: index - visibleRows, Home: 0, End: this.total - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.focus(Math.min(Math.max(target, 0), this.total - 1));
  }

  focus(index) {
    const height = this.height();
    const top = this.body.getBoundingClientRect().top + scrollY + index * height;
    const margin = 3 * height;
    if (top < scrollY + margin) scrollTo(0, Math.max(0, top - margin));
    else if (top + height > scrollY + innerHeight - margin) scrollTo(0, top + height + margin - innerHeight);
    this.render();
    const focusLink = (tries) => {
      const anchor = this.rows.get(index)?.querySelector("a");
      if (anchor) anchor.focus({ preventScroll: true });
      else if (tries > 0) requestAnimationFrame(() => focusLink(tries - 1));
    };
    focusLink(120);
  }
}
