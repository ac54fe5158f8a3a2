// View of one ApplicationSet: the steps of its rollout or deletion, and the reasons why steps are blocked.

import { getAll, apiPath, get, query } from "./api.js";
import { createDecisionsSection } from "./decisions.js";
import { fill, h, link, paths, refill, announce, debounce, keepLoaded } from "./dom.js";
import { createDeletionPreview, createRolloutPreview } from "./preview.js";
import { subscribe } from "./events.js";
import { createRunList } from "./run-list.js";
import { renderMemberActions, renderSetActions } from "./appset-actions.js";
import { renderApproval, renderBadge, formatElapsed, formatCount, renderCollapsible, isAtOnce, formatDuration, describeOrder, shortenRevision, renderTerms, renderTime, getTone } from "./format.js";

// Maximum number of displayed Applications per step. Finished Applications are omitted first.
const TILES_MAX = 120;
// Maximum length of a message in a tile before it is collapsed.
const MESSAGE_LENGTH = 100;
// Maximum number of Applications to load when looking for Applications that outlive the ApplicationSet.
const APPLICATIONS_MAX = 10_000;
const IN_FLIGHT = new Set(["Pending", "Progressing", "Deleting"]);
const DONE = new Set(["Healthy", "RolledBack", "Deleted", "Skipped", "Released"]);

// Returns the state of an Application. The outcome takes precedence, because Argo CD's status doesn't
// distinguish failed Applications from progressing Applications, or skipped Applications from healthy
// Applications.
const getMemberState = (member) => (member.outcome && member.outcome !== "Settling" ? member.outcome : member.status);
const isDone = (member) => DONE.has(member.status);

export function showApplicationSet(view, namespace, name) {
  const path = apiPath.set(namespace, name);
  const abort = new AbortController();
  const head = h("div");
  const steps = h("section", { "aria-labelledby": "steps" });
  const refused = h("div");
  const preview = h("div", null, createRolloutPreview(path, namespace, abort.signal), createDeletionPreview(path, abort.signal));
  const decisions = createDecisionsSection(abort.signal);
  const runs = createRunList(namespace, name, abort.signal);
  fill(view, head, steps, decisions.element, refused, runs.element, preview);
  let [set, response, isDeleted, summary] = [null, null, false, null];
  // True if an event has arrived since the last load. Decisions are reloaded only after an event, not on each
  // timer tick.
  let hasNews = true;

  // Shows that the ApplicationSet was deleted. The steps remain visible, because they document the order of the
  // deletion.
  async function showDeleted() {
    if (isDeleted || !set) return;
    isDeleted = true;
    preview.hidden = true;
    refill(head, h("h1", null, name), h("p.lead", { role: "status" }, `${namespace}/${name} has been deleted.`));
    announce(`${namespace}/${name} has been deleted`);
    refill(refused);
    runs.load();
    try {
      const apps = await getAll("/api/v1/applications", APPLICATIONS_MAX, abort.signal);
      if (isDeleted) refill(steps, renderDeletedSet(response, namespace, new Set(apps.filter((app) => app.namespace === namespace).map((app) => app.name)), path));
    } catch (problem) {
      if (problem.name !== "AbortError") refill(steps, h("p.problem", null, problem.fullMessage ?? String(problem)));
    }
  }

  // A deleted ApplicationSet is not an error, so check the list first.
  async function exists() {
    if (!set?.metadata.deletionTimestamp && !response?.deletion) return true;
    const list = await get(query("/api/v1/applicationsets", { name: `${namespace}/${name}`, limit: 500 }), abort.signal);
    return list.items.some((candidate) => candidate.namespace === namespace && candidate.name === name);
  }

  async function load() {
    if (isDeleted) return undefined;
    try {
      if (!await exists()) return showDeleted();
      const responses = await Promise.all([get(path, abort.signal), get(`${path}/explain`, abort.signal)]);
      // The deletion event may arrive before these responses, which describe the state before the deletion.
      if (isDeleted) return undefined;
      [set, response] = responses;
      const before = summary;
      summary = response.summary;
      refill(head, renderHeader(set, response, path));
      refill(steps, renderSteps(response, namespace, path));
      refill(refused, renderRefused(response, namespace));
      runs.load();
      if (hasNews || before !== summary) decisions.load(getCurrentRunId(response));
      hasNews = false;
      if (before && before !== summary) announce(summary);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      if (problem.status === 404 && set) return showDeleted();
      if (set) return announce(problem.fullMessage ?? String(problem));
      // The records of a deleted ApplicationSet may still exist.
      await runs.load();
      const message = problem.status === 404 && !runs.isEmpty ? h("p.lead", { role: "status" }, `${namespace}/${name} has been deleted.`)
        : h("p.problem", { role: "alert" }, problem.fullMessage ?? String(problem));
      fill(view, h("h1", null, name), message, runs.isEmpty ? null : runs.element);
    }
    return undefined;
  }

  const reload = debounce(250, load);
  const isMember = (app) => app?.namespace === namespace && (response?.rollout?.members ?? response?.deletion?.members ?? []).some((member) => member.application === app.name);
  const unsubscribe = subscribe((kind, data) => {
    const isThisSet = data?.namespace === namespace && data?.name === name;
    if (kind === "applicationSetRemoved" && isThisSet) return showDeleted();
    // An ApplicationSet with the same name was created.
    if (kind === "applicationSet" && isThisSet) isDeleted = preview.hidden = false;
    const isRelevant = (data?.namespace === namespace && data?.name === name && kind !== "application" && kind !== "applicationRemoved") || kind === "reset";
    if (isRelevant) hasNews = true;
    if (isRelevant || ((kind === "application" || kind === "applicationRemoved") && isMember(data))) reload();
    return undefined;
  });
  // Waiting times and remaining times change without events.
  return keepLoaded({ reload, unsubscribe, abort, isChanging: () => response?.explanation && !isDeleted });
}

