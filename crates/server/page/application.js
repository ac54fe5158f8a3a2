// One Application: how it stands, what differs, and what the next sync would do in which order.

import { all, at, look, query } from "./ask.js";
import { diffOf } from "./differences.js";
import { fill, h, link, outside, paths, refill, say, soon } from "./draw.js";
import { approveButton, keptPlansOf } from "./kept.js";
import { follow } from "./news.js";
import { operationsTable } from "./operations.js";
import { saveButton } from "./picture.js";
import { applicationActions, rollbackButton } from "./steer.js";
import { objectsOf, wavesPicture } from "./waves.js";
import { approvalOf, badge, count, folded, inZone, moment, objectKey, objectName, short, shortHash, terms, time } from "./words.js";

const RESOURCES_MAX = 10_000;
const OPERATIONS = 20;
// So many objects of a wave are shown at once.
const SHOWN = 200;

export function showApplication(view, namespace, name) {
  const path = at.application(namespace, name);
  const abort = new AbortController();
  const head = h("div");
  const order = h("section", { "aria-labelledby": "order" }, h("div.title", null, h("h2", { id: "order" }, "In the order of the next sync")), h("div", null, "…"));
  const waiting = h("section", { "aria-label": "The plan that waits for an approval" });
  waiting.hidden = true;
  const diff = h("section", { "aria-labelledby": "differs" }, h("h2", { id: "differs" }, "What differs"), h("div", null, "…"));
  const history = h("section", { "aria-labelledby": "history" });
  const operations = h("section", { "aria-labelledby": "operations" }, h("h2", { id: "operations" }, "Operations"), h("div", null, "…"));
  const plans = keptPlansOf(namespace, name, abort.signal);
  const state = { resource: null, line: null, window: null, resources: [], plan: null, compared: null, haveMoved: false, kept: null, unread: null, changes: null };
  // What could not be asked for of it, and why.
  const problems = { line: null, window: null, resources: null, plan: null };
  const showAll = () => fill(view, head, waiting, diff, order, plans.element, operations, history);
  showAll();

  function showHead() {
    const before = head.querySelector(".states")?.textContent;
    refill(head, headOf(state, path, problems));
    const now = head.querySelector(".states")?.textContent;
    if (before && before !== now) say(`${name}: ${now}`);
  }

  function showOrder() {
    if (state.line?.deleting) {
      saidGone(order);
      return;
    }
    refill(order.firstElementChild, h("h2", { id: "order" }, "In the order of the next sync"),
      state.plan?.waves.length > 0 ? saveButton("the next sync", `${name}-next-sync`, () => pictureOf(state)) : null);
    refill(order.lastElementChild, orderOf(state), [problems.plan, problems.resources].filter(Boolean).map((words) => h("p.problem", null, words)));
  }

  // How it stands; and what is asked of the repository and the cluster only when that may be otherwise. What cannot be asked for is
  // missing where it would be, and nowhere else: it is gone only where there is no Application of its name.
  const own = query("/api/v1/applications", { name: `${namespace}/${name}`, limit: 500 });
  const isIt = (one) => one.namespace === namespace && one.name === name;
  async function load() {
    const tried = (asked) => asked.then((told) => ({ told }), (problem) => ({ problem }));
    // What is being deleted may be gone, which is no error.
    if (state.line?.deleting) {
      const known = await tried(look(own, abort.signal));
      if (known.told && !known.told.items.some(isIt)) return gone();
    }
    const [resource, lines, window, resources] = await Promise.all([
      look(path, abort.signal), look(own, abort.signal), look(`${path}/window`, abort.signal), all(`${path}/resources`, RESOURCES_MAX, abort.signal),
    ].map(tried));
    if (abort.signal.aborted || state.isGone) return undefined;
    if (resource.problem) return missing(resource.problem);
    if (!head.isConnected) showAll();
    state.resource = resource.told;
    Object.assign(problems, { line: wordsOf(lines.problem), window: wordsOf(window.problem), resources: wordsOf(resources.problem) });
    if (lines.told) state.line = lines.told.items.find(isIt);
    if (window.told) state.window = window.told;
    if (resources.told) state.resources = resources.told;
    showHead();
    showOrder();
    refill(history, historyOf(state, path));
    plans.take(state.line, state.resources);
    showWaiting();
    const { line } = state;
    const operation = line?.operation;
    const compared = JSON.stringify([line?.sync, line?.revision, line?.plan, operation?.id, operation?.finishedAt]);
    const isOther = compared !== state.compared;
    if (isOther) {
      state.compared = compared;
      ask();
    }
    if (isOther || state.haveMoved) {
      state.haveMoved = false;
      plans.load();
    }
    return undefined;
  }

  // It cannot be asked for.
  function missing(problem) {
    if (problem.status === 404 && state.resource) return gone();
    if (state.resource) return say(wordsOf(problem));
    return fill(view, h("h1", null, name), h("p.problem", { role: "alert" }, wordsOf(problem)));
  }

  function gone() {
    state.isGone = true;
    fill(view, h("h1", null, name), h("p", { role: "status" }, `${namespace}/${name} is gone.`));
  }

  // The plan that its operation waits with is another one only under another hash; who has approved it may change.
  let wanted = 0;
  async function showWaiting() {
    wanted += 1;
    const [mine, hash] = [wanted, state.line?.plan];
    if (!hash) {
      Object.assign(state, { kept: null, unread: null });
      waiting.hidden = true;
      drawDiffers();
      return fill(waiting);
    }
    const [kept, problem] = await look(at.plan(hash), abort.signal).then((told) => [told, null], (found) => [null, found]);
    // What was asked for before may be answered last.
    if (mine !== wanted || abort.signal.aborted || state.isGone) return undefined;
    Object.assign(state, { kept, unread: wordsOf(problem) });
    drawWaiting();
    if (kept && (state.changes?.hash !== hash || state.changes.problem)) askChanges(hash);
    return undefined;
  }

  function drawWaiting() {
    const { line, kept, unread, changes } = state;
    const { told, problem } = kept && changes?.hash === kept.hash ? changes : {};
    if (kept) {
      refill(waiting, waitingOf(line, kept), h("h3", null, "What it changes"),
        h("div", null, told ? diffOf(told) : problem ? h("p.problem", null, problem) : "…"));
    } else refill(waiting, unreadOf(line, unread, showWaiting));
    waiting.hidden = false;
    drawDiffers();
  }

  // What differs is not what the plan changes, where that is of another revision.
  function drawDiffers() {
    const isOther = state.line?.plan && state.kept && state.kept.revision !== state.line.revision;
    fill(diff.firstElementChild, isOther ? `What differs from revision ${short(state.line.revision)}` : "What differs");
  }

  async function askChanges(hash) {
    const own = { hash };
    state.changes = own;
    try {
      own.told = await look(`${at.plan(hash)}/diff`, abort.signal);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      own.problem = wordsOf(problem);
    }
    if (state.changes === own && state.kept?.hash === hash && !state.isGone) drawWaiting();
  }

  let asked = 0;
  function ask() {
    asked += 1;
    const own = asked;
    // What was asked for before may be answered last.
    const isOld = () => own !== asked;
    const failed = (place, ...heading) => (problem) => {
      if (problem.name !== "AbortError" && !isOld()) refill(place, heading, h("p.problem", null, wordsOf(problem)));
    };
    const heading = () => h("h2", { id: "operations" }, "Operations");
    look(`${path}/plan`, abort.signal).then((plan) => {
      if (isOld()) return;
      [state.plan, problems.plan] = [plan, null];
      showOrder();
    }, (problem) => {
      if (isOld() || problem.name === "AbortError") return;
      [state.plan, problems.plan] = [null, wordsOf(problem)];
      showOrder();
    });
    look(`${path}/diff`, abort.signal).then((told) => isOld() || refill(diff.lastElementChild, diffOf(told)), failed(diff.lastElementChild));
    const called = namespace === "argocd" ? name : `${namespace}/${name}`;
    look(query("/api/v1/operations", { application: called, limit: OPERATIONS }), abort.signal).then(
      (answer) => isOld() || refill(operations, heading(),
        answer.items.length > 0 ? operationsTable(answer.items, false) : h("p.empty", null, "There was none."),
        answer.next ? link(query("/operations", { name: called }), `All ${answer.matching} operations`) : null), failed(operations, heading()));
  }

  const again = soon(300, load);
  const end = follow((kind, data) => {
    const isOwn = (data?.namespace === namespace && data?.name === name) || kind === "reset";
    const isOfSet = kind === "applicationSet" && data.namespace === namespace && data.name === state.line?.set;
    if (kind === "gone" && isOwn && state.resource) return gone();
    // Plans that move are often followed by their Application: both are asked for at once.
    if (kind === "plan" && isOwn) state.haveMoved = true;
    if (kind === "application" && isOwn && state.isGone) {
      // Another one of its name is there now.
      state.isGone = false;
      showAll();
    }
    if (((isOwn && kind !== "operation") || isOfSet) && !state.isGone) again();
    return undefined;
  });
  again.now();
  return () => {
    end();
    again.stop();
    abort.abort();
  };
}

