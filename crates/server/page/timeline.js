// An operation's timeline as a picture, and as a table for screen readers.

import { fill, h, svg } from "./dom.js";
import { truncate } from "./svg-export.js";
import { formatClock, formatCount, renderCollapsible, formatDuration, formatTime } from "./format.js";

const ROW_HEIGHT = 24;
const AXIS_HEIGHT = 26;
// Height of the optional title.
const TITLE_HEIGHT = 54;
// Width of an axis label, in pixels.
const AXIS_LABEL_WIDTH = 80;
// Width below which names are placed above their bars, in pixels.
const NARROW_WIDTH = 620;
// Maximum number of drawn objects. Objects with problems and the longest bars take precedence.
const OBJECTS_MAX = 150;
// Maximum number of described spans per row. The newest spans are described.
const SPANS_MAX = 200;
// Minimum duration in milliseconds for which a wait without a reason is described.
const SHORT_WAIT = 50;
// States in which every applied or deleted object waits for some time.
const USUAL_STATES = new Set(["Applied", "Running", "Progressing", "Deleting"]);
const INDENT = { operation: 0, phase: 0, wave: 10, object: 22 };
const STEPS = [0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

// Returns the rows to draw, and the number of omitted rows.
export function selectRows(model, now) {
  const rows = model.rows();
  const objectRows = rows.filter((row) => row.level === "object" && row.spans.length > 0);
  if (objectRows.length <= OBJECTS_MAX) return [rows.filter((row) => row.level !== "object" || row.spans.length > 0), 0];
  const isBad = (row) => row.marks.some((mark) => mark.tone === "bad")
    || row.spans.some((span) => span.tone === "bad" || (span.tone === "wait" && !USUAL_STATES.has(span.state)));
  const selected = new Set(objectRows.sort((a, b) => isBad(b) - isBad(a) || b.getDuration(now) - a.getDuration(now)).slice(0, OBJECTS_MAX));
  return [rows.filter((row) => row.level !== "object" || selected.has(row)), objectRows.length - OBJECTS_MAX];
}

// Width of a downloaded timeline, in pixels.
export const EXPORT_WIDTH = 1200;

// Draws the timeline. With a `title`, the picture also contains the title and the time, for download.
export function drawTimeline(model, width, now, title) {
  const [rows, omitted] = selectRows(model, now);
  const from = model.from;
  const to = Math.max(model.isFinished ? model.at : now, from + 100);
  const isNarrow = width < NARROW_WIDTH;
  const margin = isNarrow ? 4 : Math.min(300, Math.round(width * 0.34));
  const height = isNarrow ? ROW_HEIGHT * 2 - 6 : ROW_HEIGHT;
  const inner = Math.max(40, width - margin - 12);
  const x = (at) => margin + ((Math.min(Math.max(at, from), to) - from) / (to - from)) * inner;
  const total = AXIS_HEIGHT + rows.length * height + 6;
  const head = title ? TITLE_HEIGHT : 0;
  const content = `${formatDuration(to - from)}, ${formatCount(rows.filter((row) => row.level === "wave").length, "wave")}`;
  const description = title ? `From ${formatTime(from)} to ${formatTime(to)}: ${content}` : `From ${formatClock(from)}: ${content}. The table below has the same content.`;
  const picture = svg("svg.timeline", { width, height: head + total, viewBox: `0 0 ${width} ${head + total}`, role: "img", "aria-label": title ? `${title}. ${description}` : description });
  if (title) {
    picture.append(svg("title", null, title), svg("desc", null, description),
      svg("text.title", { x: 2, y: 22 }, truncate(title, Math.floor(width / 10))), svg("text.quiet", { x: 2, y: 42 }, description));
  }
  const chart = svg("g", { transform: head > 0 ? `translate(0 ${head})` : null });
  drawGrid(chart, { from, to, x, total, inner });
  rows.forEach((row, index) => drawRow(chart, row, { y: AXIS_HEIGHT + index * height, height, isNarrow, margin, x, to }));
  picture.append(chart);
  return { picture, omitted };
}

function drawGrid(picture, { from, to, x, total, inner }) {
  const step = STEPS.find((candidate) => ((to - from) / 1000 / candidate) * 100 <= inner) ?? STEPS.at(-1);
  for (let at = 0; at <= (to - from) / 1000; at += step) {
    const position = x(from + at * 1000);
    // At the right edge, place the label to the left of its line.
    const isLast = position + AXIS_LABEL_WIDTH > x(to) + 12;
    picture.append(svg("line.grid", { x1: position, x2: position, y1: AXIS_HEIGHT - 6, y2: total }),
      svg("text.axis", { x: isLast ? position - 3 : position + 2, y: 14, "text-anchor": isLast ? "end" : null }, at === 0 ? formatClock(from) : `+${formatDuration(at * 1000)}`));
  }
}

function drawRow(picture, row, { y, height, isNarrow, margin, x, to }) {
  const indent = INDENT[row.level];
  const group = svg(`g.${row.level === "object" ? "object" : "head"}`);
  const nameWidth = isNarrow ? x(to) - indent : margin - indent - 8;
  const name = truncate(row.label, Math.floor(nameWidth / 7));
  group.append(svg("text", { x: 2 + indent, y: y + 16 }, name, svg("title", null, row.label)));
  const top = isNarrow ? y + 22 : y + 5;
  const thickness = row.level === "object" ? ROW_HEIGHT - 12 : ROW_HEIGHT - 9;
  for (const span of row.spans) {
    const [begin, end] = [x(span.from), x(span.to ?? to)];
    const attempt = span.attempt > 1 ? ` (attempt ${span.attempt})` : "";
    const elapsed = formatDuration((span.to ?? to) - span.from);
    const shape = svg(`rect.${span.tone}`, { x: begin, y: top, width: Math.max(2, end - begin), height: thickness, rx: 2 },
      svg("title", null, `${row.label}: ${span.state}${attempt}, ${elapsed}${span.reason ? `: ${span.reason}` : ""}`));
    group.append(shape);
    // Waits have a dashed line, so that they can be distinguished without colors.
    if (span.tone === "wait" && end - begin > 6) {
      group.append(svg("line.through", { x1: begin + 2, x2: end - 2, y1: top + thickness / 2, y2: top + thickness / 2 }));
    }
  }
  for (const mark of row.marks) {
    const position = x(mark.at);
    group.append(svg(`path.mark.${mark.tone}`, { d: `M${position - 4} ${top - 3}h8l-4 6z` }, svg("title", null, `${formatClock(mark.at)}: ${mark.text}`)));
  }
  picture.append(group);
}

// Renders the waits with their durations, and other spans that have a reason, newest last.
function renderReasons(row, now) {
  const getLength = (span) => (span.to ?? now) - span.from;
  const spans = row.spans.filter((span) => span.reason || (span.tone === "wait" && (span.to === null || getLength(span) >= SHORT_WAIT)));
  const omitted = spans.length - SPANS_MAX;
  return [
    omitted > 0 ? h("div", null, `${formatCount(omitted, "earlier entry", "earlier entries")} omitted`) : null,
    spans.slice(-SPANS_MAX).map((span) => {
      const length = formatDuration(getLength(span));
      const text = span.tone !== "wait" ? `${span.state} for ${length}` : `${span.to === null ? "waiting" : "waited"} ${length} (${span.state})`;
      return h("div", null, `${formatClock(span.from)}: ${text}${span.attempt > 1 ? `, attempt ${span.attempt}` : ""}`, span.reason ? [": ", renderCollapsible(span.reason)] : null);
    }),
  ];
}

// Renders the timeline as a table. The roles are explicit, because the phone layout changes `display`, which
// removes implicit roles.
export function renderTimelineTable(model, now) {
  const headings = ["Item", "Started", "Duration", "Waited", "Attempts", "State", "Waits and reasons", "Events"];
  const [rows] = selectRows(model, now);
  const bodyRows = rows.filter((row) => row.level !== "phase" && (row.spans.length > 0 || row.marks.length > 0 || row.level === "wave")).map((row) => {
    const attempts = new Set(row.spans.map((span) => span.attempt));
    const [hasSpans, waited] = [row.spans.length > 0, row.getDuration(now, true)];
    const cells = [
      hasSpans ? formatClock(row.from) : "–", hasSpans ? formatDuration(row.getDuration(now)) : "–", waited > 0 ? formatDuration(waited) : "–",
      attempts.size > 0 ? [...attempts].join(", ") : "–", row.state, renderReasons(row, now),
      row.marks.map((mark) => h("div", null, `${formatClock(mark.at)}: `, renderCollapsible(mark.text))),
    ];
    return h("tr", { role: "row" }, h(`th.of-${row.level}`, { scope: "row", role: "rowheader" }, row.label),
      cells.map((cell, index) => h(index >= 5 ? "td.words" : "td", { role: "cell", "data-of": headings[index + 1] }, cell)));
  });
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Timeline as a table" }, h("table.stacked", { role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, headings.map((heading) => h("th", { scope: "col", role: "columnheader" }, heading)))),
    h("tbody", { role: "rowgroup" }, bodyRows)));
}

// Renders the meaning of the colors.
export function renderLegend() {
  const entries = [["busy", "running"], ["wait", "waiting for health, a hook, a gate, an approval or the next attempt"], ["good", "healthy or succeeded"], ["bad", "failed"], ["warn", "missing"], ["dull", "unknown"]];
  return h("ul.legend", { "aria-label": "Colors" }, entries.map(([tone, word]) => h("li", null, h(`span.swatch.${tone}`, { "aria-hidden": "true" }), word)));
}

// Redraws when the width of the container changes. Returns a function that stops redrawing.
export function redrawOnResize(container, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const newWidth = Math.floor(entry.contentRect.width);
    if (newWidth === width || newWidth === 0) return;
    width = newWidth;
    fill(container, draw(width));
  });
  observer.observe(container);
  return () => observer.disconnect();
}
