// What people may have done, by the API that the command line uses too. Where they may not, there are no buttons.

import { act, at, look, mayAct, query, remove } from "./ask.js";
import { ask } from "./dialog.js";
import { h } from "./draw.js";
import { count, isAtOnce, listed, moment, objectName, short } from "./words.js";

// As long as the API records it.
export const WHY = { name: "reason", label: "Why (for the record)", most: 1024 };

function buttons(...all) {
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
      what: [`The manifests of ${name} are applied to ${app.destination.cluster}, wave by wave, with their hooks.`],
      preview: planning(path, isRunning),
      fields: [
        { name: "revision", label: "Branch, tag or commit (empty: that of the Application)" },
        { name: "prune", label: "Delete objects that are no longer in the manifests", kind: "check" },
        { name: "dryRun", label: "Dry run: the cluster judges everything, and nothing is written", kind: "check" },
        someOf(resources),
        { name: "policy", label: "While another operation is under way", kind: "choice", value: "refuse", options: POLICIES },
        WHY,
      ],
      action: "Sync",
      run: ({ revision, resources: chosen, ...rest }) => act(`${path}/sync`, { ...(revision ? { revision } : {}), resources: chosen.map((one) => JSON.parse(one)), ...rest }),
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
      run: ({ reason }) => act(`${path}/terminate`, { reason }),
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

// Which of its objects it is about.
export const someOf = (resources) => ({
  name: "resources", label: "Only some of its objects, without hooks", kind: "several",
  options: resources.filter((one) => !one.hook).map((one) => [selectorOf(one), objectName(one)]),
});

// An object as the API selects it, as one text.
const selectorOf = ({ group = "", kind, namespace = "", name }) => JSON.stringify({ group, kind, namespace, name });

// Tells what a sync would do that is asked for like this. A revision is planned once for a question.
export function planning(path, isRunning) {
  const plans = new Map();
  return async (said) => {
    const { revision } = said;
    if (!plans.has(revision)) plans.set(revision, look(query(`${path}/plan`, { revision })));
    try {
      return planned(await plans.get(revision), said, isRunning);
    } catch (problem) {
      plans.delete(revision);
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
    isRunning ? h("p", null, `An operation is under way: ${POLICIES.find(([one]) => one === policy)[1]}.`) : null,
  ];
}

// What is deleted with an Application, in which order, and what stays.
async function applicationDeletion(path, { cascade }) {
  const { removesFile, steps, stays } = await look(`${path}/deletion${cascade ? `?cascade=${encodeURIComponent(cascade)}` : ""}`);
  const namesOf = (objects) => listed(objects.map(objectName));
  const waves = [];
  for (const step of steps) {
    const last = waves.at(-1);
    if (last && last[0].phase === step.phase && last[0].wave === step.wave) last.push(step);
    else waves.push([step]);
  }
  const when = { PreDelete: "Before anything is deleted", PostDelete: "When all is gone" };
  const line = (wave) => h("li", null, `${when[wave[0].phase] ?? `Wave ${wave[0].wave}`}: ${namesOf(wave)}${wave[0].hook ? ", as a hook" : ""}`);
  return [
    removesFile ? h("p", null, h("strong", null, "Its document is removed from the folder that is served."), " Whoever needs it again takes it from where it is kept.") : null,
    waves.length === 0 && stays.length === 0 ? h("p", null, "It has no objects that are known of.")
      : h("ol", null, waves.map(line), cascade === "orphan" ? h("li", null, `${count(stays.length, "object")}: left where they are.`) : null),
    stays.length > 0 && cascade !== "orphan" ? h("p", null, `These stay: ${namesOf(stays)}.`) : null,
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

// Of an operation. What waits says what would open it.
export function operationActions(operation, explanation) {
  if (operation.finishedAt) return null;
  const path = at.operation(operation.id);
  const awaited = explanation?.awaited ?? [];
  const asks = (part) => awaited.some((one) => one.why.includes(part) || one.what.includes(part));
  return buttons(
    asks("gate approval") && ask("Approve…", () => ({
      what: [`The wave of ${operation.app} that waits for approval begins: ${explanation.position}.`],
      fields: [WHY],
      action: "Approve",
      run: ({ reason }) => act(`${path}/approve`, { reason }),
    })),
    asks("needs confirmation") && ask("Confirm prunes…", () => ({
      what: ["These objects are deleted:", ...awaited.filter((one) => one.why.includes("confirmation")).map((one) => one.what)],
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

// Of one object of an operation. What is done well needs nothing; what was overruled may still be done after all.
export function taskActions(operation, one, name) {
  const isOverruled = ["Skip", "MarkDone"].includes(one.overridden?.what);
  const wave = operation.waves.find((wave) => wave.phase === one.syncPhase && wave.wave === one.wave);
  const isDone = wave?.state === "Passed" || (one.hookPhase === "Succeeded" && !isOverruled);
  if (!mayAct() || operation.finishedAt || operation.phase === "Terminating" || isDone) return null;
  const words = isOverruled ? ["Retry"] : one.hookPhase === "Running" ? ["Skip", "Mark as done"] : ["Skip", "Mark as done", "Retry"];
  const task = one.group ? `${one.kind}.${one.group}/${one.name}` : `${one.kind}/${one.name}`;
  return overrule(operation, words, name, { task, namespace: one.namespace, phase: one.syncPhase }, () => `wave ${one.syncPhase}/${one.wave}`);
}

// What of a wave is not done, nor passed over; and what of that has failed or was tried before.
function leftOf(operation, wave, tasks) {
  const key = (one) => `${one.group ?? ""}/${objectName(one)}`;
  const known = new Map(operation.resources.filter((one) => one.syncPhase === wave.phase && one.wave === wave.wave).map((one) => [key(one), one]));
  const all = tasks.length > 0 ? tasks : [...known.values()];
  const isLeft = (one) => !one || (one.hookPhase !== "Succeeded" && !["Skip", "MarkDone"].includes(one.overridden?.what));
  const isBad = (one) => ["Failed", "Error"].includes(one?.hookPhase) || ["Skip", "MarkDone"].includes(one?.overridden?.what);
  return {
    undone: all.filter((task) => isLeft(known.get(key(task)))).map(objectName),
    failed: all.filter((task) => isBad(known.get(key(task)))).map(objectName),
  };
}

// Of a wave of an operation: what is not done of it. `tasks` are those that its plan has.
export function waveActions(operation, wave, tasks) {
  // What runs only when the operation fails has nothing to overrule before.
  const isOver = ["Passed", "Skipped", "Stopped"].includes(wave.state) || (wave.phase === "SyncFail" && wave.state === "Pending");
  if (!mayAct() || operation.finishedAt || operation.phase === "Terminating" || isOver) return null;
  const hasFailed = wave.state === "Failed" || operation.resources.some((one) => one.syncPhase === wave.phase && one.wave === wave.wave && ["Failed", "Error"].includes(one.hookPhase));
  const name = `wave ${wave.phase}/${wave.wave}`;
  return overrule(operation, ["Skip", "Mark as done", hasFailed && "Retry"], `what is not done of ${name}`, { wave: `${wave.phase}/${wave.wave}` }, (word) => {
    const { undone, failed } = leftOf(operation, wave, tasks);
    const names = word === "Retry" && failed.length > 0 ? failed : undone;
    return `${name}, ${count(names.length, "object")}: ${listed(names)}`;
  });
}

// Of an ApplicationSet.
export function setActions(told, set, path) {
  const [rollout, teardown] = [told.rollout, told.teardown];
  const isDeleting = Boolean(teardown && !teardown.finishedAt);
  // What goes all at once waits for nobody.
  const mayBeHeld = isDeleting && !isAtOnce(teardown);
  const isRolling = Boolean(rollout && !rollout.finishedAt && !isDeleting);
  const what = isDeleting ? "deletion" : "rollout";
  const isPaused = (isDeleting ? teardown : rollout)?.paused;
  const step = rollout?.steps?.[(rollout?.step ?? 0) - 1];
  const left = leftToDo(rollout);
  const undone = undoneOf(rollout);
  const hasFailed = (rollout?.members ?? []).some((one) => one.step === String(rollout.step) && one.outcome === "Failed");
  return buttons(
    isRolling && step?.status === "Held" && ask("Approve…", () => ({
      what: [`Step ${rollout.step} (${step.selects}) may begin with its ${count(step.members, "Application")}, where approval is all that it waits for.`],
      fields: [WHY],
      action: "Approve",
      run: ({ reason }) => act(`${path}/approve`, { step: rollout.step, reason }),
    })),
    told.held && ask("Approve deletions…", () => ({
      what: heldDeletions(told.held),
      fields: [WHY],
      action: "Approve",
      run: ({ reason }) => act(`${path}/approve`, { deletions: told.held.token, reason }),
    }), true),
    (isRolling || mayBeHeld) && (isPaused
      ? ask("Resume…", () => ({
        what: [`The ${what} goes on.`],
        fields: [WHY],
        action: "Resume",
        run: ({ reason }) => act(`${path}/resume`, { reason }),
      }))
      : ask("Pause…", () => ({
        what: [`The ${what} begins nothing more. What is at work goes on.`],
        fields: [WHY],
        action: "Pause",
        run: ({ reason }) => act(`${path}/pause`, { reason }),
      }))),
    isRolling && rollout.step && step?.status !== "Held" && hasFailed && ask("Retry step…", () => ({
      what: [`Applications of step ${rollout.step} that are not done are brought to their targets once more.`, named(undone)],
      fields: [WHY],
      action: "Retry",
      run: ({ reason }) => act(`${path}/retry`, { step: rollout.step, reason }),
    })),
    isRolling && rollout.step && ask("Skip step…", () => ({
      what: [`The rollout goes on without the Applications of step ${rollout.step} that are not done. Operations of theirs that are under way are terminated first; what these have written by then stays.`, named(undone.filter((one) => one.outcome !== "Skipped"))],
      fields: [{ ...WHY, required: true }],
      action: "Skip",
      run: ({ reason }) => act(`${path}/skip`, { step: rollout.step, reason }),
    }), true),
    !isRolling && !isDeleting && rollout?.end && (rollout.end !== "Completed" || left.length > 0) && ask("Begin again…", () => ({
      what: [
        "The rollout that has ended begins again, by the steps and for the targets of now.",
        left.length > 0 ? `It has not brought ${left.length === 1 ? "this Application" : "these Applications"} to ${left.length === 1 ? "its target" : "their targets"}: ${applicationNames(left)}.` : "",
      ].filter(Boolean),
      fields: [WHY],
      action: "Begin again",
      run: ({ reason }) => act(`${path}/retry`, { reason }),
    })),
    ask("Refresh…", () => ({
      what: [`The generators of ${told.set} are asked now. Where that changes its Applications, they are changed.`],
      action: "Refresh",
      run: () => act(`${path}/refresh`),
    })),
    (isRolling || mayBeHeld) && ask("Terminate…", () => ({
      what: [`What is at work is stopped, and the ${what} ends. Applications stay as they are then.`, ...endedWith(isDeleting ? teardown : rollout, isDeleting)],
      fields: [WHY],
      action: "Terminate",
      run: ({ reason }) => act(`${path}/terminate`, { reason }),
    }), true),
    !isDeleting && ask("Delete…", () => ({
      what: [`${told.set} is deleted, and its Applications in this order, each with its objects, unless they are to stay:`],
      preview: (said) => deletion(path, said),
      fields: [{ name: "orphan", label: "Keep its Applications", kind: "check" }, WHY],
      action: "Delete",
      run: ({ orphan, reason }) => remove(query(path, { orphan: orphan ? "true" : null, reason })),
    }), true));
}

// The Applications of its steps that a rollout has not brought to their targets: skipped, failed, rolled back, not reached.
function leftToDo(rollout) {
  return (rollout?.members ?? []).filter((one) => one.step !== "-1" && (one.outcome || one.status !== "Healthy")).map((one) => one.application);
}

// Those of the step of now that are not done.
function undoneOf(rollout) {
  return (rollout?.members ?? []).filter((one) => one.step === String(rollout.step) && (one.status !== "Healthy" || (one.outcome && one.outcome !== "Settling")));
}

const named = (members) => `${count(members.length, "Application")}: ${listed(members.map((one) => one.application))}.`;

// Whose operations are stopped when it ends, and whom it does not come to.
function endedWith({ members }, isDeleting) {
  const isDone = (one) => ["Healthy", "Gone", "Left"].includes(one.status) || (one.outcome && one.outcome !== "Settling");
  const left = members.filter((one) => one.step !== "-1" && !isDone(one));
  const isAtWork = (one) => (isDeleting ? one.status === "Deleting" : ["Pending", "Progressing"].includes(one.status));
  const lines = [["At work", left.filter(isAtWork)], ["Not begun", left.filter((one) => !isAtWork(one))]];
  return lines.filter(([, all]) => all.length > 0).map(([words, all]) => `${words}: ${listed(all.map((one) => one.application))}.`);
}

// So many Applications are named.
const APPLICATIONS = 200;

const applicationNames = (all) => listed(all, APPLICATIONS);

// What is deleted that is held because it is too much at once.
function heldDeletions({ applications, keepObjects, members, atOnce }) {
  const kept = new Set(keepObjects);
  const gone = applications.filter((one) => !kept.has(one));
  return [
    `${applications.length} of its ${count(members, "Application")} are not generated any more, and no more than ${atOnce} may be deleted at once unless somebody approves it.`,
    gone.length > 0 ? `Deleted with ${gone.length === 1 ? "its" : "their"} objects: ${applicationNames(gone)}.` : "",
    keepObjects.length > 0 ? `Deleted, while ${keepObjects.length === 1 ? "its" : "their"} objects stay: ${applicationNames(keepObjects)}.` : "",
    "It is about these and no others: should something else be generated by then, nothing is deleted.",
  ].filter(Boolean);
}

async function deletion(path, { orphan }) {
  if (orphan) return h("p", null, "Its Applications stay, and nobody generates them any more.");
  const plan = await look(`${path}/deletion`);
  const of = (step) => plan.members.filter((one) => one.step === (step === null || step === undefined ? "-1" : String(step)));
  return [
    h("ol", null, plan.steps.filter((step) => step.members > 0).map((step) => h("li", null,
      `${step.step ? `Step ${step.step} (${step.selects})` : "Those of no step"}, ${step.maxUpdate ? `${step.maxUpdate} at once` : "all at once"}: ${of(step.step).map((one) => one.application).join(", ")}`))),
    plan.kept.map((kept) => h("p", null, `Kept: ${kept.what === "Objects" ? "the objects of " : ""}${kept.applications.join(", ")} (${kept.why})`)),
  ];
}

// What becomes of an Application that a rollout goes on without.
function withoutIt({ application, status, outcome }) {
  const what = `The rollout goes on without ${application}`;
  if (["Pending", "Progressing"].includes(status) && !outcome) return `${what}. Its operation that is under way is terminated first: what it has written by then stays, and nothing more is written.`;
  return `${what}, which stays as it is.`;
}

// Of one Application of a rollout or deletion.
export function memberActions(told, member, path) {
  const isDeleting = Boolean(told.teardown && !told.teardown.finishedAt);
  const isRolling = Boolean(told.rollout && !told.rollout.finishedAt && !isDeleting);
  const isDone = ["Healthy", "Gone", "Left", "Released"].includes(member.status) || (isDeleting && isAtOnce(told.teardown));
  // What has failed, was skipped or does not become Healthy can be tried again, until its step has passed.
  const isCurrent = isRolling && ["Held", "Rolling", "Failed"].includes(told.rollout.steps[(told.rollout.step ?? 0) - 1]?.status) && Number(member.step) >= told.rollout.step;
  const mayBeRetried = isCurrent && ["Failed", "Skipped", "Assumed", "Settling"].includes(member.outcome);
  if (!mayAct() || (isDone && !mayBeRetried) || member.step === "-1" || !(isRolling || isDeleting)) return null;
  const name = member.application;
  const skip = !isDone && ask("Skip…", () => ({
    title: `Skip ${name}`,
    what: [isDeleting ? `The deletion goes on without waiting for ${name}.` : withoutIt(member)],
    fields: [{ ...WHY, required: true }],
    action: "Skip",
    run: ({ reason }) => act(`${path}/skip`, { application: name, reason }),
  }));
  const retry = mayBeRetried && ask("Retry…", () => ({
    title: `Retry ${name}`,
    what: [`${name} is brought to its target once more.`],
    fields: [WHY],
    action: "Retry",
    run: ({ reason }) => act(`${path}/retry`, { application: name, reason }),
  }));
  for (const [word, button] of [["Skip", skip], ["Retry", retry]]) {
    if (!button) continue;
    button.dataset.do = `${word} ${name}`;
    button.setAttribute("aria-label", `${word} ${name}…`);
  }
  return h("span.actions.small", null, skip, retry);
}