// There is no next sync of what is being deleted: its operation shows in which order its objects go.
function saidGone(order) {
  refill(order.firstElementChild, h("h2", { id: "order" }, "It is being deleted"));
  refill(order.lastElementChild, h("p", null, "It is not synced any more. In which order its objects go is shown by the operation that deletes it."));
}

// What went wrong, in words; nothing where nothing did.
const wordsOf = (problem) => (problem ? problem.words ?? String(problem) : null);

function headOf({ resource, line, window, resources }, path, problems) {
  if (!line) return [h("h1", null, resource.metadata.name), problems.line ? h("p.problem", null, problems.line) : null];
  const operation = line.operation;
  const conditions = resource.status?.conditions ?? [];
  const urls = resource.status?.summary?.externalURLs ?? [];
  const links = Object.entries(resource.metadata.annotations ?? {}).filter(([name]) => name.startsWith("link.argocd.argoproj.io/"));
  return [
    h("div.title", null, h("h1", null, line.name),
      h("span.states", null, badge(line.sync, "sync"), " ", badge(line.health, "health"), " ", operation ? badge(operation.phase, "operation") : null, operation?.dryRun ? h("small", null, " dry run: nothing is written") : null)),
    problems.line ? h("p.problem", null, problems.line) : null,
    h("div.lead", null, operation ? [folded(inZone(operation.message)), " ", operation.id ? link(paths.operation(operation.id), operation.finishedAt ? "See the operation" : "Watch the operation") : null] : line.awaits ? null : "It was never synced."),
    operation?.finishedAt && !operation.id ? h("p.quiet", null, `It never began, so it is not among the operations. Asked for by ${operation.by || "nobody"}, `, time(operation.finishedAt)) : null,
    line.deleting ? h("p.lead", null, "It is being deleted.") : null,
    line.awaits ? h("p.lead", null, `It ${line.awaits}. `, link(paths.set(line.namespace, line.set), "See the ApplicationSet")) : null,
    operation?.reason ? h("div.quiet", null, `Asked for by ${operation.by}: `, folded(operation.reason)) : null,
    applicationActions(line, path, resources) ?? h("div"),
    conditions.length > 0 ? h("section.problem", null, h("h2", null, "Conditions"),
      h("ul", null, conditions.map((one) => h("li", null, h("strong", null, one.type), `: ${one.message} `, time(one.lastTransitionTime))))) : h("div"),
    terms([
      ["Health", line.healthMessage], ["Namespace", line.namespace], ["Project", line.project],
      ["Generated by", line.set ? link(paths.set(line.namespace, line.set), line.set) : null],
      ["Goes to", `${line.destination.cluster} ${line.destination.namespace}`.trim()],
      ["Comes from", line.sources.map((one) => h("div", null, outside(one.repoURL), ` ${one.path} ${one.targetRevision}`))],
      ["Compared with", h("span", { title: line.revision }, short(line.revision))], ["Compared", time(line.reconciledAt)],
      ["Synced", { manual: "when asked", auto: "by itself", "auto-prune": "by itself, and pruned" }[line.policy]],
      ["Sync windows", problems.window ? h("span.problem", null, problems.window) : window?.reason ? `${window.manual ? "only when asked" : "not now"}: ${window.reason}` : null],
      ["Labels", Object.entries(line.labels).map(([name, value]) => h("code.label", null, `${name}=${value}`))],
      ["Links", links.length + urls.length > 0 ? [...links.map(([name, value]) => [value, name.split("/")[1]]), ...urls.map((one) => [one, one])]
        .map(([address, text]) => h("span.label", null, outside(address, text))) : null],
    ]),
  ];
}

