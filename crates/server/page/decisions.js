// Users' decisions about a rollout or a deletion, with user name and reason.

import { apiPath, get } from "./api.js";
import { h, refill } from "./dom.js";
import { renderTime } from "./format.js";

// Creates a section with a run's decisions. `load(id)` reads the decisions of the run with this ID again.
export function createDecisionsSection(signal) {
  const element = h("section");
  let shownId = null;

  async function load(id) {
    // Don't show the decisions of the previous run while loading.
    if (id !== shownId) refill(element);
    shownId = id;
    if (!id) return;
    try {
      const run = await get(apiPath.run(id), signal);
      if (id === shownId) refill(element, renderDecisions(run));
    } catch (problem) {
      if (problem.name !== "AbortError" && id === shownId) refill(element, h("p.problem", null, problem.fullMessage ?? String(problem)));
    }
  }
  return { element, load };
}

export function renderTable(id, title, headings, rows) {
  return [h("h2", { id }, title), h("div.scroll", { tabindex: "0", role: "region", "aria-label": `${title} as a table` }, h("table", null,
    h("thead", null, h("tr", null, headings.map((heading) => h("th", { scope: "col" }, heading)))), h("tbody", null, rows)))];
}

export function renderDecisions(run) {
  if (run.decisions.length === 0) return null;
  return renderTable("decisions", "Decisions", ["Time", "By", "Action", "Reason"], run.decisions.map((event) => h("tr", { "data-key": event.sequence },
    h("td", null, event.at ? renderTime(event.at) : ""), h("td", null, event.by), h("td.words", null, describeAction(event)), h("td.words", null, event.reason ?? "–"))));
}

// Describes a decision's action. Omits the user name and the reason, which have their own columns.
function describeAction({ text, by, reason }) {
  const action = text.startsWith(`${by} `) ? text.slice(by.length + 1) : text;
  return reason && action.endsWith(`: ${reason}`) ? action.slice(0, -reason.length - 2) : action;
}
