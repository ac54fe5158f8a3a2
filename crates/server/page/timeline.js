// The timeline of an operation as a picture, and the same as a table for those who do not see it.

import { fill, h, svg } from "./draw.js";
import { cut } from "./picture.js";
import { clock, count, folded, long, moment } from "./words.js";

const LINE = 24;
const TOP = 26;
// The room of a title above, where there is one.
const HEAD = 54;
// So wide is what an axis says, in pixels.
const AXIS = 80;
// Below this width the names stand above their lines.
const NARROW = 620;
// So many objects are drawn; of more, those that took longest and those that are not well.
const OBJECTS_MAX = 150;
// So many spans of a line are told in words, the newest.
const SPANS_MAX = 200;
// A wait without a reason that is not even so long is only passed through, in milliseconds.
const SHORT = 50;
// What every object waits for that is applied or deleted.
const USUAL = new Set(["Applied", "Running", "Progressing", "Deleting"]);
const INDENT = { operation: 0, phase: 0, wave: 10, object: 22 };
const STEPS = [0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

// The lines that are drawn, and how many are not.
export function chosen(story, now) {
  const lines = story.lines();
  const objects = lines.filter((line) => line.level === "object" && line.spans.length > 0);
  if (objects.length <= OBJECTS_MAX) return [lines.filter((line) => line.level !== "object" || line.spans.length > 0), 0];
  const bad = (line) => line.marks.some((mark) => mark.tone === "bad")
    || line.spans.some((span) => span.tone === "bad" || (span.tone === "wait" && !USUAL.has(span.state)));
  const wanted = new Set(objects.sort((one, other) => bad(other) - bad(one) || other.took(now) - one.took(now)).slice(0, OBJECTS_MAX));
  return [lines.filter((line) => line.level !== "object" || wanted.has(line)), objects.length - OBJECTS_MAX];
}

// So wide is a timeline that is kept, in pixels.
export const KEPT_WIDTH = 1200;

// With a `title` it stands for itself: it says what it is of, and when that was.
export function drawTimeline(story, width, now, title) {
  const [lines, left] = chosen(story, now);
  const from = story.from;
  const to = Math.max(story.isOver ? story.at : now, from + 100);
  const isNarrow = width < NARROW;
  const margin = isNarrow ? 4 : Math.min(300, Math.round(width * 0.34));
  const height = isNarrow ? LINE * 2 - 6 : LINE;
  const inner = Math.max(40, width - margin - 12);
  const x = (at) => margin + ((Math.min(Math.max(at, from), to) - from) / (to - from)) * inner;
  const total = TOP + lines.length * height + 6;
  const head = title ? HEAD : 0;
  const what = `${long(to - from)}, ${count(lines.filter((line) => line.level === "wave").length, "wave")}`;
  const words = title ? `From ${moment(from)} to ${moment(to)}: ${what}` : `From ${clock(from)}: ${what}. The table below says the same.`;
  const picture = svg("svg.timeline", { width, height: head + total, viewBox: `0 0 ${width} ${head + total}`, role: "img", "aria-label": title ? `${title}. ${words}` : words });
  if (title) {
    picture.append(svg("title", null, title), svg("desc", null, words),
      svg("text.title", { x: 2, y: 22 }, cut(title, Math.floor(width / 10))), svg("text.quiet", { x: 2, y: 42 }, words));
  }
  const lower = svg("g", { transform: head > 0 ? `translate(0 ${head})` : null });
  drawGrid(lower, { from, to, x, total, inner });
  lines.forEach((line, index) => drawLine(lower, line, { y: TOP + index * height, height, isNarrow, margin, x, to }));
  picture.append(lower);
  return { picture, left };
}

function drawGrid(picture, { from, to, x, total, inner }) {
  const step = STEPS.find((one) => ((to - from) / 1000 / one) * 100 <= inner) ?? STEPS.at(-1);
  for (let at = 0; at <= (to - from) / 1000; at += step) {
    const place = x(from + at * 1000);
    // At the end there is room on the other side alone.
    const isLast = place + AXIS > x(to) + 12;
    picture.append(svg("line.grid", { x1: place, x2: place, y1: TOP - 6, y2: total }),
      svg("text.axis", { x: isLast ? place - 3 : place + 2, y: 14, "text-anchor": isLast ? "end" : null }, at === 0 ? clock(from) : `+${long(at * 1000)}`));
  }
}

function drawLine(picture, line, { y, height, isNarrow, margin, x, to }) {
  const indent = INDENT[line.level];
  const group = svg(`g.${line.level === "object" ? "object" : "head"}`);
  const room = isNarrow ? x(to) - indent : margin - indent - 8;
  const name = cut(line.label, Math.floor(room / 7));
  group.append(svg("text", { x: 2 + indent, y: y + 16 }, name, svg("title", null, line.label)));
  const top = isNarrow ? y + 22 : y + 5;
  const thick = line.level === "object" ? LINE - 12 : LINE - 9;
  for (const span of line.spans) {
    const [begin, end] = [x(span.from), x(span.to ?? to)];
    const attempt = span.attempt > 1 ? ` (attempt ${span.attempt})` : "";
    const took = long((span.to ?? to) - span.from);
    const shape = svg(`rect.${span.tone}`, { x: begin, y: top, width: Math.max(2, end - begin), height: thick, rx: 2 },
      svg("title", null, `${line.label}: ${span.state}${attempt}, ${took}${span.why ? `: ${span.why}` : ""}`));
    group.append(shape);
    // Waits have a line through them, so that they are known without colours.
    if (span.tone === "wait" && end - begin > 6) {
      group.append(svg("line.through", { x1: begin + 2, x2: end - 2, y1: top + thick / 2, y2: top + thick / 2 }));
    }
  }
  for (const mark of line.marks) {
    const place = x(mark.at);
    group.append(svg(`path.mark.${mark.tone}`, { d: `M${place - 4} ${top - 3}h8l-4 6z` }, svg("title", null, `${clock(mark.at)}: ${mark.text}`)));
  }
  picture.append(group);
}

// Each wait with its length and its reason, and what else had one: the newest last.
function reasonsOf(line, now) {
  const took = (span) => (span.to ?? now) - span.from;
  const told = line.spans.filter((span) => span.why || (span.tone === "wait" && (span.to === null || took(span) >= SHORT)));
  const more = told.length - SPANS_MAX;
  return [
    more > 0 ? h("div", null, `${count(more, "earlier one")} left out`) : null,
    told.slice(-SPANS_MAX).map((span) => {
      const length = long(took(span));
      const what = span.tone !== "wait" ? `${span.state} for ${length}` : `${span.to === null ? "waits" : "waited"} ${length} (${span.state})`;
      return h("div", null, `${clock(span.from)}: ${what}${span.attempt > 1 ? `, attempt ${span.attempt}` : ""}`, span.why ? [": ", folded(span.why)] : null);
    }),
  ];
}

// The same as a table. Its roles are said, as on a telephone its rows stand below each other.
export function timelineTable(story, now) {
  const heads = ["What", "Began", "Took", "Waited", "Attempts", "State", "Waits and reasons", "Moments"];
  const [lines] = chosen(story, now);
  const rows = lines.filter((line) => line.level !== "phase" && (line.spans.length > 0 || line.marks.length > 0 || line.level === "wave")).map((line) => {
    const attempts = new Set(line.spans.map((span) => span.attempt));
    const [hasSpans, waited] = [line.spans.length > 0, line.took(now, true)];
    const cells = [
      hasSpans ? clock(line.from) : "–", hasSpans ? long(line.took(now)) : "–", waited > 0 ? long(waited) : "–",
      attempts.size > 0 ? [...attempts].join(", ") : "–", line.state, reasonsOf(line, now),
      line.marks.map((mark) => h("div", null, `${clock(mark.at)}: `, folded(mark.text))),
    ];
    return h("tr", { role: "row" }, h(`th.of-${line.level}`, { scope: "row", role: "rowheader" }, line.label),
      cells.map((cell, index) => h(index >= 5 ? "td.words" : "td", { role: "cell", "data-of": heads[index + 1] }, cell)));
  });
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Timeline as a table" }, h("table.stacked", { role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((one) => h("th", { scope: "col", role: "columnheader" }, one)))),
    h("tbody", { role: "rowgroup" }, rows)));
}

// What the colours mean.
export function legend() {
  const all = [["busy", "at work"], ["wait", "waits, with its reason: for health, the end of a hook, a gate, a person, the next attempt"], ["good", "well"], ["bad", "failed"], ["warn", "missing"], ["dull", "not known"]];
  return h("ul.legend", { "aria-label": "What the colours mean" }, all.map(([tone, word]) => h("li", null, h(`span.swatch.${tone}`, { "aria-hidden": "true" }), word)));
}

// Draws again whenever the room for it changes; returns what ends that.
export function keepDrawn(place, draw) {
  let width = 0;
  const watch = new ResizeObserver(([entry]) => {
    const found = Math.floor(entry.contentRect.width);
    if (found === width || found === 0) return;
    width = found;
    fill(place, draw(width));
  });
  watch.observe(place);
  return () => watch.disconnect();
}
