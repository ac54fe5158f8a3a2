// View of one Application: status, differences, and the order of the next sync.

import { getAll, apiPath, get, formatApplicationName, query } from "./api.js";
import { renderDiff } from "./diff.js";
import { fill, h, link, externalLink, paths, refill, announce, debounce } from "./dom.js";
import { createApproveButton, createStoredPlans } from "./stored-plans.js";
import { subscribe } from "./events.js";
import { renderOperationsTable } from "./operations.js";
import { createSaveButton } from "./svg-export.js";
import { renderApplicationActions, createRollbackButton } from "./actions.js";
import { describeObjects, drawWavesPicture } from "./waves.js";
import { renderApproval, renderBadge, formatCount, renderCollapsible, localizeRetryTime, formatTime, getObjectKey, formatObjectName, shortenRevision, shortenHash, renderTerms, renderTime } from "./format.js";

const RESOURCES_MAX = 10_000;
const OPERATIONS_MAX = 20;
// Maximum number of displayed objects per wave.
const OBJECTS_PER_WAVE_MAX = 200;

export function showApplication(view, namespace, name) {
  const path = apiPath.application(namespace, name);
  const abort = new AbortController();
  const head = h("div");
  const order = h("section", { "aria-labelledby": "order" }, h("div.title", null, h("h2", { id: "order" }, "Order of the next sync")), h("div", null, "…"));
  const waiting = h("section", { "aria-label": "Plan waiting for approval" });
  waiting.hidden = true;
  const diff = h("section", { "aria-labelledby": "differs" }, h("h2", { id: "differs" }, "Differences"), h("div", null, "…"));
  const history = h("section", { "aria-labelledby": "history" });
  const operations = h("section", { "aria-labelledby": "operations" }, h("h2", { id: "operations" }, "Operations"), h("div", null, "…"));
  const plans = createStoredPlans(namespace, name, abort.signal);
  const state = { resource: null, summary: null, window: null, resources: [], plan: null, lastComparison: null, havePlansChanged: false, waitingPlan: null, waitingPlanError: null, changes: null };
  // Problems of failed requests, by part of the view.
  const problems = { summary: null, window: null, resources: null, plan: null };
  const showAll = () => fill(view, head, waiting, diff, order, plans.element, operations, history);
  showAll();

  function showHead() {
    const previousStates = head.querySelector(".states")?.textContent;
    refill(head, renderHeader(state, path, problems));
    const currentStates = head.querySelector(".states")?.textContent;
    if (previousStates && previousStates !== currentStates) announce(`${name}: ${currentStates}`);
  }

  function showOrder() {
    if (state.summary?.deleting) {
      showDeletionInProgress(order);
      return;
    }
    refill(order.firstElementChild, h("h2", { id: "order" }, "Order of the next sync"),
      state.plan?.waves.length > 0 ? createSaveButton("the next sync", `${name}-next-sync`, () => createPicture(state)) : null);
    refill(order.lastElementChild, renderOrder(state), [problems.plan, problems.resources].filter(Boolean).map((text) => h("p.problem", null, text)));
  }

  // Loads the status. Details that require the repository or the cluster are loaded only after a relevant
  // change. A failed request affects only one part of the view. The Application no longer exists only if its
  // own request returns 404.
  const listPath = query("/api/v1/applications", { name: `${namespace}/${name}`, limit: 500 });
  const isThisApplication = (app) => app.namespace === namespace && app.name === name;
  async function load() {
    const settle = (request) => request.then((response) => ({ response }), (problem) => ({ problem }));
    // A deleted Application is not an error, so check the list first.
    if (state.summary?.deleting) {
      const list = await settle(get(listPath, abort.signal));
      if (list.response && !list.response.items.some(isThisApplication)) return showDeleted();
    }
    const [resource, lines, window, resources] = await Promise.all([
      get(path, abort.signal), get(listPath, abort.signal), get(`${path}/window`, abort.signal), getAll(`${path}/resources`, RESOURCES_MAX, abort.signal),
    ].map(settle));
    if (abort.signal.aborted || state.isDeleted) return undefined;
    if (resource.problem) return showLoadError(resource.problem);
    if (!head.isConnected) showAll();
    state.resource = resource.response;
    Object.assign(problems, { summary: describeProblem(lines.problem), window: describeProblem(window.problem), resources: describeProblem(resources.problem) });
    if (lines.response) state.summary = lines.response.items.find(isThisApplication);
    if (window.response) state.window = window.response;
    if (resources.response) state.resources = resources.response;
    showHead();
    showOrder();
    refill(history, renderHistory(state, path));
    plans.update(state.summary, state.resources);
    showWaiting();
    const { summary } = state;
    const operation = summary?.operation;
    const comparison = JSON.stringify([summary?.sync, summary?.revision, summary?.plan, operation?.id, operation?.finishedAt]);
    const hasChanged = comparison !== state.lastComparison;
    if (hasChanged) {
      state.lastComparison = comparison;
      loadDetails();
    }
    if (hasChanged || state.havePlansChanged) {
      state.havePlansChanged = false;
      plans.load();
    }
    return undefined;
  }

  // Shows the error for an Application that cannot be loaded.
  function showLoadError(problem) {
    if (problem.status === 404 && state.resource) return showDeleted();
    if (state.resource) return announce(describeProblem(problem));
    return fill(view, h("h1", null, name), h("p.problem", { role: "alert" }, describeProblem(problem)));
  }

  function showDeleted() {
    state.isDeleted = true;
    fill(view, h("h1", null, name), h("p", { role: "status" }, `${namespace}/${name} has been deleted.`));
  }

  // Shows the plan that is waiting for approval. Loads the plan again even if its hash is unchanged, because approvals may have
  // been added.
  let newestRequest = 0;
  async function showWaiting() {
    newestRequest += 1;
    const [thisRequest, hash] = [newestRequest, state.summary?.plan];
    if (!hash) {
      Object.assign(state, { waitingPlan: null, waitingPlanError: null });
      waiting.hidden = true;
      drawDiffHeading();
      return fill(waiting);
    }
    const [waitingPlan, problem] = await get(apiPath.plan(hash), abort.signal).then((response) => [response, null], (error) => [null, error]);
    // Responses may arrive out of order.
    if (thisRequest !== newestRequest || abort.signal.aborted || state.isDeleted) return undefined;
    Object.assign(state, { waitingPlan, waitingPlanError: describeProblem(problem) });
    drawWaiting();
    if (waitingPlan && (state.changes?.hash !== hash || state.changes.problem)) loadChanges(hash);
    return undefined;
  }

  function drawWaiting() {
    const { summary, waitingPlan, waitingPlanError, changes } = state;
    const { response, problem } = waitingPlan && changes?.hash === waitingPlan.hash ? changes : {};
    if (waitingPlan) {
      refill(waiting, renderWaitingPlan(summary, waitingPlan), h("h3", null, "Changes"),
        h("div", null, response ? renderDiff(response) : problem ? h("p.problem", null, problem) : "…"));
    } else refill(waiting, renderUnreadablePlan(summary, waitingPlanError, showWaiting));
    waiting.hidden = false;
    drawDiffHeading();
  }

  // If the waiting plan is for another revision, the displayed differences are not the plan's changes.
  function drawDiffHeading() {
    const isOtherRevision = state.summary?.plan && state.waitingPlan && state.waitingPlan.revision !== state.summary.revision;
    fill(diff.firstElementChild, isOtherRevision ? `Differences from revision ${shortenRevision(state.summary.revision)}` : "Differences");
  }

  async function loadChanges(hash) {
    const entry = { hash };
    state.changes = entry;
    try {
      entry.response = await get(`${apiPath.plan(hash)}/diff`, abort.signal);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      entry.problem = describeProblem(problem);
    }
    if (state.changes === entry && state.waitingPlan?.hash === hash && !state.isDeleted) drawWaiting();
  }

  let newestLoad = 0;
  function loadDetails() {
    newestLoad += 1;
    const thisLoad = newestLoad;
    // Responses may arrive out of order.
    const isStale = () => thisLoad !== newestLoad;
    const showFailure = (element, ...heading) => (problem) => {
      if (problem.name !== "AbortError" && !isStale()) refill(element, heading, h("p.problem", null, describeProblem(problem)));
    };
    const heading = () => h("h2", { id: "operations" }, "Operations");
    get(`${path}/plan`, abort.signal).then((plan) => {
      if (isStale()) return;
      [state.plan, problems.plan] = [plan, null];
      showOrder();
    }, (problem) => {
      if (isStale() || problem.name === "AbortError") return;
      [state.plan, problems.plan] = [null, describeProblem(problem)];
      showOrder();
    });
    get(`${path}/diff`, abort.signal).then((response) => isStale() || refill(diff.lastElementChild, renderDiff(response)), showFailure(diff.lastElementChild));
    const displayName = formatApplicationName(namespace, name);
    get(query("/api/v1/operations", { application: displayName, limit: OPERATIONS_MAX }), abort.signal).then(
      (list) => isStale() || refill(operations, heading(),
        list.items.length > 0 ? renderOperationsTable(list.items, false) : h("p.empty", null, "No operations yet."),
        list.next ? link(query("/operations", { name: displayName }), `All ${list.total} operations`) : null), showFailure(operations, heading()));
  }

  const reload = debounce(300, load);
  const unsubscribe = subscribe((kind, data) => {
    const isThisOne = (data?.namespace === namespace && data?.name === name) || kind === "reset";
    const isOwningSet = kind === "applicationSet" && data.namespace === namespace && data.name === state.summary?.applicationSet;
    if (kind === "applicationRemoved" && isThisOne && state.resource) return showDeleted();
    // An Application event often follows, so load the plans together with the Application.
    if (kind === "plan" && isThisOne) state.havePlansChanged = true;
    if (kind === "application" && isThisOne && state.isDeleted) {
      // An Application with the same name was created.
      state.isDeleted = false;
      showAll();
    }
    if (((isThisOne && kind !== "operation") || isOwningSet) && !state.isDeleted) reload();
    return undefined;
  });
  reload.now();
  return () => {
    unsubscribe();
    reload.stop();
    abort.abort();
  };
}