// Returns the displayed run: the deletion if it is running or newer than the rollout, otherwise the rollout.
function getCurrentRun({ rollout, deletion }) {
  const isDeleting = Boolean(deletion && (!deletion.finishedAt || !rollout || deletion.startedAt > rollout.startedAt));
  return { isDeleting, shown: isDeleting ? deletion : rollout };
}

const getCurrentRunId = (response) => (getCurrentRun(response).isDeleting ? response.deletionId : response.rolloutId);

function renderHeader(set, response, path) {
  const { isDeleting, shown: run } = getCurrentRun(response);
  const explanation = response.explanation;
  return [
    h("div.title", null, h("h1", null, set.metadata.name), renderBadge(set.status?.health?.status ?? "Unknown", "health"),
      run?.pausedBy && !run.finishedAt ? renderBadge("Paused") : null, run?.outcome ? renderBadge(run.outcome, isDeleting ? "deletion" : "rollout") : null),
    h("div.lead", null, renderCollapsible(response.summary)),
    renderSetActions(response, set, path) ?? h("div"),
    renderConditions(set.status?.conditions ?? []),
    run ? renderTerms([
      [isDeleting ? "Deletion started" : "Rollout started", renderTime(run.startedAt)], ["Finished", run.finishedAt ? renderTime(run.finishedAt) : null],
      ["Duration", formatElapsed(run.startedAt, run.finishedAt)], ["Requested by", run.initiatedBy], ["Reason", renderCollapsible(run.reason)], ["Order", describeOrder(run)], ["Paused", renderCollapsible(run.pausedBy)],
      ["Deadline", explanation?.secondsUntilDeadline ? `${formatDuration(explanation.secondsUntilDeadline * 1000)} left` : null], ["Next", explanation?.nextPosition], ["Next action", renderCollapsible(response.nextAction?.text)],
    ]) : h("p.quiet", null, set.spec?.strategy?.type === "RollingSync" ? "RollingSync strategy: no rollout has started yet."
      : "No progressive sync: each Application is synced according to its own policy."),
    renderDeletionApproval(set),
    explanation && explanation.awaited.length > 0 ? h("section", { "aria-labelledby": "awaited" }, h("h2", { id: "awaited" }, "Waiting for"),
      h("ul.awaited", null, explanation.awaited.map((item) => h("li", null, h("strong", null, item.subject), ": ", renderCollapsible(item.reason), " ", h("small", null, `for ${formatElapsed(item.since)}`)))),
      explanation.warnings.map((warning) => h("p.problem", null, warning))) : h("div"),
  ];
}

