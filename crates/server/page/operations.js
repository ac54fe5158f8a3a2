// All operations, the newest first.

import { look, query } from "./ask.js";
import { fill, h, link, paths, refill, say, soon } from "./draw.js";
import { OPERATION, asked, filterBar } from "./lists.js";
import { follow } from "./news.js";
import { askedBy, badge, between, count, folded, inZone, short, time } from "./words.js";

const PAGE = 50;
// So many can be asked for at once.
const MOST = 500;

// A row for each of these operations.
export function operationsTable(items, withApplication = true) {
  const head = ["Began", withApplication ? "Application" : null, "Result", "Took", "Waves", "Revision", "By", "Message"].filter(Boolean);
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Operations as a table" }, h("table", null,
    h("thead", null, h("tr", null, head.map((one) => h("th", { scope: "col" }, one)))),
    h("tbody", null, items.map((one) => h("tr", { "data-key": one.id },
      h("td", null, link(paths.operation(one.id), time(one.startedAt))),
      withApplication ? h("td", null, applicationLink(one.app)) : null,
      h("td", null, badge(one.phase, "result"), one.dryRun ? h("small", null, " dry run") : null, one.paused ? badge("Held") : null),
      h("td", null, between(one.startedAt, one.finishedAt)),
      h("td", null, `${one.wavesPassed} of ${one.waves}`),
      h("td", null, one.revision ? short(one.revision) : "–"),
      h("td", null, askedBy(one.initiatedBy, one.reason)),
      h("td.words", null, folded(one.damage ?? inZone(one.message) ?? "")))))));
}

// An application as an operation names it: NAMESPACE/NAME, or the name of one of the control plane.
export function applicationLink(name) {
  if (!name) return "–";
  const [namespace, own] = name.includes("/") ? name.split("/") : name.includes("_") ? name.split("_") : ["argocd", name];
  return link(paths.application(namespace, own), name);
}

export function showOperations(view) {
  const wanted = asked(["name", "phase", "open", "revision", "by", "since", "until"]);
  const place = h("div");
  const matching = h("p.matching");
  const more = h("button", { type: "button", onclick: () => load(true) }, "Show more");
  let items = [];
  let next = null;
  let abort = new AbortController();
  const load = async (isMore) => {
    abort.abort();
    abort = new AbortController();
    const limit = isMore ? PAGE : Math.min(MOST, Math.max(PAGE, items.length));
    try {
      const answer = await look(query("/api/v1/operations", {
        application: wanted.name, phase: wanted.phase, open: wanted.open, revision: wanted.revision, by: wanted.by,
        since: wanted.since, until: wanted.until, limit, page: isMore ? next : null,
      }), abort.signal);
      // What was shown stays shown, also if it is more than can be asked for at once.
      const isShort = !isMore && items.length > MOST;
      const own = new Set(answer.items.map((one) => one.id));
      const before = items.filter((one) => !own.has(one.id));
      items = isMore ? items.concat(answer.items) : isShort ? answer.items.concat(before) : answer.items;
      if (!isShort) next = answer.next;
      more.hidden = !next;
      fill(matching, count(answer.matching, "operation"));
      refill(place, items.length > 0 ? operationsTable(items) : h("p.empty", null, "There are no operations like that."));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      say(problem.words ?? String(problem));
      fill(matching, problem.words ?? String(problem));
    }
  };
  const again = soon(500, () => load(false));
  fill(view, h("h1", null, "Operations"), filterBar({
    filters: [["phase", "Result", OPERATION], ["open", "Over", [["true", "not over"], ["false", "over"]]]],
    fields: [["revision", "Revision", "its beginning"], ["by", "Asked for by", "the whole name"]],
    moments: [["since", "Began since"], ["until", "Began before"]], sorts: [], wanted,
    search: "an Application, by its whole name",
    then: () => {
      items = [];
      load(false);
    },
  }), matching, place, more);
  more.hidden = true;
  load(false);
  const end = follow((kind) => {
    if (kind === "operation" || kind === "reset") again();
  });
  return () => {
    end();
    again.stop();
    abort.abort();
  };
}
