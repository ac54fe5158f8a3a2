// View of one operation: waves, timeline, objects and event log.

import { apiPath, get, query } from "./api.js";
import { fill, h, link, refill, announce, debounce } from "./dom.js";
import { subscribe } from "./events.js";
import { createApplicationLink } from "./operations.js";
import { followOutput } from "./output.js";
import { createSaveButton } from "./svg-export.js";
import { isWaveClosed, hasAction, renderOperationActions, renderTaskActions, renderWaveActions } from "./actions.js";
import { TimelineModel } from "./timeline-model.js";
import { EXPORT_WIDTH, drawTimeline, redrawOnResize, renderLegend, renderTimelineTable } from "./timeline.js";
import { describeObjects, drawWavesPicture } from "./waves.js";
import { renderApproval, renderBadge, formatElapsed, formatClock, formatCount, renderFinding, renderCollapsible, localizeRetryTime, formatDuration, getObjectKey, formatObjectName, getObjectState, describeResult, shortenRevision, shortenHash, renderTerms, renderTime, getTone, getWaveState } from "./format.js";

// Number of events and objects that are displayed initially.
const EVENTS_MAX = 200;
const OBJECTS_MAX = 300;
// Ratio of the pause between two loads to the duration of the last load. Loading an operation with thousands
// of objects is slow.
const RELOAD_FACTOR = 4;
// Time after which partial data is displayed, in milliseconds.
const SHOW_AFTER = 1000;

