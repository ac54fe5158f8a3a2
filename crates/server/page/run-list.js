// List of the rollouts and deletions of an ApplicationSet, newest first.

import { get, query } from "./api.js";
import { h, link, paths, refill } from "./dom.js";
import { renderRequester, renderBadge, formatElapsed, formatCount, renderCollapsible, shortenRevision, renderTime } from "./format.js";

const PAGE_SIZE = 10;
// Maximum page size of the API.
const LIMIT_MAX = 500;

export const KINDS = { rollout: "Rollout", deletion: "Deletion" };

// Formats the number of skipped Applications, which do not count as done.
export function formatSkipped({ skipped }) {
  return skipped ? `, ${skipped} skipped` : "";
}

// Creates the list. `load` reads the list again, and sets `isEmpty` to true if there are no runs.
export function createRunList(namespace, name, signal) {
  const list = h("div");
  const element = h("section", { "aria-labelledby": "runs", hidden: true }, h("h2", { id: "runs" }, "Rollouts and deletions"), list);
  let limit = PAGE_SIZE;
  const runs = { element, isEmpty: true, load };

  async function load() {
    try {
      const response = await get(query("/api/v1/runs", { applicationSet: `${namespace}/${name}`, limit: Math.min(limit, LIMIT_MAX) }), signal);
      runs.isEmpty = response.items.length === 0;
      element.hidden = runs.isEmpty;
      refill(list, renderTable(response.items, namespace, name), response.next && limit < LIMIT_MAX ? h("button", {
        type: "button", "data-do": "more-runs",
        onclick: () => {
          limit *= 5;
          load();
        },
      }, `Show more of ${formatCount(response.total, "rollout and deletion", "rollouts and deletions")}`) : null);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      element.hidden = false;
      refill(list, h("p.problem", null, problem.fullMessage ?? String(problem)));
    }
  }
  return runs;
}

function renderTable(items, namespace, name) {
  const head = ["Started", "Kind", "Result", "Duration", "Done", "Revision", "Requested by", "Message"];
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Rollouts and deletions as a table" }, h("table", null,
    h("thead", null, h("tr", null, head.map((heading) => h("th", { scope: "col" }, heading)))),
    h("tbody", null, items.map((run) => h("tr", { "data-key": run.id },
      h("td", null, link(paths.run(namespace, name, run.id), renderTime(run.startedAt))),
      h("td", null, KINDS[run.kind] ?? run.kind),
      h("td", null, renderBadge(run.outcome ?? "Running", "result"), run.paused ? renderBadge("Paused") : null),
      h("td", null, formatElapsed(run.startedAt, run.finishedAt)),
      h("td", null, `${run.done} of ${run.applications}${formatSkipped(run)}`),
      h("td", null, run.revisions.length > 0 ? run.revisions.map(shortenRevision).join(", ") : "–"),
      h("td", null, renderRequester(run.initiatedBy, run.reason)),
      h("td.words", null, renderCollapsible(run.damage ?? run.message)))))));
}
