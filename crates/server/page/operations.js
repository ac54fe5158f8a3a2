// View of all operations, newest first.

import { controlNamespace, get, query } from "./api.js";
import { fill, h, link, paths, refill, announce, debounce } from "./dom.js";
import { OPERATION, readFilters, createFilterBar } from "./filters.js";
import { subscribe } from "./events.js";
import { renderRequester, renderBadge, formatElapsed, formatCount, renderCollapsible, localizeRetryTime, shortenRevision, renderTime } from "./format.js";

const PAGE_SIZE = 50;
// Maximum page size of the API.
const LIMIT_MAX = 500;

// Renders operations as a table.
export function renderOperationsTable(items, withApplication = true) {
  const head = ["Started", withApplication ? "Application" : null, "Result", "Duration", "Waves", "Revision", "Requested by", "Message"].filter(Boolean);
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Operations as a table" }, h("table", null,
    h("thead", null, h("tr", null, head.map((heading) => h("th", { scope: "col" }, heading)))),
    h("tbody", null, items.map((operation) => h("tr", { "data-key": operation.id },
      h("td", null, link(paths.operation(operation.id), renderTime(operation.startedAt))),
      withApplication ? h("td", null, createApplicationLink(operation.app)) : null,
      h("td", null, renderBadge(operation.outcome, "result"), operation.dryRun ? h("small", null, " dry run") : null, operation.paused ? renderBadge("Paused") : null),
      h("td", null, formatElapsed(operation.startedAt, operation.finishedAt)),
      h("td", null, `${operation.wavesPassed} of ${operation.waves}`),
      h("td", null, operation.revision ? shortenRevision(operation.revision) : "–"),
      h("td", null, renderRequester(operation.initiatedBy, operation.reason)),
      h("td.words", null, renderCollapsible(operation.damage ?? localizeRetryTime(operation.message) ?? "")))))));
}

// Creates a link to an operation's Application. The name has the form NAMESPACE/NAME, or NAME in the control
// plane's namespace.
export function createApplicationLink(name) {
  if (!name) return "–";
  const [namespace, plainName] = name.includes("/") ? name.split("/") : name.includes("_") ? name.split("_") : [controlNamespace(), name];
  return link(paths.application(namespace, plainName), name);
}

export function showOperations(view) {
  const selection = readFilters(["name", "phase", "open", "revision", "by", "since", "until"]);
  const container = h("div");
  const totalLine = h("p.matching");
  const moreButton = h("button", { type: "button", onclick: () => load(true) }, "Show more");
  let items = [];
  let next = null;
  let abort = new AbortController();
  const load = async (isMore) => {
    abort.abort();
    abort = new AbortController();
    const limit = isMore ? PAGE_SIZE : Math.min(LIMIT_MAX, Math.max(PAGE_SIZE, items.length));
    try {
      const response = await get(query("/api/v1/operations", {
        application: selection.name, outcome: selection.phase, open: selection.open, revision: selection.revision, initiatedBy: selection.by,
        since: selection.since, until: selection.until, limit, page: isMore ? next : null,
      }), abort.signal);
      // Keeps the displayed items, even if they exceed the maximum page size.
      const isPartial = !isMore && items.length > LIMIT_MAX;
      const ids = new Set(response.items.map((operation) => operation.id));
      const older = items.filter((operation) => !ids.has(operation.id));
      items = isMore ? items.concat(response.items) : isPartial ? response.items.concat(older) : response.items;
      if (!isPartial) next = response.next;
      moreButton.hidden = !next;
      fill(totalLine, formatCount(response.total, "operation"));
      refill(container, items.length > 0 ? renderOperationsTable(items) : h("p.empty", null, "No matching operations."));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      announce(problem.fullMessage ?? String(problem));
      fill(totalLine, problem.fullMessage ?? String(problem));
    }
  };
  const reload = debounce(500, () => load(false));
  fill(view, h("h1", null, "Operations"), createFilterBar({
    filters: [["phase", "Result", OPERATION], ["open", "State", [["true", "open"], ["false", "finished"]]]],
    fields: [["revision", "Revision", "prefix"], ["by", "Requested by", "full name"]],
    moments: [["since", "Started since"], ["until", "Started before"]], sorts: [], values: selection,
    search: "full name of an Application",
    onChange: () => {
      items = [];
      load(false);
    },
  }), totalLine, container, moreButton);
  moreButton.hidden = true;
  load(false);
  const unsubscribe = subscribe((kind) => {
    if (kind === "operation" || kind === "reset") reload();
  });
  return () => {
    unsubscribe();
    reload.stop();
    abort.abort();
  };
}
