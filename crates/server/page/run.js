// View of one rollout or deletion, which may be running or finished.

import { apiPath, get, query } from "./api.js";
import { renderDecisions, renderTable } from "./decisions.js";
import { fill, h, link, paths, refill, announce, debounce, keepLoaded } from "./dom.js";
import { subscribe } from "./events.js";
import { renderSteps } from "./appset.js";
import { KINDS, formatSkipped } from "./run-list.js";
import { renderBadge, formatElapsed, formatClock, formatCount, renderCollapsible, formatTime, describeOrder, shortenRevision, renderTerms, renderTime } from "./format.js";

// Number of events that are displayed initially.
const EVENTS_MAX = 200;

export function showRun(view, namespace, name, id) {
  const path = apiPath.run(id);
  const abort = new AbortController();
  const events = [];
  let [run, eventsShown] = [null, EVENTS_MAX];
  const head = h("div");
  const steps = h("section", { "aria-labelledby": "steps" });
  const decisions = h("section");
  const log = h("section", { "aria-labelledby": "facts" });
  fill(view, head, steps, decisions, log);

  function showAll() {
    const previousState = head.querySelector(".badge")?.textContent;
    refill(head, renderHeader(run, namespace, name));
    const hasDetails = run.rollout || run.deletion;
    refill(steps, hasDetails ? renderSteps({ rollout: run.rollout, deletion: run.deletion }, namespace, null) : renderCompacted(run));
    refill(decisions, renderDecisions(run), renderWaits(run));
    refill(log, hasDetails ? renderLog(events, eventsShown, run.compactedEvents, () => {
      eventsShown += 2000;
      showAll();
    }) : null);
    const currentState = head.querySelector(".badge")?.textContent;
    if (previousState && previousState !== currentState) announce(`${KINDS[run.kind]} of ${name}: ${currentState}`);
  }

  async function load() {
    try {
      const response = await get(path, abort.signal);
      if (response.applicationSet && response.applicationSet !== `${namespace}/${name}`) return showNotFound();
      run = response;
      let next = events.at(-1)?.sequence ?? 0;
      while (next !== null && (run.rollout || run.deletion)) {
        const page = await get(query(`${path}/log`, { after: next, limit: 500 }), abort.signal);
        events.push(...page.items.filter((event) => event.sequence > (events.at(-1)?.sequence ?? 0)));
        next = page.next;
      }
      showAll();
    } catch (problem) {
      if (problem.name === "AbortError") return undefined;
      if (problem.status === 404) return showNotFound();
      if (run) return announce(problem.fullMessage ?? String(problem));
      fill(view, h("h1", null, name), h("p.problem", { role: "alert" }, problem.fullMessage ?? String(problem)));
    }
    return undefined;
  }

  function showNotFound() {
    fill(view, h("h1", null, name), h("p.problem", { role: "alert" }, `No rollout or deletion ${id} of ${namespace}/${name}: it does not exist or is no longer stored. `,
      "Set the number of stored records with ", h("code", null, "--summaries"), ". ", link(paths.set(namespace, name), `${namespace}/${name}`)));
  }

  const reload = debounce(250, load);
  const isOpen = () => run && !run.finishedAt;
  const unsubscribe = subscribe((kind, data) => {
    const isThisSet = data?.namespace === namespace && data?.name === name && (kind === "applicationSet" || kind === "applicationSetRemoved");
    if ((isThisSet || kind === "reset") && (isOpen() || !run)) reload();
  });
  // Reload regularly, because events of single Applications don't trigger an ApplicationSet event.
  return keepLoaded({ reload, unsubscribe, abort, isChanging: isOpen });
}

function renderHeader(run, namespace, name) {
  const isRollout = run.kind === "rollout";
  const passed = run.steps === null ? null : `${run.stepsPassed} of ${run.steps} passed`;
  return [
    h("div.title", null, h("h1", null, `${KINDS[run.kind]} of `, link(paths.set(namespace, name), name)), renderBadge(run.outcome ?? "Running", "result"), run.paused ? renderBadge("Paused") : null),
    h("div.lead", null, renderCollapsible(run.finishedAt ? run.message : describeStatus(run))),
    run.damage ? h("p.problem", null, run.damage) : null,
    h("p.quiet", null, "Download the full record: ", createExportLink(run.id, ".html", "HTML"), ", ", createExportLink(run.id, "", "JSON")),
    renderTerms([
      ["Started", renderTime(run.startedAt)], ["Finished", run.finishedAt ? renderTime(run.finishedAt) : null], ["Duration", formatElapsed(run.startedAt, run.finishedAt)],
      ["Requested by", run.initiatedBy], ["Reason", renderCollapsible(run.reason)], ["Order", describeOrder(run.deletion ?? {})], ["Revisions", run.revisions.map(shortenRevision).join(", ")], ["Steps", passed],
      ["Applications", `${run.done} of ${run.applications} ${isRollout ? "Healthy" : run.deletion?.order === "Orphan" ? "released" : "deleted"}${formatSkipped(run)}`], ["ID", h("code", null, run.id)],
    ]),
  ];
}

// Describes a running rollout or deletion: the progress, and the reason why the run is blocked.
function describeStatus(run) {
  const { explanation } = run;
  if (!explanation) return run.message;
  const firstAwaited = explanation.awaited[0];
  return [explanation.position, explanation.progress, firstAwaited ? `waiting for ${firstAwaited.subject}: ${firstAwaited.reason}` : null, explanation.pausedBy].filter(Boolean).join("; ");
}

// Creates a link for downloading the record as a self-contained file.
function createExportLink(id, extension, label) {
  return h("a", { href: `${apiPath.run(id)}/export${extension}`, download: "" }, label);
}

function renderCompacted(run) {
  if (run.damage) return null;
  return h("p", { id: "steps", role: "status" }, "The details were compacted: steps, Applications and event log are no longer stored. The newest rollouts and deletions of each ApplicationSet keep their details; set the number with ",
    h("code", null, "--history"), " (default: 10).");
}

function renderWaits(run) {
  if (run.waits.length === 0) return null;
  return renderTable("waits", "Waits", ["From", "Until", "Duration", "Waiting for", "Reason"], run.waits.map((wait) => h("tr", null,
    h("td", null, renderTime(wait.since)), h("td", null, wait.until ? renderTime(wait.until) : "ongoing"), h("td", null, formatElapsed(wait.since, wait.until)),
    h("td", null, wait.subject), h("td.words", null, wait.reason))));
}

// Renders the recorded events, newest first.
function renderLog(events, limit, compactedCount, onMore) {
  const visible = events.slice(-limit).reverse();
  return [
    h("h2", { id: "facts" }, "Event log"),
    compactedCount > 0 ? h("p.quiet", null, `${formatCount(compactedCount, "older event")} no longer stored.`) : null,
    h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Event log as a table" }, h("table.facts", null,
      h("thead", null, h("tr", null, ["Number", "Time", "Event"].map((heading) => h("th", { scope: "col" }, heading)))),
      h("tbody", null, visible.map((event) => h("tr", { "data-key": event.sequence }, h("td", null, String(event.sequence)),
        h("td", null, event.at ? h("time", { datetime: event.at, title: formatTime(event.at) }, formatClock(event.at)) : ""), h("td.words", null, event.text)))))),
    events.length > visible.length ? h("button", { type: "button", onclick: onMore, "data-do": "facts" }, `Show more of ${formatCount(events.length, "event")}`) : null,
  ];
}
