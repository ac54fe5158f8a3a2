// Line-by-line comparison of two texts, with a few lines of context.

import { h } from "./dom.js";
import { formatCount } from "./format.js";

// Lines of context around a change, and maximum number of displayed lines.
const CONTEXT_LINES = 3;
const LINES_MAX = 500;
// Maximum number of pairs of lines that are compared. Larger texts are shown as completely replaced, because the comparison is
// quadratic.
const PAIRS_MAX = 4_000_000;

// Compares two texts and returns their lines in order: [" ", line] if unchanged, ["-", line] if removed, ["+", line] if added.
export function compareLines(before, after) {
  const [old, fresh] = [before.split("\n"), after.split("\n")];
  let [prefix, suffix] = [0, 0];
  while (prefix < old.length && prefix < fresh.length && old[prefix] === fresh[prefix]) prefix += 1;
  while (suffix < old.length - prefix && suffix < fresh.length - prefix && old.at(-1 - suffix) === fresh.at(-1 - suffix)) suffix += 1;
  const unchanged = (line) => [" ", line];
  const middle = compareMiddle(old.slice(prefix, old.length - suffix), fresh.slice(prefix, fresh.length - suffix));
  return [...old.slice(0, prefix).map(unchanged), ...middle, ...old.slice(old.length - suffix).map(unchanged)];
}

// Compares the lines between the common prefix and suffix, using their longest common subsequence.
function compareMiddle(old, fresh) {
  if (old.length * fresh.length > PAIRS_MAX) return [...old.map((line) => ["-", line]), ...fresh.map((line) => ["+", line])];
  const width = fresh.length + 1;
  const longest = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = old[i] === fresh[j] ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      lines.push([" ", old[i]]);
      i += 1;
      j += 1;
    } else if (j >= fresh.length || (i < old.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      lines.push(["-", old[i]]);
      i += 1;
    } else {
      lines.push(["+", fresh[j]]);
      j += 1;
    }
  }
  return lines;
}

const STYLES = { " ": ["same", ""], "-": ["before", "current: "], "+": ["after", "new: "] };

// Renders the comparison of two texts. Shows the number of omitted lines.
export function renderLineDiff(before, after) {
  const lines = compareLines(before, after);
  const isNear = (index) => lines.slice(Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1).some(([sign]) => sign !== " ");
  const rows = [];
  let omitted = 0;
  const flushOmitted = () => {
    if (omitted > 0) rows.push(h("div.left", null, `… ${formatCount(omitted, "unchanged line")}`));
    omitted = 0;
  };
  let lineNumber = 0;
  for (const [index, [sign, line]] of lines.entries()) {
    if (sign !== "-") lineNumber += 1;
    if (!isNear(index)) {
      omitted += 1;
      continue;
    }
    flushOmitted();
    const [className, spokenPrefix] = STYLES[sign];
    rows.push(h(`div.${className}`, { title: sign === "-" ? null : `line ${lineNumber}` }, spokenPrefix ? h("span.unseen", null, spokenPrefix) : null,
      h("span.sign", { "aria-hidden": "true" }, { "-": "−", "+": "+" }[sign] ?? " "), line));
  }
  flushOmitted();
  const visible = rows.slice(0, LINES_MAX);
  if (rows.length > LINES_MAX) visible.push(h("div.left", null, `… and ${formatCount(rows.length - LINES_MAX, "more line")}, not shown`));
  return h("pre.lines", { tabindex: "0" }, visible);
}
