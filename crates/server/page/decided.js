// What people have decided about a rollout or a deletion, with who and why.

import { at, look } from "./ask.js";
import { h, refill } from "./draw.js";
import { time } from "./words.js";

// A section about what an ApplicationSet does now. It is asked for anew by `load`, with the id of that.
export function decidedOf(signal) {
  const element = h("section");
  let shown = null;

  async function load(id) {
    // What was decided about another one is none of this.
    if (id !== shown) refill(element);
    shown = id;
    if (!id) return;
    try {
      const run = await look(at.run(id), signal);
      if (id === shown) refill(element, decisionsOf(run));
    } catch (problem) {
      if (problem.name !== "AbortError" && id === shown) refill(element, h("p.problem", null, problem.words ?? String(problem)));
    }
  }
  return { element, load };
}

export function tableOf(id, title, heads, rows) {
  return [h("h2", { id }, title), h("div.scroll", { tabindex: "0", role: "region", "aria-label": `${title}, as a table` }, h("table", null,
    h("thead", null, h("tr", null, heads.map((one) => h("th", { scope: "col" }, one)))), h("tbody", null, rows)))];
}

export function decisionsOf(run) {
  if (run.decisions.length === 0) return null;
  return tableOf("decisions", "What was decided", ["Time", "Who", "What", "Why"], run.decisions.map((fact) => h("tr", { "data-key": fact.sequence },
    h("td", null, fact.at ? time(fact.at) : ""), h("td", null, fact.by), h("td.words", null, what(fact)), h("td.words", null, fact.reason ?? "–"))));
}

// What was decided, without who and why.
function what({ text, by, reason }) {
  const own = text.startsWith(`${by} `) ? text.slice(by.length + 1) : text;
  return reason && own.endsWith(`: ${reason}`) ? own.slice(0, -reason.length - 2) : own;
}