// An Application that is being deleted has no next sync. Its operation shows the deletion order instead.
function showDeletionInProgress(order) {
  refill(order.firstElementChild, h("h2", { id: "order" }, "Deletion in progress"));
  refill(order.lastElementChild, h("p", null, "This Application is no longer synced. Its operation shows the order in which the objects are deleted."));
}

// Returns the message of a problem, or null if there is no problem.
const describeProblem = (problem) => (problem ? problem.fullMessage ?? String(problem) : null);

function renderHeader({ resource, summary, window, resources }, path, problems) {
  if (!summary) return [h("h1", null, resource.metadata.name), problems.summary ? h("p.problem", null, problems.summary) : null];
  const operation = summary.operation;
  const conditions = resource.status?.conditions ?? [];
  const urls = resource.status?.summary?.externalURLs ?? [];
  const links = Object.entries(resource.metadata.annotations ?? {}).filter(([name]) => name.startsWith("link.argocd.argoproj.io/"));
  return [
    h("div.title", null, h("h1", null, summary.name),
      h("span.states", null, renderBadge(summary.sync, "sync"), " ", renderBadge(summary.health, "health"), " ", operation ? renderBadge(operation.outcome, "operation") : null, operation?.dryRun ? h("small", null, " dry run: nothing is written") : null)),
    problems.summary ? h("p.problem", null, problems.summary) : null,
    h("div.lead", null, operation ? [renderCollapsible(localizeRetryTime(operation.message)), " ", operation.id ? link(paths.operation(operation.id), operation.finishedAt ? "See the operation" : "Watch the operation") : null] : summary.waitReason ? null : "This Application has never been synced."),
    operation?.finishedAt && !operation.id ? h("p.quiet", null, `The operation did not start, so it is not listed under Operations. Requested by ${operation.initiatedBy || "unknown"}, `, renderTime(operation.finishedAt)) : null,
    summary.deleting ? h("p.lead", null, "This Application is being deleted.") : null,
    summary.waitReason ? h("p.lead", null, `This Application is ${summary.waitReason}. `, link(paths.set(summary.namespace, summary.applicationSet), "See the ApplicationSet")) : null,
    operation?.reason ? h("div.quiet", null, `Requested by ${operation.initiatedBy}: `, renderCollapsible(operation.reason)) : null,
    renderApplicationActions(summary, path, resources) ?? h("div"),
    conditions.length > 0 ? h("section.problem", null, h("h2", null, "Conditions"),
      h("ul", null, conditions.map((condition) => h("li", null, h("strong", null, condition.type), `: ${condition.message} `, renderTime(condition.lastTransitionTime))))) : h("div"),
    renderTerms([
      ["Health", summary.healthMessage], ["Namespace", summary.namespace], ["Project", summary.project],
      ["Generated by", summary.applicationSet ? link(paths.set(summary.namespace, summary.applicationSet), summary.applicationSet) : null],
      ["Destination", `${summary.destination.cluster} ${summary.destination.namespace}`.trim()],
      ["Source", summary.sources.map((source) => h("div", null, externalLink(source.repoURL), ` ${source.path} ${source.targetRevision}`))],
      ["Compared with", h("span", { title: summary.revision }, shortenRevision(summary.revision))], ["Last compared", renderTime(summary.reconciledAt)],
      ["Sync policy", { manual: "manual", auto: "automated", "auto-prune": "automated, prune" }[summary.policy]],
      ["Sync windows", problems.window ? h("span.problem", null, problems.window) : window?.reason ? `${window.manual ? "manual syncs only" : "no syncs now"}: ${window.reason}` : null],
      ["Labels", Object.entries(summary.labels).map(([name, value]) => h("code.label", null, `${name}=${value}`))],
      ["Links", links.length + urls.length > 0 ? [...links.map(([name, value]) => [value, name.split("/")[1]]), ...urls.map((url) => [url, url])]
        .map(([address, text]) => h("span.label", null, externalLink(address, text))) : null],
    ]),
  ];
}

