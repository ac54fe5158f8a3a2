// Two texts of several lines, compared line by line: what has changed, with a few lines around it.

import { h } from "./draw.js";
import { count } from "./words.js";

// So many lines around a change are shown, and so many lines in all.
const CONTEXT = 3;
const SHOWN = 500;
// Of so many pairs of lines it is found out which belong together; of more, all old ones are taken away and all new ones added.
const PAIRS = 4_000_000;

// The lines of both, in order: [" ", line] for those of both, ["-", line] and ["+", line] for those of one.
export function compared(before, after) {
  const [old, fresh] = [before.split("\n"), after.split("\n")];
  let [from, end] = [0, 0];
  while (from < old.length && from < fresh.length && old[from] === fresh[from]) from += 1;
  while (end < old.length - from && end < fresh.length - from && old.at(-1 - end) === fresh.at(-1 - end)) end += 1;
  const same = (line) => [" ", line];
  const middle = between(old.slice(from, old.length - end), fresh.slice(from, fresh.length - end));
  return [...old.slice(0, from).map(same), ...middle, ...old.slice(old.length - end).map(same)];
}

// The longest common part stays; the rest goes or comes.
function between(old, fresh) {
  if (old.length * fresh.length > PAIRS) return [...old.map((line) => ["-", line]), ...fresh.map((line) => ["+", line])];
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

const LOOK = { " ": ["same", ""], "-": ["before", "now: "], "+": ["after", "then: "] };

// Both texts as one list of lines. What is left out is said, where it is.
export function linesOf(before, after) {
  const lines = compared(before, after);
  const isNear = (at) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(([sign]) => sign !== " ");
  const shown = [];
  let left = 0;
  const skip = () => {
    if (left > 0) shown.push(h("div.left", null, `… ${count(left, "line")} that ${left === 1 ? "is" : "are"} the same`));
    left = 0;
  };
  let number = 0;
  for (const [at, [sign, line]] of lines.entries()) {
    if (sign !== "-") number += 1;
    if (!isNear(at)) {
      left += 1;
      continue;
    }
    skip();
    const [look, heard] = LOOK[sign];
    shown.push(h(`div.${look}`, { title: sign === "-" ? null : `line ${number}` }, heard ? h("span.unseen", null, heard) : null,
      h("span.sign", { "aria-hidden": "true" }, { "-": "−", "+": "+" }[sign] ?? " "), line));
  }
  skip();
  const most = shown.slice(0, SHOWN);
  if (shown.length > SHOWN) most.push(h("div.left", null, `… and ${count(shown.length - SHOWN, "more line")}, which ${shown.length - SHOWN === 1 ? "is" : "are"} not shown`));
  return h("pre.lines", { tabindex: "0" }, most);
}
