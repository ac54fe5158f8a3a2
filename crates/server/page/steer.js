// What people may have done, by the API that the command line uses too. Where they may not, there are no buttons.

import { act, at, look, mayAct, query, remove } from "./ask.js";
import { ask } from "./dialog.js";
import { h } from "./draw.js";
import { count, listed, moment, objectName, short } from "./words.js";

// As long as the API records it.
export const WHY = { name: "reason", label: "Why (for the record)", most: 1024 };

export function buttons(...all) {
  const shown = all.filter(Boolean);
  return mayAct() && shown.length > 0 ? h("div.actions", { role: "group", "aria-label": "What can be done" }, shown) : null;
}

// What becomes of a sync while another operation is under way.
const POLICIES = [
  ["refuse", "This one is refused"], ["queue", "This one begins when that one is over"],
  ["supersede", "That one is ended for this one, where it waits or has failed and none of its hooks runs"],
];

// Of an Application, and its objects.
export function applicationActions(app, path, resources) {
  const name = `${app.namespace}/${app.name}`;
  const isRunning = ["Running", "Terminating"].includes(app.operation?.phase);
  return buttons(
    !app.deleting && ask("Sync…", () => ({
      what: [`The manifests of ${name} are applied to ${app.destination.cluster}, wave by wave, with their hooks. Where an approval is asked for, that is planned first, and waits until somebody approves the plan.`],
      preview: planning(path, isRunning, app.sources),
      fields: [
        ...revisionsOf(app.sources),
        { name: "prune", label: "Delete objects that are no longer in the manifests", kind: "check" },
        { name: "dryRun", label: "Dry run: the cluster judges everything, and nothing is written", kind: "check" },
        someOf(resources),
        { name: "policy", label: "While another operation is under way", kind: "choice", value: "refuse", options: POLICIES },
        WHY,
      ],
      action: "Sync",
      run: ({ prune, dryRun, resources: chosen, policy, reason, ...said }) => act(`${path}/sync`,
        { ...revised(app.sources, said), prune, dryRun, resources: chosen.map((one) => JSON.parse(one)), policy, reason }),
    })),
    ask("Refresh…", () => ({
      what: [`The repository of ${name} is looked at, and its objects are compared. Nothing is written.`],
      fields: [{ name: "hard", label: "Read the manifests anew as well", kind: "check" }],
      action: "Refresh",
      run: ({ hard }) => act(`${path}/refresh`, { hard }),
    })),
    isRunning && ask("Terminate…", () => ({
      what: [`The operation of ${name} that is under way ends: hooks that run are stopped, and later waves do not begin.`],
      fields: [WHY],
      action: "Terminate",
      // Another one may be under way by then.
      run: ({ reason }) => act(`${path}/terminate`, { ...(app.operation.id ? { operation: app.operation.id } : {}), reason }),
    }), true),
    !app.deleting && ask("Delete…", () => ({
      what: [`${name} is deleted, and its objects in the reverse order of its waves, unless they are to stay.`],
      preview: (said) => applicationDeletion(path, said),
      fields: [{
        name: "cascade", label: "What becomes of its objects", kind: "choice", value: "foreground",
        options: [["foreground", "They are deleted, each after what it owns"], ["background", "They are deleted, each before what it owns"], ["orphan", "They stay"]],
      }, WHY],
      action: "Delete",
      run: ({ cascade, reason }) => remove(query(path, { cascade, reason })),
    }), true));
}

const REVISION = { name: "revision", label: "Branch, tag or commit (empty: that of the Application)" };

// Which revision of its source, or which of each of its sources.
export function revisionsOf(sources) {
  if (sources.length <= 1) return [REVISION];
  return sources.map((one, index) => ({ name: `revision-${index}`, label: `Branch, tag or commit of source ${index + 1}, ${`${one.repoURL} ${one.path}`.trim()} (empty: its own)` }));
}

// What was said of them, as the API takes it.
export function revised(sources, said) {
  const revisions = revisionsOf(sources).map(({ name }) => said[name] ?? "");
  if (!revisions.some(Boolean)) return {};
  return sources.length > 1 ? { revisions } : { revision: revisions[0] };
}

// Which of its objects it is about.
export const someOf = (resources) => ({
  name: "resources", label: "Only some of its objects, without hooks", kind: "several",
  options: resources.filter((one) => !one.hook).map((one) => [selectorOf(one), objectName(one)]),
});

// An object as the API selects it, as one text.
const selectorOf = ({ group = "", kind, namespace = "", name }) => JSON.stringify({ group, kind, namespace, name });