// Renders a waiting plan that cannot be read. The plan is still waiting for approval.
function renderUnreadablePlan(summary, problem, retry) {
  return [
    h("h2", null, "Waiting for approval"),
    h("p.problem", { role: "alert" }, `Plan ${shortenHash(summary.plan)} is waiting for approval and cannot be read: ${problem}`),
    h("p", null, "Nothing is written until the plan is approved. Read the plan again; if that fails, terminate the operation and sync again to create a new plan."),
    h("div.actions", null, h("button", { type: "button", onclick: retry, "data-do": "read the plan again" }, "Read again")),
  ];
}

function renderWaitingPlan(summary, plan) {
  const approvals = plan.approvals.map((approval) => h("li", null, renderApproval(approval)));
  return [
    h("h2", null, "Waiting for approval"),
    h("div.lead", null, `Plan ${shortenHash(plan.hash)}, revision ${shortenRevision(plan.revision)}, created `, renderTime(plan.createdAt), `, requested by ${plan.initiatedBy || "unknown"}`, plan.reason ? [" (", renderCollapsible(plan.reason), ")"] : null, ". ",
      plan.missingApproval ? `The plan requires ${plan.missingApproval}.` : null),
    h("div.actions", null, createApproveButton(summary, plan)),
    approvals.length > 0 ? [h("h3", null, "Approved by"), h("ul", null, approvals)] : [],
    h("details", { open: true }, h("summary", null, "Actions of the plan"),
      plan.plan.waves.map((wave) => h("section.phase", { "data-key": `${wave.phase} ${wave.wave}` },
        h("h3", null, `${wave.phase}, wave ${wave.wave} `, h("small", null, formatCount(wave.tasks.length, "object"))),
        h("ul.objects", null, wave.tasks.slice(0, OBJECTS_PER_WAVE_MAX).map((task) => renderObject(task, null))),
        wave.tasks.length > OBJECTS_PER_WAVE_MAX ? h("p.quiet", null, `and ${formatCount(wave.tasks.length - OBJECTS_PER_WAVE_MAX, "other")}`) : null))),
  ];
}