// Renders the approval of deletions that are held because their number exceeds the limit.
function renderDeletionApproval(set) {
  try {
    const approval = JSON.parse(set.metadata.annotations?.["tidegate.dev/deletions-approval"] ?? "null");
    return approval ? renderTerms([["Deletions approved by", renderApproval(approval)]]) : h("div");
  } catch {
    return h("div");
  }
}

// Renders an ApplicationSet's problems and other conditions, including the messages.
function renderConditions(conditions) {
  const isBad = (condition) => condition.status === "True" && (condition.type === "ErrorOccurred" || condition.type.endsWith("Warning"));
  const renderCondition = (condition) => h("li", { "data-key": condition.type }, h("strong", null, condition.type), condition.status === "True" ? "" : ` (${condition.status})`, `: ${condition.message || condition.reason} `, renderTime(condition.lastTransitionTime));
  const [problems, others] = [conditions.filter(isBad), conditions.filter((condition) => !isBad(condition))];
  return [
    problems.length > 0 ? h("section.problem", null, h("h2", null, "Problems"), h("ul", null, problems.map(renderCondition))) : h("div"),
    others.length > 0 ? h("details", null, h("summary", null, "Conditions"), h("ul", null, others.map(renderCondition))) : h("div"),
  ];
}

// Renders the steps in execution order. Without a `path`, the steps have no actions.
export function renderSteps(response, namespace, path) {
  const { isDeleting, shown: run } = getCurrentRun(response);
  if (!run) return [];
  const membersOf = (number) => run.members.filter((member) => member.step === String(number));
  const inSteps = isDeleting
    ? run.steps.map((step) => ({ ...step, number: step.step ?? -1, status: getDeletionStepStatus(run, step) })).filter((step) => step.number > 0 || membersOf(step.number).length > 0)
    : run.steps.map((step, index) => ({ ...step, number: index + 1 }));
  const unselected = isDeleting ? [] : membersOf(-1);
  return [
    h("h2", { id: "steps" }, isDeleting ? "Deletion steps" : "Steps"),
    h("ol.steps", { tabindex: "0", "aria-label": isDeleting ? "Steps in deletion order" : "Steps" },
      inSteps.map((step) => renderStep(step, membersOf(step.number), response, namespace, path, run))),
    isDeleting ? null : renderDeparted(run.departed ?? [], namespace),
    unselected.length > 0 ? h("section.outside", { "aria-labelledby": "outside" }, h("h3", { id: "outside" }, "Outside all steps"),
      h("p.quiet", null, "No step selects these Applications: the rollout does not change them."), renderTiles(unselected, response, namespace, path)) : null,
  ];
}

// Renders the Applications that left the ApplicationSet during the rollout, with their progress.
function renderDeparted(departed, namespace) {
  return departed.length > 0 ? h("section", { "aria-labelledby": "left" }, h("h3", { id: "left" }, "Removed from the ApplicationSet"),
    h("p.quiet", null, "These Applications have left the ApplicationSet since the rollout started."),
    h("ul", null, departed.map((member) => h("li", { "data-key": member.application }, h("strong", null, member.application), member.step === "-1" ? ": " : ` (step ${member.step}): `,
      member.message, " ", renderTime(member.at), member.operation ? [" ", link(paths.operation(member.operation), "operation", h("span.unseen", null, ` of ${member.application}`))] : null)))) : null;
}

// Renders the final state of a deleted ApplicationSet. `existing` contains the names of the Applications that still
// exist.
function renderDeletedSet(response, namespace, existing, path) {
  const { rollout, deletion } = response;
  const members = (deletion ?? rollout)?.members ?? [];
  const remaining = members.filter((member) => existing.has(member.application));
  const remainingLinks = remaining.length > 0 ? h("p", null, "Remaining Applications: ", remaining.map((member) => [link(paths.application(namespace, member.application), member.application), " "])) : null;
  if (!deletion) return [remainingLinks];
  const remainingState = deletion.order === "Orphan" ? { status: "Released", message: "" } : isAtOnce(deletion) ? {} : { status: "Skipped" };
  const finalMembers = members.map((member) => (existing.has(member.application) ? { ...member, ...remainingState } : { ...member, status: "Deleted", message: "" }));
  const finalDeletion = { ...deletion, members: finalMembers, finishedAt: deletion.finishedAt ?? new Date().toISOString(), pausedBy: null };
  return [renderSteps({ rollout: null, deletion: finalDeletion }, namespace, path), remainingLinks];
}