// Tells what a sync would do that is asked for like this. A revision is planned once for a question.
export function planning(path, isRunning, sources) {
  const plans = new Map();
  return async (said) => {
    const { revision, revisions } = revised(sources, said);
    const address = revisions ? `${path}/plan?${new URLSearchParams(revisions.map((one) => ["revisions", one]))}` : query(`${path}/plan`, { revision });
    if (!plans.has(address)) plans.set(address, look(address));
    try {
      return planned(await plans.get(address), said, isRunning);
    } catch (problem) {
      plans.delete(address);
      throw problem;
    }
  };
}

// What runs only when it fails is counted apart. What is chosen is synced without hooks.
function planned(plan, { prune, dryRun, resources, policy }, isRunning) {
  const chosen = new Set(resources);
  const isMeant = (task) => chosen.size === 0 || (!task.hook && chosen.has(selectorOf(task)));
  const rescue = chosen.size > 0 ? 0 : plan.waves.filter((wave) => wave.phase === "SyncFail").flatMap((wave) => wave.tasks).length;
  const waves = plan.waves.filter((wave) => wave.phase !== "SyncFail" && wave.tasks.some(isMeant));
  const all = waves.flatMap((wave) => wave.tasks).filter(isMeant);
  const missing = chosen.size - new Set(all.map(selectorOf)).size;
  const of = (...actions) => all.filter((task) => !task.hook && actions.includes(task.action)).length;
  const surplus = of("prune", "prune-skipped");
  const gone = surplus === 0 ? "nothing to prune" : prune ? `${surplus} to prune, but for what asks to stay` : `${surplus} no longer in the manifests, which ${surplus === 1 ? "stays" : "stay"}`;
  return [
    chosen.size > 0 ? h("p", null, `Nothing but ${count(chosen.size, "chosen object")}${missing > 0 ? `, of which this revision has ${chosen.size - missing}` : ""}.`) : null,
    h("p", null, `As things stand: ${count(waves.length, "wave")}, ${count(all.filter((task) => task.hook).length, "hook")}, ${of("create")} to create, ${of("apply", "replace")} to apply, ${gone}.`),
    rescue > 0 ? h("p.quiet", null, `Where it fails: ${count(rescue, "task")} of phase SyncFail.`) : null,
    dryRun ? h("p.quiet", null, "Nothing of that is written.") : null,
    underWay({ policy }, isRunning),
  ];
}

function underWay({ policy }, isRunning) {
  return isRunning ? h("p", null, `An operation is under way: ${POLICIES.find(([one]) => one === policy)[1]}.`) : null;
}

// That a deletion takes what is written down with it.
export const fileGoes = () => h("p", null, h("strong", null, "Its document is removed from the folder that is served."), " Whoever needs it again takes it from where it is kept.");

// What is deleted with an Application, in which order, and what stays.
async function applicationDeletion(path, { cascade }) {
  const { removesFile, steps, stays, warnings } = await look(`${path}/deletion${cascade ? `?cascade=${encodeURIComponent(cascade)}` : ""}`);
  const namesOf = (objects) => listed(objects.map(objectName));
  const unconfirmed = steps.filter((one) => one.needsConfirmation);
  const waves = [];
  for (const step of steps) {
    const last = waves.at(-1);
    if (last && last[0].phase === step.phase && last[0].wave === step.wave) last.push(step);
    else waves.push([step]);
  }
  const when = { PreDelete: "Before anything is deleted", PostDelete: "When all is gone" };
  const line = (wave) => h("li", null, `${when[wave[0].phase] ?? `Wave ${wave[0].wave}`}: ${namesOf(wave)}${wave[0].hook ? ", as a hook" : ""}`);
  return [
    removesFile ? fileGoes() : null,
    waves.length === 0 && stays.length === 0 ? h("p", null, "It has no objects that are known of.")
      : h("ol", null, waves.map(line), cascade === "orphan" ? h("li", null, `${count(stays.length, "object")}: left where they are.`) : null),
    stays.length > 0 && cascade !== "orphan" ? h("p", null, `These stay: ${namesOf(stays)}.`) : null,
    unconfirmed.length > 0 ? h("p", null, `These go when that has been confirmed: ${namesOf(unconfirmed)}.`) : null,
    warnings.map(({ message }) => h("p.problem", null, message)),
  ];
}