// Renders the objects by phase and wave. Without a plan, the waves come from the objects themselves.
function renderOrder({ plan, resources }) {
  const resourcesByKey = new Map(resources.map((resource) => [getObjectKey(resource), resource]));
  let waves = plan?.waves ?? [];
  if (!plan) {
    const byWave = new Map();
    for (const resource of resources) {
      const wave = resource.syncWave ?? 0;
      byWave.set(wave, [...(byWave.get(wave) ?? []), { ...resource, namespace: resource.namespace ?? "" }]);
    }
    waves = [...byWave].sort(([a], [b]) => a - b).map(([wave, tasks]) => ({ phase: "Sync", wave, tasks }));
  }
  if (waves.length === 0) return [h("p.empty", null, "No objects.")];
  return waves.map((wave) => h("section.phase", { "data-key": `${wave.phase} ${wave.wave}`, "aria-label": `${wave.phase}, wave ${wave.wave}` },
    h("h3", null, `${wave.phase}, wave ${wave.wave} `, h("small", null, formatCount(wave.tasks.length, "object"))),
    h("ul.objects", null, wave.tasks.slice(0, OBJECTS_PER_WAVE_MAX).map((task) => renderObject(task, resourcesByKey.get(getObjectKey(task))))),
    wave.tasks.length > OBJECTS_PER_WAVE_MAX ? h("p.quiet", null, `and ${formatCount(wave.tasks.length - OBJECTS_PER_WAVE_MAX, "other")}`) : null));
}