export function showOperation(view, id) {
  const path = apiPath.operation(id);
  const abort = new AbortController();
  const model = new TimelineModel();
  const events = [];
  let [operation, explanation] = [null, null];
  let [eventsShown, objectsShown] = [EVENTS_MAX, OBJECTS_MAX];
  let [loadTime, loadedAt] = [0, 0];
  const head = h("div");
  const waves = h("section", { "aria-labelledby": "waves" });
  const picture = h("div.picture");
  const table = h("details", null, h("summary", null, "Timeline as a table"), h("div"));
  const omittedNote = h("p.quiet");
  const timeline = h("section", { "aria-labelledby": "timeline" }, h("div.title", null, h("h2", { id: "timeline" }, "Timeline"),
    createSaveButton("the timeline", `operation-${id}`, () => drawTimeline(model, EXPORT_WIDTH, Date.now(), formatTitle(operation)).picture)), renderLegend(), picture, omittedNote, table);
  const log = h("section", { "aria-labelledby": "facts" });
  const results = h("section", { "aria-labelledby": "results" });
  const outputSection = h("section");
  fill(view, head, waves, outputSection, timeline, results, log);
  const output = followOutput(id, outputSection);
  const stopDrawing = redrawOnResize(picture, (width) => draw(width));

  function draw(width) {
    if (model.lastSequence === 0 || !width) return null;
    const drawn = drawTimeline(model, width, Date.now());
    omittedNote.textContent = drawn.omitted > 0 ? `${formatCount(drawn.omitted, "object")} that took less time and had no problems are not shown.` : "";
    return drawn.picture;
  }

  function redraw() {
    fill(picture, draw(Math.floor(picture.clientWidth)));
    if (table.open) refill(table.lastElementChild, renderTimelineTable(model, Date.now()));
  }
  table.addEventListener("toggle", redraw);

  function showAll() {
    const previousState = head.querySelector(".badge")?.textContent;
    refill(head, renderHeader(operation, explanation, model));
    refill(waves, h("div.title", null, h("h2", { id: "waves" }, "Waves"),
      operation.waves.length > 0 ? createSaveButton("the waves", `operation-${id}-waves`, () => createWavesPicture(operation, explanation, model)) : null), renderWaves(operation, model));
    refill(results, renderResults(operation, model, objectsShown, () => {
      objectsShown = Infinity;
      showAll();
    }));
    refill(log, renderLog(events, eventsShown, () => {
      eventsShown += 2000;
      showAll();
    }));
    redraw();
    const currentState = head.querySelector(".badge")?.textContent;
    if (previousState && previousState !== currentState) announce(`Operation of ${operation.app}: ${currentState}`);
  }

  async function load() {
    const startedAt = performance.now();
    let shownAt = startedAt;
    try {
      [operation, explanation] = await Promise.all([get(path, abort.signal), get(`${path}/explain`, abort.signal)]);
      if (operation.summary) return showCompacted();
      let next = model.lastSequence;
      do {
        const page = await get(query(`${path}/log`, { after: next, limit: 500 }), abort.signal);
        const newEvents = page.items.filter((event) => event.sequence > model.lastSequence);
        events.push(...newEvents);
        model.addEvents(newEvents);
        next = page.next;
        if (next !== null && performance.now() - shownAt > SHOW_AFTER) {
          showAll();
          shownAt = performance.now();
        }
      } while (next !== null);
      showAll();
      output.setRunning(!operation.finishedAt && operation.resources.some((resource) => resource.hookType && resource.hookPhase === "Running"));
      [loadTime, loadedAt] = [performance.now() - startedAt, performance.now()];
    } catch (problem) {
      if (problem.name === "AbortError") return;
      if (operation) return announce(problem.fullMessage ?? String(problem));
      const text = problem.status === 404 ? [`There is no operation ${id}. `, link("/operations", "All operations")] : problem.fullMessage ?? String(problem);
      fill(view, h("h1", null, `Operation ${id}`), h("p.problem", { role: "alert" }, text));
    }
  }

  // Shows the summary of an operation whose events were compacted.
  function showCompacted() {
    stopDrawing();
    fill(view, renderHeader(operation, explanation, { request: operation.summary }), h("p", { role: "status" },
      "The details were compacted: waves, objects, timeline and event log are no longer stored. The newest operations of each application keep their details; set the number with ",
      h("code", null, "--history"), " (default: 10)."));
  }

  const reload = debounce(200, load);
  const unsubscribe = subscribe((kind, data) => {
    const isThisOperation = (kind === "operation" && data.operation === id) || kind === "reset";
    if (isThisOperation && (performance.now() - loadedAt > RELOAD_FACTOR * loadTime || data?.kind === "finished")) reload();
  });
  reload.now();
  // Update regularly: durations increase over time, and some minor log records don't emit events.
  const ticking = setInterval(() => {
    if (!operation || operation.finishedAt || document.hidden) return;
    redraw();
    if (performance.now() - loadedAt > RELOAD_FACTOR * loadTime) reload();
  }, 1000);
  return () => {
    unsubscribe();
    output.stop();
    stopDrawing();
    reload.stop();
    clearInterval(ticking);
    abort.abort();
  };
}