export function rollbackButton(app, path, entry) {
  // Where it is synced by itself the service refuses that.
  if (!mayAct() || app.deleting || app.policy !== "manual") return null;
  const button = ask("Roll back…", () => ({
    title: `Roll back to ${short(entry.revision)}`,
    what: [
      `${app.namespace}/${app.name} goes back to ${short(entry.revision)}, deployed at ${moment(entry.deployedAt)}, without hooks.`,
    ],
    preview: goingBack(path, entry),
    fields: [{ name: "prune", label: "Delete objects that were not there then", kind: "check" }, WHY],
    action: "Roll back",
    run: ({ prune, reason }) => act(`${path}/rollback`, { id: entry.id, prune, reason }),
  }));
  button.dataset.do = `rollback ${entry.id}`;
  button.setAttribute("aria-label", `Roll back to ${short(entry.revision)} of ${moment(entry.deployedAt)}…`);
  return button;
}

// What going back would write, of a revision that has to be asked for. Of several sources the plan of each would be of another one.
function goingBack(path, { revision, revisions = [] }) {
  if (!revision || revisions.length > 1) return undefined;
  const plan = look(query(`${path}/plan`, { revision }));
  // It is awaited below.
  plan.catch(() => undefined);
  return async ({ prune }) => {
    const tasks = (await plan).waves.filter((wave) => wave.phase !== "SyncFail").flatMap((wave) => wave.tasks).filter((task) => !task.hook);
    const line = (what, ...actions) => {
      const names = tasks.filter((task) => actions.includes(task.action)).map(objectName);
      return names.length > 0 ? h("p", null, `${what}: ${listed(names)}.`) : null;
    };
    return [
      h("p", null, "As things stand, by the sources of now:"), line("Created", "create"), line("Applied", "apply", "replace"),
      line(prune ? "Deleted, but for what asks to stay" : "Not there then, and stays", "prune", "prune-skipped"),
    ];
  };
}

// A wave by its place, as explanations name it: those of a failure are counted by themselves.
function waveName({ waves }, index) {
  const { phase, wave } = waves[index];
  const isAlike = (one) => (one.phase === "SyncFail") === (phase === "SyncFail");
  return `wave ${waves.slice(0, index + 1).filter(isAlike).length} of ${waves.filter(isAlike).length} (${phase}, wave ${wave})`;
}

// Of an operation. What waits says what would open it.
export function operationActions(operation, explanation) {
  if (operation.finishedAt) return null;
  const path = at.operation(operation.id);
  const awaited = explanation?.awaited ?? [];
  const asks = (part) => awaited.some((one) => one.why.includes(part) || one.what.includes(part));
  const held = operation.waves.findIndex((wave) => wave.state === "Held");
  return buttons(
    held >= 0 && asks("gate approval") && ask("Approve…", () => ({
      what: [`The wave of ${operation.app} that waits for approval begins: ${waveName(operation, held)}.`],
      fields: [WHY],
      action: "Approve",
      // Another one may wait by then.
      run: ({ reason }) => act(`${path}/approve`, { wave: held + 1, reason }),
    })),
    asks("needs confirmation") && ask("Confirm prunes…", () => ({
      what: ["These objects are deleted:", ...awaited.filter((one) => one.why.includes("confirmation"))
        .map((one) => (one.why.includes("needs confirmation") ? one.what : `${one.what}, ${one.why}`))],
      fields: [WHY],
      action: "Confirm",
      run: ({ reason }) => act(`${path}/confirm`, { reason }),
    }), true),
    operation.pausedBy
      ? ask("Continue…", () => ({
        what: [`${operation.app} goes on where ${operation.pausedBy} has held it. Deadlines run again.`],
        fields: [WHY],
        action: "Continue",
        run: ({ reason }) => act(`${path}/unpause`, { reason }),
      }))
      : ask("Pause…", () => ({
        what: [`${operation.app} is held at its next safe point. What runs already goes on; deadlines stand still.`],
        fields: [WHY],
        action: "Pause",
        run: ({ reason }) => act(`${path}/pause`, { reason }),
      })),
    ask("Terminate…", () => ({
      what: [`The operation of ${operation.app} ends: hooks that run are stopped, and later waves do not begin.`],
      fields: [WHY],
      action: "Terminate",
      run: ({ reason }) => act(`${path}/terminate`, { reason }),
    }), true));
}

