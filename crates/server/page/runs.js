// The rollouts and deletions of an ApplicationSet, the newest first: those of now and those before.

import { look, query } from "./ask.js";
import { h, link, paths, refill } from "./draw.js";
import { askedBy, badge, between, count, folded, short, time } from "./words.js";

const PAGE = 10;
// So many can be asked for at once.
const MOST = 500;

export const KINDS = { rollout: "Rollout", deletion: "Deletion" };

// Those that a rollout went on without are none of those that are done.
export function skippedOf({ skipped }) {
  return skipped ? `, ${skipped} skipped` : "";
}

// A list that is asked for anew by `load`. `isEmpty` says afterwards whether there was ever one.
export function runsOf(namespace, name, signal) {
  const list = h("div");
  const element = h("section", { "aria-labelledby": "runs", hidden: true }, h("h2", { id: "runs" }, "Rollouts and deletions"), list);
  let wanted = PAGE;
  const runs = { element, isEmpty: true, load };

  async function load() {
    try {
      const answer = await look(query("/api/v1/runs", { applicationSet: `${namespace}/${name}`, limit: Math.min(wanted, MOST) }), signal);
      runs.isEmpty = answer.items.length === 0;
      element.hidden = runs.isEmpty;
      refill(list, table(answer.items, namespace, name), answer.next && wanted < MOST ? h("button", {
        type: "button", "data-do": "more-runs",
        onclick: () => {
          wanted *= 5;
          load();
        },
      }, `Show more of ${count(answer.matching, "rollout and deletion", "rollouts and deletions")}`) : null);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      element.hidden = false;
      refill(list, h("p.problem", null, problem.words ?? String(problem)));
    }
  }
  return runs;
}

function table(items, namespace, name) {
  const head = ["Began", "What", "Result", "Took", "Done", "Revision", "By", "Message"];
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Rollouts and deletions as a table" }, h("table", null,
    h("thead", null, h("tr", null, head.map((one) => h("th", { scope: "col" }, one)))),
    h("tbody", null, items.map((one) => h("tr", { "data-key": one.id },
      h("td", null, link(paths.run(namespace, name, one.id), time(one.startedAt))),
      h("td", null, KINDS[one.kind] ?? one.kind),
      h("td", null, badge(one.end ?? "Running", "result"), one.paused ? badge("Held") : null),
      h("td", null, between(one.startedAt, one.finishedAt)),
      h("td", null, `${one.done} of ${one.applications}${skippedOf(one)}`),
      h("td", null, one.revisions.length > 0 ? one.revisions.map(short).join(", ") : "–"),
      h("td", null, askedBy(one.by, one.reason)),
      h("td.words", null, folded(one.damage ?? one.message)))))));
}