function renderHeader(operation, explanation, model) {
  const isOver = Boolean(operation.finishedAt);
  const request = model.request ?? {};
  const deadline = explanation.secondsUntilDeadline !== null ? `${formatDuration(explanation.secondsUntilDeadline * 1000)} left`
    : explanation.secondsSinceDeadline !== null ? `passed ${formatDuration(explanation.secondsSinceDeadline * 1000)} ago` : null;
  return [
    h("div.title", null, h("h1", null, operation.deletion ? "Deletion of " : "Operation of ", createApplicationLink(operation.app)),
      renderBadge(operation.outcome, "result"), operation.dryRun ? h("small", null, " dry run: nothing was written") : null,
      operation.pausedBy ? renderBadge("Paused") : null),
    h("div.lead", null, renderCollapsible(localizeRetryTime(isOver ? operation.message : explanation.summary))),
    renderOperationActions(operation, explanation) ?? h("div"),
    h("p.quiet", null, "Download the full record: ", createExportLink(operation.id, ".html", "HTML"), ", ", createExportLink(operation.id, "", "JSON")),
    isOver || explanation.awaited.length === 0 ? h("div") : h("section", { "aria-labelledby": "awaited" },
      h("h2", { id: "awaited" }, "Waiting for"),
      h("ul.awaited", null, explanation.awaited.map((item) => h("li", null, h("strong", null, item.subject), ": ", renderCollapsible(item.reason), " ", h("small", null, `for ${formatElapsed(item.since)}`))))),
    renderTerms([
      ["Started", renderTime(operation.startedAt)], ["Finished", isOver ? renderTime(operation.finishedAt) : null],
      ["Duration", formatElapsed(operation.startedAt, operation.finishedAt)], ["Deadline", isOver ? null : deadline],
      ["Requested by", operation.initiatedBy ?? request.initiatedBy], ["Reason", renderCollapsible(operation.reason ?? request.reason)],
      ["Plan", renderPlan(operation.plan) ?? explanation.plan], ["Approved by", operation.plan?.approvals.map(renderApproval)], ["Revision", request.revision ? shortenRevision(request.revision) : null],
      ["Cluster", request.destination], ["Attempts", operation.retryCount > 0 ? String(operation.retryCount + 1) : null],
      ["Options", [request.prune && "prune", request.dryRun && "dry run", request.force && "force", request.skipHooks && "skip hooks", ...(request.syncOptions ?? [])].filter(Boolean).join(", ")],
      ["Position", isOver ? null : explanation.position], ["Next", isOver ? null : explanation.nextPosition], ["Next action", renderCollapsible(explanation.nextAction?.text)], ["Waiting", isOver ? null : renderCollapsible(explanation.successor)],
      ["Overridden", isOver ? null : renderCollapsible((explanation.overrides ?? []).join("; ")) || null], ["Paused", renderCollapsible(explanation.pausedBy)], ["Problem", explanation.outage], ["Health rules", explanation.healthRulesChange],
      ["Process", !isOver && operation.isRunning === false ? "no process is running this operation" : null], ["ID", h("code", null, operation.id)],
    ]),
  ];
}

// Renders the stored plan that the operation executes.
function renderPlan(plan) {
  return plan ? h("span", null, h("code", { title: plan.hash }, shortenHash(plan.hash)), " created ", renderTime(plan.createdAt)) : null;
}

// Creates a link for downloading the operation as a self-contained file.
function createExportLink(id, extension, label) {
  return h("a", { href: `${apiPath.operation(id)}/export${extension}`, download: "" }, label);
}

// Computes the progress of a wave, as numbers and as text. Tasks without an action are not counted.
function computeProgress(operation, model, wave) {
  const results = operation.resources.filter((resource) => resource.syncPhase === wave.phase && resource.wave === wave.wave);
  const states = results.map((resource) => getObjectState(resource, wave));
  const untouched = model.getTasks(wave).filter((task) => !hasAction(task)).length;
  const untouchedDone = wave.passedAt ? untouched : Math.min(untouched, results.filter((resource) => resource.status === "PruneSkipped").length);
  const { skipped } = wave;
  const [tasks, done] = [wave.tasks - untouched, Math.max(0, wave.done - untouchedDone)];
  const failed = states.filter((state) => getTone(state) === "bad").length;
  const finished = done + skipped + failed;
  const applied = Math.max(finished, model.countApplied(wave));
  const text = tasks === 0 ? "nothing to do" : [`${done} of ${tasks} done`, skipped > 0 ? `${skipped} skipped` : "", failed > 0 ? `${failed} failed` : "",
    applied > finished ? `${applied} written` : ""].filter(Boolean).join(", ");
  return { tasks, applied, finished, skipped, failed, done, text };
}

// Draws the waves with the names of their objects as a picture for download.
function createWavesPicture(operation, explanation, model) {
  const resultsByObject = new Map(operation.resources.map((resource) => [`${resource.syncPhase} ${resource.wave} ${resource.group ?? ""} ${formatObjectName(resource)}`, resource]));
  const waves = operation.waves.map((wave) => {
    const { tasks: number, applied, finished, failed, done, text } = computeProgress(operation, model, wave);
    const share = (amount) => (number > 0 ? amount / number : 0);
    const tasks = model.getTasks(wave);
    const getState = (task) => {
      const resource = resultsByObject.get(`${wave.phase} ${wave.wave} ${task.group ?? ""} ${formatObjectName(task)}`);
      return resource ? getObjectState(resource, wave) : "Pending";
    };
    return {
      phase: wave.phase, wave: wave.wave, state: getWaveState(wave), text, objects: describeObjects(tasks, getState),
      shares: [["busy", share(applied)], ["dull", share(finished)], ["bad", share(done + failed)], ["good", share(done)]],
    };
  });
  return drawWavesPicture({ title: formatTitle(operation), text: `${operation.outcome}: ${operation.finishedAt ? operation.message : explanation.summary}`, waves });
}