// What the API is asked for, in each of the three ways to overrule an operation.
const OVERRULE = [
  { word: "Skip", route: "skip", required: true, danger: true, what: (name) => `The operation goes on without ${name}. What is there of it stays, but a hook that runs is stopped first.` },
  { word: "Mark as done", route: "mark-done", required: true, danger: true, what: (name) => `${name} counts as done, whatever the cluster says of it.` },
  { word: "Retry", route: "retry", required: false, danger: false, what: (name) => `What failed of ${name}, or waits for its next try, is tried again at once. A hook runs anew.` },
];

// `about` says which objects it is about, for each of the ways.
function overrule(operation, words, name, body, about) {
  const path = at.operation(operation.id);
  const all = OVERRULE.filter(({ word }) => words.includes(word)).map(({ word, route, required, danger, what }) => {
    const button = ask(`${word}…`, () => ({
      title: `${word}: ${name}`,
      what: [what(name), `Application ${operation.app}, ${about(word)}.`],
      fields: [{ ...WHY, required }],
      action: word,
      run: ({ reason }) => act(`${path}/${route}`, { ...body, reason }),
    }), danger);
    button.dataset.do = `${word} ${name}`;
    button.setAttribute("aria-label", `${word} ${name}…`);
    return button;
  });
  return h("span.actions.small", null, all);
}

const isFailed = (one) => ["Failed", "Error"].includes(one?.hookPhase) || one?.status === "SyncFailed";

// Of one object of an operation. What is done well needs nothing; what was overruled may still be done after all; and what has
// failed, or awaits the next try of a call, is tried at once.
export function taskActions(operation, one, name, awaitsCall) {
  const isOverruled = ["Skip", "MarkDone"].includes(one.overridden?.what);
  const wave = operation.waves.find((wave) => wave.phase === one.syncPhase && wave.wave === one.wave);
  const isDone = wave?.state === "Passed" || (one.hookPhase === "Succeeded" && !isOverruled);
  if (!mayAct() || operation.finishedAt || operation.phase === "Terminating" || isDone) return null;
  const words = isOverruled ? ["Retry"] : ["Skip", "Mark as done", (isFailed(one) || awaitsCall) && "Retry"];
  const task = one.group ? `${one.kind}.${one.group}/${one.name}` : `${one.kind}/${one.name}`;
  return overrule(operation, words, name, { task, namespace: one.namespace, phase: one.syncPhase }, () => `wave ${one.syncPhase}/${one.wave}`);
}

// Whether an operation does anything about a task of its plan.
export const isTouched = (task) => !["unchanged", "prune-skipped"].includes(task.action);

// What of a wave is not done, nor passed over; and what of that has failed or was tried before.
function leftOf(operation, wave, tasks) {
  const key = (one) => `${one.group ?? ""}/${objectName(one)}`;
  const known = new Map(operation.resources.filter((one) => one.syncPhase === wave.phase && one.wave === wave.wave).map((one) => [key(one), one]));
  const all = tasks.length > 0 ? tasks.filter(isTouched) : [...known.values()];
  const isLeft = (one) => !one || (one.hookPhase !== "Succeeded" && !["Skip", "MarkDone"].includes(one.overridden?.what));
  const isBad = (one) => ["Failed", "Error"].includes(one?.hookPhase) || ["Skip", "MarkDone"].includes(one?.overridden?.what);
  return {
    undone: all.filter((task) => isLeft(known.get(key(task)))).map(objectName),
    failed: all.filter((task) => isBad(known.get(key(task)))).map(objectName),
  };
}

// Whether nothing of a wave can be overruled: it is over, or runs only when the operation fails, and that has not failed.
export function isBeyond(wave) {
  return ["Passed", "Skipped", "Stopped"].includes(wave.state) || (wave.phase === "SyncFail" && wave.state === "Pending");
}

// Of a wave of an operation: what is not done of it. `tasks` are those that its plan has.
export function waveActions(operation, wave, tasks) {
  if (!mayAct() || operation.finishedAt || operation.phase === "Terminating" || isBeyond(wave)) return null;
  const hasFailed = wave.state === "Failed" || operation.resources.some((one) => one.syncPhase === wave.phase && one.wave === wave.wave && ["Failed", "Error"].includes(one.hookPhase));
  const name = `wave ${wave.phase}/${wave.wave}`;
  return overrule(operation, ["Skip", "Mark as done", hasFailed && "Retry"], `what is not done of ${name}`, { wave: `${wave.phase}/${wave.wave}` }, (word) => {
    const { undone, failed } = leftOf(operation, wave, tasks);
    const names = word === "Retry" && failed.length > 0 ? failed : undone;
    return `${name}, ${count(names.length, "object")}: ${listed(names)}`;
  });
}