function getDeletionStepStatus(run, step) {
  const members = run.members.filter((member) => member.step === String(step.step ?? -1));
  if (members.length === 0) return "Empty";
  if (members.every(isDone)) return "Passed";
  if (run.finishedAt) return "Unfinished";
  return members.some((member) => member.status === "Deleting") || (run.step ?? -1) === (step.step ?? -1) ? "Rolling" : "Waiting";
}

function renderStep(step, members, response, namespace, path, run) {
  const inFlight = members.filter((member) => IN_FLIGHT.has(getMemberState(member))).length;
  const isCurrent = ["Held", "Rolling", "RollingBack", "Failed"].includes(step.status);
  return h("li.step", { "data-key": step.number, "aria-current": isCurrent && !run.finishedAt ? "step" : null },
    h("h3", null, step.number > 0 ? `Step ${step.number} ` : "No step ", renderBadge(step.status)),
    h("p.quiet", null, step.selector),
    h("p", null, describeProgress(members)),
    renderSlots(step, inFlight, members.length),
    renderTerms([
      ["Gates", (step.gates ?? []).length > 0 ? step.gates.join(", ") : null],
      ["Max failures", step.maxFailures ?? null], ["Deadline", step.deadlineSeconds ? formatDuration(step.deadlineSeconds * 1000) : null],
      ["Opened", step.openedAt ? renderTime(step.openedAt) : null], ["Duration", step.openedAt && step.passedAt ? formatElapsed(step.openedAt, step.passedAt) : null],
    ]),
    renderTiles(members, response, namespace, path));
}

// Describes how many Applications are finished, skipped, failed or rolled back.
function describeProgress(members) {
  const countState = (...states) => members.filter((member) => states.includes(getMemberState(member))).length;
  const exceptions = [[countState("Skipped"), "skipped"], [countState("Failed"), "failed"], [countState("RolledBack"), "rolled back"]].filter(([number]) => number > 0);
  const done = members.filter(isDone).length - countState("Skipped", "RolledBack");
  return [`${done} of ${formatCount(members.length, "Application")} done`, ...exceptions.map(([number, word]) => `${number} ${word}`)].join(", ");
}

// Renders the current and maximum number of Applications in progress.
function renderSlots(step, inFlight, members) {
  if (step.maxUpdate === null || step.maxUpdate === undefined) return h("p.quiet", null, inFlight > 0 ? `${inFlight} in progress, without a limit` : "all at once");
  const text = step.maxUpdate === 0 ? "none automatically: sync each Application manually" : `${inFlight} of at most ${step.maxUpdate} in progress`;
  const slotCount = Math.min(step.maxUpdate, members, 20);
  return h("p.slots", null, h("span", { "aria-hidden": "true" },
    Array.from({ length: slotCount }, (_, index) => h(index < inFlight ? "span.slot.busy" : "span.slot"))), h("span", null, text));
}

function renderTiles(members, response, namespace, path) {
  const sorted = [...members].sort((a, b) => isDone(a) - isDone(b) || a.application.localeCompare(b.application));
  const visible = new Set(sorted.slice(0, TILES_MAX));
  return [
    h("ul.tiles", null, members.filter((member) => visible.has(member)).map((member) => h(`li.tile.${getTone(getMemberState(member))}`, { "data-key": member.application },
      h("div", null, link(paths.application(namespace, member.application), member.application), " ", renderBadge(getMemberState(member))),
      h("div.words", null, renderCollapsible(member.message, MESSAGE_LENGTH)),
      member.targetRevisions?.length > 0 ? h("small", null, `to ${member.targetRevisions.map(shortenRevision).join(", ")}`) : null,
      member.operation ? h("small", null, " ", link(paths.operation(member.operation), "operation", h("span.unseen", null, ` of ${member.application}`))) : null,
      path ? renderMemberActions(response, member, path) : null))),
    members.length > TILES_MAX ? h("p.quiet", null, `and ${formatCount(members.length - TILES_MAX, "other")}`) : null,
  ];
}

function renderRefused(response, namespace) {
  const refused = Object.entries(response.refused ?? {});
  return refused.length > 0 ? h("section.problem", null, h("h2", null, "Not created or not updated"),
    h("ul", null, refused.map(([name, reason]) => h("li", null, link(paths.application(namespace, name), name), `: ${reason}`)))) : null;
}