// Returns the title of the downloadable pictures.
function formatTitle(operation) {
  return `${operation.deletion ? "Deletion" : "Operation"} of ${operation.app}`;
}

// Renders the waves as columns that show the shares of applied and finished objects.
function renderWaves(operation, model) {
  if (operation.waves.length === 0) return h("p.empty", null, "No plan yet.");
  return h("ol.waves", { tabindex: "0", "aria-label": "Waves" }, operation.waves.map((wave) => {
    const { tasks, applied, finished, skipped, failed, done, text } = computeProgress(operation, model, wave);
    const share = (number) => `${tasks > 0 ? Math.round((number / tasks) * 100) : 0}%`;
    // The duration includes all attempts, as in the timeline.
    const elapsed = model.getWaveDuration(wave, Date.now());
    return h("li.wave", { "data-key": `${wave.phase} ${wave.wave}` },
      h("div.column", { "aria-hidden": "true" }, h("div.applied", { style: { height: share(applied) } }),
        skipped > 0 ? h("div.done.dull", { style: { height: share(finished) } }) : null,
        failed > 0 ? h("div.done.bad", { style: { height: share(done + failed) } }) : null,
        h("div.done.good", { style: { height: share(done) } })),
      h("strong", null, wave.phase), h("span", null, `wave ${wave.wave}`), renderBadge(getWaveState(wave)), h("small", null, text), h("small", null, elapsed === null ? "" : formatDuration(elapsed)), renderWaveActions(operation, wave, model.getTasks(wave)));
  }));
}

// Renders the logs of failed hooks, for each attempt.
function renderHookLogs(operation, model) {
  const logsOfAttempts = [...model.logs.values()].flatMap(({ attempt, object, logs }) => logs.map((log) => ({ ...log, attempt, name: formatObjectName(object) })));
  const allLogs = logsOfAttempts.length > 0 ? logsOfAttempts : operation.hookLogs.map((log) => ({ ...log, attempt: 0, name: formatObjectName(log) }));
  return allLogs.map((log) => h("details.log", { "data-key": `${log.attempt} ${log.name} ${log.pod} ${log.container}` },
    h("summary", null, `Log of hook ${log.name}${model.attempt > 1 && log.attempt > 0 ? `, attempt ${log.attempt}` : ""}: ${log.pod}, ${log.container}`),
    h("pre", { tabindex: "0" }, log.text)));
}

// Lists the planned objects that don't have a result yet, because users can override them too.
function listUpcoming(operation, model) {
  if (operation.finishedAt) return [];
  const getKey = (object, { phase, wave }) => `${phase} ${wave} ${getObjectKey(object)}`;
  const knownKeys = new Set(operation.resources.map((resource) => getKey(resource, { phase: resource.syncPhase, wave: resource.wave })));
  const isUpcoming = (task, wave) => hasAction(task) && !knownKeys.has(getKey(task, wave));
  return operation.waves.filter((wave) => !isWaveClosed(wave)).flatMap((wave) => model.getTasks(wave).filter((task) => isUpcoming(task, wave))
    .map((task) => ({ ...task, syncPhase: wave.phase, wave: wave.wave, hookType: task.hook ? wave.phase : null, message: task.reason, isUpcoming: true })));
}