// Draws the next sync as a picture for download.
function createPicture({ summary, plan }) {
  const waves = plan.waves.map((wave) => ({ phase: wave.phase, wave: wave.wave, text: formatCount(wave.tasks.length, "object"), objects: describeObjects(wave.tasks, (task) => task.action) }));
  const title = `Next sync of ${summary.namespace}/${summary.name}`;
  return drawWavesPicture({ title, text: `${formatCount(waves.length, "wave")}, as of ${formatTime(new Date().toISOString())}`, waves });
}

// Renders the rule that determines the health of an object.
function renderHealthRule(live) {
  if (!live) return null;
  return h("small.rule", null, live.healthRule ? `Health: ${live.healthRule}` : "Health: no rule; waves do not wait for this object");
}

function renderObject(task, live) {
  const health = live?.health;
  const hook = task.hook && typeof task.hook === "object" ? ` (${task.hook.deletePolicies.join(", ")})` : "";
  return h("li.object", { "data-key": getObjectKey(task) },
    h("span.what", null, task.hook ? h("span.badge.hook", null, "hook") : null, " ", formatObjectName(task), h("small", null, hook)),
    h("span.states", null, renderBadge(task.action), renderBadge(live?.status, "sync"), renderBadge(health?.status, "health"),
      live?.requiresPruning ? h("span.badge.warn", null, "requires pruning") : null),
    h("span.words", null, [health?.message, task.reason].filter(Boolean).join("; "), " ", renderHealthRule(live)));
}

function renderHistory({ resource, summary }, path) {
  const entries = [...(resource.status?.history ?? [])].reverse();
  return [
    h("h2", { id: "history" }, "History"),
    summary && summary.policy !== "manual" && entries.length > 1 ? h("p.quiet", null, "Rollback is not available with automated sync: the newest revision would be synced again.") : null,
    entries.length === 0 ? h("p.empty", null, "No history yet.")
      : h("div.scroll", { tabindex: "0", role: "region", "aria-label": "History as a table" }, h("table", null,
        h("thead", null, h("tr", null, ["ID", "Deployed", "Revision", "By", ""].map((heading) => h("th", { scope: "col" }, heading || h("span.unseen", null, "Actions"))))),
        h("tbody", null, entries.map((entry, index) => h("tr", { "data-key": entry.id },
          h("td", null, String(entry.id)), h("td", null, renderTime(entry.deployedAt)),
          h("td", null, h("span", { title: entry.revision ?? "" }, (entry.revisions ?? [entry.revision]).map(shortenRevision).join(", "))),
          h("td", null, entry.initiatedBy?.username || (entry.initiatedBy?.automated ? "automated" : "")),
          h("td", null, index > 0 && summary ? createRollbackButton(summary, path, entry) : null)))))),
  ];
}