// The plan that waits where it cannot be read: it still waits.
function unreadOf(line, problem, again) {
  return [
    h("h2", null, "Waits for an approval"),
    h("p.problem", { role: "alert" }, `Plan ${shortHash(line.plan)}, which waits, cannot be read: ${problem}`),
    h("p", null, "Nothing is written before somebody approves it. Read it again; where that does not help, terminate the operation and sync once more, which makes a new plan."),
    h("div.actions", null, h("button", { type: "button", onclick: again, "data-do": "read the plan again" }, "Read it again")),
  ];
}

function waitingOf(line, plan) {
  const approvals = plan.approvals.map((one) => h("li", null, approvalOf(one)));
  return [
    h("h2", null, "Waits for an approval"),
    h("div.lead", null, `Plan ${shortHash(plan.hash)}, revision ${short(plan.revision)}, made `, time(plan.madeAt), ` for ${plan.by || "somebody"}`, plan.reason ? [" (", folded(plan.reason), ")"] : null, ". ",
      plan.needs ? `It needs ${plan.needs}.` : null),
    h("div.actions", null, approveButton(line, plan)),
    approvals.length > 0 ? [h("h3", null, "Approved by"), h("ul", null, approvals)] : [],
    h("details", { open: true }, h("summary", null, "What it does, and nothing else"),
      plan.plan.waves.map((wave) => h("section.phase", { "data-key": `${wave.phase} ${wave.wave}` },
        h("h3", null, `${wave.phase}, wave ${wave.wave} `, h("small", null, count(wave.tasks.length, "object"))),
        h("ul.objects", null, wave.tasks.slice(0, SHOWN).map((task) => objectOf(task, null))),
        wave.tasks.length > SHOWN ? h("p.quiet", null, `and ${count(wave.tasks.length - SHOWN, "other")}`) : null))),
  ];
}

