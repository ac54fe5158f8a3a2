// A line of the timeline: spans of time one after the other, and moments.
export class Line {
  constructor(label, level) {
    Object.assign(this, { label, level, spans: [], marks: [], children: [], outcome: null });
  }

  get open() {
    const last = this.spans.at(-1);
    return last && last.to === null ? last : null;
  }

  // From here on it is so.
  begin(at, state, tone, why = "", attempt = 1) {
    this.end(at);
    this.outcome = null;
    this.spans.push({ from: at, to: null, state, tone, why, attempt });
  }

  end(at) {
    if (this.open) this.open.to = Math.max(at, this.open.from);
  }

  // What it waits for once it is written.
  get awaits() {
    return this.isHook ? "waits for its end" : "waits for its health";
  }

  mark(at, text, tone) {
    this.marks.push({ at, text, tone });
  }

  get from() {
    return Math.min(...this.spans.map((span) => span.from), ...this.children.map((child) => child.from));
  }

  // How long it waited, and how long it took in all.
  took(now, wait = null) {
    return this.spans.filter((span) => wait === null || (span.tone === "wait") === wait)
      .reduce((sum, span) => sum + (span.to ?? now) - span.from, 0);
  }

  // How it has ended, or what it is at.
  get state() {
    return this.outcome ?? this.spans.at(-1)?.state ?? "";
  }
}
