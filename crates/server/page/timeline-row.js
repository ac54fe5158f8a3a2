// A row of the timeline, with consecutive spans and point-in-time marks.
export class TimelineRow {
  constructor(label, level) {
    Object.assign(this, { label, level, spans: [], marks: [], children: [], outcome: null });
  }

  get openSpan() {
    const last = this.spans.at(-1);
    return last && last.to === null ? last : null;
  }

  // Starts a new span and ends the previous span.
  beginSpan(at, state, tone, reason = "", attempt = 1) {
    this.endSpan(at);
    this.outcome = null;
    this.spans.push({ from: at, to: null, state, tone, reason, attempt });
  }

  endSpan(at) {
    if (this.openSpan) this.openSpan.to = Math.max(at, this.openSpan.from);
  }

  // Reason for the wait after the object was written.
  get awaitedText() {
    return this.isHook ? "waiting for completion" : "waiting for health";
  }

  addMark(at, text, tone) {
    this.marks.push({ at, text, tone });
  }

  get from() {
    return Math.min(...this.spans.map((span) => span.from), ...this.children.map((child) => child.from));
  }

  // Returns the total duration. If `wait` is set, returns only the time spent waiting (true) or not waiting
  // (false).
  getDuration(now, wait = null) {
    return this.spans.filter((span) => wait === null || (span.tone === "wait") === wait)
      .reduce((sum, span) => sum + (span.to ?? now) - span.from, 0);
  }

  // Returns the outcome, or the current state.
  get state() {
    return this.outcome ?? this.spans.at(-1)?.state ?? "";
  }
}