// The objects by phase and wave. What the plan does not have stands where its wave says.
function orderOf({ plan, resources }) {
  const known = new Map(resources.map((one) => [objectKey(one), one]));
  let waves = plan?.waves ?? [];
  if (!plan) {
    const by = new Map();
    for (const one of resources) {
      const wave = one.syncWave ?? 0;
      by.set(wave, [...(by.get(wave) ?? []), { ...one, namespace: one.namespace ?? "" }]);
    }
    waves = [...by].sort(([one], [other]) => one - other).map(([wave, tasks]) => ({ phase: "Sync", wave, tasks }));
  }
  if (waves.length === 0) return [h("p.empty", null, "It has no objects.")];
  return waves.map((wave) => h("section.phase", { "data-key": `${wave.phase} ${wave.wave}`, "aria-label": `${wave.phase}, wave ${wave.wave}` },
    h("h3", null, `${wave.phase}, wave ${wave.wave} `, h("small", null, count(wave.tasks.length, "object"))),
    h("ul.objects", null, wave.tasks.slice(0, SHOWN).map((task) => objectOf(task, known.get(objectKey(task))))),
    wave.tasks.length > SHOWN ? h("p.quiet", null, `and ${count(wave.tasks.length - SHOWN, "other")}`) : null));
}

// The next sync as a picture that can be kept.
function pictureOf({ line, plan }) {
  const waves = plan.waves.map((wave) => ({ phase: wave.phase, wave: wave.wave, words: count(wave.tasks.length, "object"), objects: objectsOf(wave.tasks, (task) => task.action) }));
  const title = `The next sync of ${line.namespace}/${line.name}`;
  return wavesPicture({ title, words: `${count(waves.length, "wave")}, as things stand at ${moment(new Date().toISOString())}`, waves });
}

// By which rule its health is judged.
function ruleOf(live) {
  if (!live) return null;
  return h("small.rule", null, live.healthRule ? `Health: ${live.healthRule}` : "Health: no rule judges it, so nothing waits for it");
}

function objectOf(task, live) {
  const health = live?.health;
  const hook = task.hook && typeof task.hook === "object" ? ` (${task.hook.deletePolicies.join(", ")})` : "";
  return h("li.object", { "data-key": objectKey(task) },
    h("span.what", null, task.hook ? h("span.badge.hook", null, "hook") : null, " ", objectName(task), h("small", null, hook)),
    h("span.states", null, badge(task.action), badge(live?.status, "sync"), badge(health?.status, "health"),
      live?.requiresPruning ? h("span.badge.warn", null, "no longer wanted") : null),
    h("span.words", null, [health?.message, task.reason].filter(Boolean).join("; "), " ", ruleOf(live)));
}

function historyOf({ resource, line }, path) {
  const entries = [...(resource.status?.history ?? [])].reverse();
  return [
    h("h2", { id: "history" }, "History"),
    line && line.policy !== "manual" && entries.length > 1 ? h("p.quiet", null, "It is synced by itself, so it cannot go back: it would be synced to its newest revision again.") : null,
    entries.length === 0 ? h("p.empty", null, "There is none.")
      : h("div.scroll", { tabindex: "0", role: "region", "aria-label": "History as a table" }, h("table", null,
        h("thead", null, h("tr", null, ["Number", "Deployed", "Revision", "By", ""].map((one) => h("th", { scope: "col" }, one || h("span.unseen", null, "What can be done"))))),
        h("tbody", null, entries.map((entry, index) => h("tr", { "data-key": entry.id },
          h("td", null, String(entry.id)), h("td", null, time(entry.deployedAt)),
          h("td", null, h("span", { title: entry.revision ?? "" }, (entry.revisions ?? [entry.revision]).map(short).join(", "))),
          h("td", null, entry.initiatedBy?.username || (entry.initiatedBy?.automated ? "automated" : "")),
          h("td", null, index > 0 && line ? rollbackButton(line, path, entry) : null)))))),
  ];
}