// Creates a function that formats an object's name. If the object is a hook that runs in several phases, adds
// the phase.
function createNamer(operation, model) {
  const phases = new Map();
  const add = (object, phase) => phases.set(getObjectKey(object), (phases.get(getObjectKey(object)) ?? new Set()).add(phase));
  model.plan.forEach((wave) => wave.tasks.forEach((task) => add(task, wave.phase)));
  operation.resources.forEach((resource) => add(resource, resource.syncPhase));
  return (object) => (phases.get(getObjectKey(object))?.size > 1 ? `${formatObjectName(object)} of ${object.syncPhase}` : formatObjectName(object));
}

function renderResults(operation, model, limit, onMore) {
  const logs = renderHookLogs(operation, model);
  const rows = [...operation.resources, ...listUpcoming(operation, model)];
  const formatName = createNamer(operation, model);
  const findWave = (resource) => operation.waves.find((wave) => wave.phase === resource.syncPhase && wave.wave === resource.wave);
  return [
    h("h2", { id: "results" }, "Objects"),
    operation.resources.length === 0 ? h("p.empty", null, "Nothing has been written yet.") : null,
    rows.length === 0 ? null
      : h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Objects as a table" }, h("table", null,
        h("thead", null, h("tr", null, ["Phase", "Wave", "Object", "Result", "State", "Message"].map((heading) => h("th", { scope: "col" }, heading)))),
        h("tbody", null, rows.slice(0, limit).map((resource) => h("tr", null, h("td", null, resource.syncPhase), h("td", null, String(resource.wave)),
          h("td", null, resource.hookType ? "hook " : "", formatObjectName(resource)), h("td", null, describeResult(resource, findWave(resource))),
          h("td", null, renderBadge(resource.isUpcoming ? "Pending" : getObjectState(resource, findWave(resource)))), h("td.words", null, renderCollapsible(describeResource(resource)), renderTaskActions(operation, resource, formatName(resource), model.isAwaitingCall(resource)))))))),
    rows.length > limit ? h("button", { type: "button", onclick: onMore, "data-do": "objects" }, `Show all ${formatCount(rows.length, "object")}`) : null,
    logs.length > 0 ? [h("h2", null, "Logs of failed hooks"), logs] : [],
    operation.warnings.length > 0 ? [h("h2", null, "Plan findings"), h("ul", null, operation.warnings.map(renderFinding))] : [],
  ];
}

// Describes an object's state without repeating any text.
function describeResource(resource) {
  // Until the retry starts, the message contains only the requester, which `describeRetry` adds anyway.
  const message = resource.override?.action === "Retry" && resource.message?.startsWith("retried by ") ? null : resource.message;
  const texts = [message, describeRetry(resource)].filter(Boolean);
  const additions = [resource.reason, ...(resource.warnings ?? [])].filter((addition) => addition && !texts.some((text) => text.includes(addition)));
  return [...texts, ...additions].join("; ");
}

// Describes a retry by a user. For other overrides, the message already mentions the user.
function describeRetry({ override }) {
  // The record contains only the latest override, which may not be a retry.
  if (!override?.retries || override.action !== "Retry") return null;
  return `retried ${override.retries === 1 ? "" : `${override.retries} times, last `}by ${override.by}${override.reason ? ` (${override.reason})` : ""}`;
}

// Renders the recorded events, newest first.
function renderLog(events, limit, onMore) {
  const visible = events.slice(-limit).reverse();
  return [
    h("h2", { id: "facts" }, "Event log"),
    h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Event log as a table" }, h("table.facts", null,
      h("thead", null, h("tr", null, ["Number", "Time", "Event"].map((heading) => h("th", { scope: "col" }, heading)))),
      h("tbody", null, visible.map((event) => h("tr", { "data-key": event.sequence }, h("td", null, String(event.sequence)),
        h("td", null, event.at ? h("time", { datetime: event.at, title: event.at }, formatClock(event.at)) : ""), h("td.words", null, event.text)))))),
    events.length > visible.length ? h("button", { type: "button", onclick: onMore, "data-do": "facts" }, `Show more of ${formatCount(events.length, "event")}`) : null,
  ];
}
