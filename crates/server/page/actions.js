// Action buttons for Applications and operations. Users without the operator role don't see any buttons.

import { post, apiPath, get, isOperator, query, del } from "./api.js";
import { createDialogButton } from "./dialog.js";
import { h } from "./dom.js";
import { formatCount, joinNames, formatTime, formatObjectName, shortenRevision } from "./format.js";

// The API rejects longer reasons.
export const REASON_FIELD = { name: "reason", label: "Reason (recorded)", maxLength: 1024 };

export function createButtonGroup(...candidates) {
  const visible = candidates.filter(Boolean);
  return isOperator() && visible.length > 0 ? h("div.actions", { role: "group", "aria-label": "Actions" }, visible) : null;
}

// Behavior of a sync that is requested while another operation is in progress.
const POLICIES = [
  ["refuse", "This sync is rejected"], ["queue", "This sync starts when the other operation has finished"],
  ["supersede", "The other operation is superseded if it is waiting or has failed and none of its hooks is running"],
];

// Creates the actions for an Application.
export function renderApplicationActions(app, path, resources) {
  const name = `${app.namespace}/${app.name}`;
  const isRunning = ["Running", "Terminating"].includes(app.operation?.phase);
  return createButtonGroup(
    !app.deleting && createDialogButton("Sync…", () => ({
      description: [`The manifests of ${name} are applied to ${app.destination.cluster}, wave by wave, with their hooks. If an approval is required, the sync is planned first and waits until the plan is approved.`],
      preview: createPlanPreview(path, isRunning, app.sources),
      fields: [
        ...createRevisionFields(app.sources),
        { name: "prune", label: "Delete objects that are no longer in the manifests", kind: "check" },
        { name: "dryRun", label: "Dry run: the API server validates everything, and nothing is written", kind: "check" },
        createObjectsField(resources),
        { name: "policy", label: "If another operation is in progress", kind: "choice", value: "refuse", options: POLICIES },
        REASON_FIELD,
      ],
      action: "Sync",
      run: ({ prune, dryRun, resources: selected, policy, reason, ...values }) => post(`${path}/sync`,
        { ...getRevisionParameters(app.sources, values), prune, dryRun, resources: selected.map((resource) => JSON.parse(resource)), policy, reason }),
    })),
    createDialogButton("Refresh…", () => ({
      description: [`The repository of ${name} is fetched, and the manifests are compared with the cluster. Nothing is written.`],
      fields: [{ name: "hard", label: "Hard refresh: render the manifests again", kind: "check" }],
      action: "Refresh",
      run: ({ hard }) => post(`${path}/refresh`, { hard }),
    })),
    isRunning && createDialogButton("Terminate…", () => ({
      description: [`The current operation of ${name} is terminated: running hooks are stopped, and later waves do not start.`],
      fields: [REASON_FIELD],
      action: "Terminate",
      // Specifies the operation, because another operation may be running by the time the dialog is
      // submitted.
      run: ({ reason }) => post(`${path}/terminate`, { ...(app.operation.id ? { operation: app.operation.id } : {}), reason }),
    }), true),
    !app.deleting && createDialogButton("Delete…", () => ({
      description: [`${name} is deleted. Its objects are deleted in reverse wave order, unless they are orphaned.`],
      preview: (values) => renderApplicationDeletion(path, values),
      fields: [{
        name: "cascade", label: "Objects", kind: "choice", value: "foreground",
        options: [["foreground", "Foreground: delete dependents first"], ["background", "Background: delete dependents later"], ["orphan", "Orphan: keep the objects"]],
      }, REASON_FIELD],
      action: "Delete",
      run: ({ cascade, reason }) => del(query(path, { cascade, reason })),
    }), true));
}

const REVISION = { name: "revision", label: "Branch, tag or commit (empty: the Application's targetRevision)" };

// Creates a revision field for each source.
export function createRevisionFields(sources) {
  if (sources.length <= 1) return [REVISION];
  return sources.map((source, index) => ({ name: `revision-${index}`, label: `Branch, tag or commit of source ${index + 1}, ${`${source.repoURL} ${source.path}`.trim()} (empty: the source's targetRevision)` }));
}

// Converts the values of the revision fields to API parameters.
export function getRevisionParameters(sources, values) {
  const revisions = createRevisionFields(sources).map(({ name }) => values[name] ?? "");
  if (!revisions.some(Boolean)) return {};
  return sources.length > 1 ? { revisions } : { revision: revisions[0] };
}

// Creates a field for selecting objects of the Application.
export const createObjectsField = (resources) => ({
  name: "resources", label: "Only selected objects, without hooks", kind: "several",
  options: resources.filter((resource) => !resource.hook).map((resource) => [encodeSelector(resource), formatObjectName(resource)]),
});

// Encodes an object's selector for the API as a string, which can be the value of a checkbox.
const encodeSelector = ({ group = "", kind, namespace = "", name }) => JSON.stringify({ group, kind, namespace, name });

// Returns a function that renders the preview of a sync. The plan of each revision is requested once per dialog.
export function createPlanPreview(path, isRunning, sources) {
  const plans = new Map();
  return async (values) => {
    const { revision, revisions } = getRevisionParameters(sources, values);
    const url = revisions ? `${path}/plan?${new URLSearchParams(revisions.map((value) => ["revisions", value]))}` : query(`${path}/plan`, { revision });
    if (!plans.has(url)) plans.set(url, get(url));
    try {
      return renderPlanSummary(await plans.get(url), values, isRunning);
    } catch (problem) {
      plans.delete(url);
      throw problem;
    }
  };
}

// Counts SyncFail tasks separately, because they run only after a failure. A sync of selected objects has no hooks.
function renderPlanSummary(plan, { prune, dryRun, resources, policy }, isRunning) {
  const selected = new Set(resources);
  const isSelected = (task) => selected.size === 0 || (!task.hook && selected.has(encodeSelector(task)));
  const failureTasks = selected.size > 0 ? 0 : plan.waves.filter((wave) => wave.phase === "SyncFail").flatMap((wave) => wave.tasks).length;
  const waves = plan.waves.filter((wave) => wave.phase !== "SyncFail" && wave.tasks.some(isSelected));
  const selectedTasks = waves.flatMap((wave) => wave.tasks).filter(isSelected);
  const missing = selected.size - new Set(selectedTasks.map(encodeSelector)).size;
  const countActions = (...actions) => selectedTasks.filter((task) => !task.hook && actions.includes(task.action)).length;
  const surplus = countActions("prune", "prune-skipped");
  const pruneText = surplus === 0 ? "nothing to prune" : prune ? `${surplus} to prune, except objects with Prune=false` : `${surplus} no longer in the manifests and kept`;
  return [
    selected.size > 0 ? h("p", null, `Only ${formatCount(selected.size, "selected object")}${missing > 0 ? `; this revision contains ${selected.size - missing}` : ""}.`) : null,
    h("p", null, `Preview: ${formatCount(waves.length, "wave")}, ${formatCount(selectedTasks.filter((task) => task.hook).length, "hook")}, ${countActions("create")} to create, ${countActions("apply", "replace")} to apply, ${pruneText}.`),
    failureTasks > 0 ? h("p.quiet", null, `If the sync fails: ${formatCount(failureTasks, "SyncFail task")}.`) : null,
    dryRun ? h("p.quiet", null, "Dry run: nothing is written.") : null,
    renderConflictPolicy({ policy }, isRunning),
  ];
}

function renderConflictPolicy({ policy }, isRunning) {
  return isRunning ? h("p", null, `Another operation is in progress: ${POLICIES.find(([key]) => key === policy)[1]}.`) : null;
}

// Warns that the deletion also removes the manifest.
export const renderManifestRemoval = () => h("p", null, h("strong", null, "Its manifest is removed from the apps folder."), " To restore it, use your own copy, for example from Git.");

// Renders an Application's objects in deletion order, and the objects that are kept.
async function renderApplicationDeletion(path, { cascade }) {
  const { removesFile, steps, remaining, warnings } = await get(`${path}/deletion${cascade ? `?cascade=${encodeURIComponent(cascade)}` : ""}`);
  const joinObjectNames = (objects) => joinNames(objects.map(formatObjectName));
  const unconfirmed = steps.filter((step) => step.needsConfirmation);
  const waves = [];
  for (const step of steps) {
    const last = waves.at(-1);
    if (last && last[0].phase === step.phase && last[0].wave === step.wave) last.push(step);
    else waves.push([step]);
  }
  const phaseLabels = { PreDelete: "Before anything is deleted", PostDelete: "After everything is deleted" };
  const renderWave = (wave) => h("li", null, `${phaseLabels[wave[0].phase] ?? `Wave ${wave[0].wave}`}: ${joinObjectNames(wave)}${wave[0].isHook ? " (hook)" : ""}`);
  return [
    removesFile ? renderManifestRemoval() : null,
    waves.length === 0 && remaining.length === 0 ? h("p", null, "The Application has no known objects.")
      : h("ol", null, waves.map(renderWave), cascade === "orphan" ? h("li", null, `${formatCount(remaining.length, "object")}: kept.`) : null),
    remaining.length > 0 && cascade !== "orphan" ? h("p", null, `Kept: ${joinObjectNames(remaining)}.`) : null,
    unconfirmed.length > 0 ? h("p", null, `Deleted after confirmation: ${joinObjectNames(unconfirmed)}.`) : null,
    warnings.map(({ message }) => h("p.problem", null, message)),
  ];
}

export function createRollbackButton(app, path, entry) {
  // The service rejects rollbacks of Applications with automated sync.
  if (!isOperator() || app.deleting || app.policy !== "manual") return null;
  const button = createDialogButton("Roll back…", () => ({
    title: `Roll back to ${shortenRevision(entry.revision)}`,
    description: [
      `${app.namespace}/${app.name} is rolled back to ${shortenRevision(entry.revision)}, deployed at ${formatTime(entry.deployedAt)}, without hooks.`,
    ],
    preview: createRollbackPreview(path, entry),
    fields: [{ name: "prune", label: "Delete objects that are not in that revision", kind: "check" }, REASON_FIELD],
    action: "Roll back",
    run: ({ prune, reason }) => post(`${path}/rollback`, { id: entry.id, prune, reason }),
  }));
  button.dataset.do = `rollback ${entry.id}`;
  button.setAttribute("aria-label", `Roll back to ${shortenRevision(entry.revision)} of ${formatTime(entry.deployedAt)}…`);
  return button;
}

// Returns a function that renders the preview of a rollback. There is no preview for several sources, because
// a plan has a single revision.
function createRollbackPreview(path, { revision, revisions = [] }) {
  if (!revision || revisions.length > 1) return undefined;
  const plan = get(query(`${path}/plan`, { revision }));
  // The error is handled below, where the plan is awaited. This handler prevents an unhandled rejection.
  plan.catch(() => undefined);
  return async ({ prune }) => {
    const tasks = (await plan).waves.filter((wave) => wave.phase !== "SyncFail").flatMap((wave) => wave.tasks).filter((task) => !task.hook);
    const renderObjects = (label, ...actions) => {
      const names = tasks.filter((task) => actions.includes(task.action)).map(formatObjectName);
      return names.length > 0 ? h("p", null, `${label}: ${joinNames(names)}.`) : null;
    };
    return [
      h("p", null, "Preview with the current sources:"), renderObjects("Created", "create"), renderObjects("Applied", "apply", "replace"),
      renderObjects(prune ? "Deleted, except objects with Prune=false" : "Not in that revision, kept", "prune", "prune-skipped"),
    ];
  };
}

// Returns the name of a wave in the format of `explain`. SyncFail waves are counted separately.
function formatWaveName({ waves }, index) {
  const { phase, wave } = waves[index];
  const isSameKind = (other) => (other.phase === "SyncFail") === (phase === "SyncFail");
  return `wave ${waves.slice(0, index + 1).filter(isSameKind).length} of ${waves.filter(isSameKind).length} (${phase}, wave ${wave})`;
}

// Creates the actions for an operation. The available decisions depend on what the operation is waiting for.
export function renderOperationActions(operation, explanation) {
  if (operation.finishedAt) return null;
  const path = apiPath.operation(operation.id);
  const awaited = explanation?.awaited ?? [];
  const isAwaiting = (text) => awaited.some((item) => item.reason.includes(text) || item.subject.includes(text));
  const heldIndex = operation.waves.findIndex((wave) => wave.state === "Held");
  return createButtonGroup(
    heldIndex >= 0 && isAwaiting("gate approval") && createDialogButton("Approve…", () => ({
      description: [`The wave of ${operation.app} that is waiting for approval starts: ${formatWaveName(operation, heldIndex)}.`],
      fields: [REASON_FIELD],
      action: "Approve",
      // Specifies the wave, because another wave may be waiting by the time the dialog is submitted.
      run: ({ reason }) => post(`${path}/approve`, { wave: heldIndex + 1, reason }),
    })),
    isAwaiting("needs confirmation") && createDialogButton("Confirm prunes…", () => ({
      description: ["These objects are deleted:", ...awaited.filter((item) => item.reason.includes("confirmation"))
        .map((item) => (item.reason.includes("needs confirmation") ? item.subject : `${item.subject}, ${item.reason}`))],
      fields: [REASON_FIELD],
      action: "Confirm",
      run: ({ reason }) => post(`${path}/confirm`, { reason }),
    }), true),
    operation.pausedBy
      ? createDialogButton("Resume…", () => ({
        description: [`The operation of ${operation.app}, paused by ${operation.pausedBy}, continues. Its deadlines run again.`],
        fields: [REASON_FIELD],
        action: "Resume",
        run: ({ reason }) => post(`${path}/unpause`, { reason }),
      }))
      : createDialogButton("Pause…", () => ({
        description: [`The operation of ${operation.app} is paused at its next safe point. Running hooks continue; deadlines stop.`],
        fields: [REASON_FIELD],
        action: "Pause",
        run: ({ reason }) => post(`${path}/pause`, { reason }),
      })),
    createDialogButton("Terminate…", () => ({
      description: [`The operation of ${operation.app} is terminated: running hooks are stopped, and later waves do not start.`],
      fields: [REASON_FIELD],
      action: "Terminate",
      run: ({ reason }) => post(`${path}/terminate`, { reason }),
    }), true));
}

// Kinds of overrides, with their API routes.
const OVERRIDES = [
  { word: "Skip", route: "skip", required: true, danger: true, description: (name) => `The operation continues without ${name}. Existing objects are kept; a running hook is stopped first.` },
  { word: "Mark as done", route: "mark-done", required: true, danger: true, description: (name) => `Counted as done, regardless of the state in the cluster: ${name}.` },
  { word: "Retry", route: "retry", required: false, danger: false, description: (name) => `Retried immediately if failed or waiting for the next attempt: ${name}. A hook runs again.` },
];

// Creates the buttons for overrides. `describeScope` describes the affected objects for a kind of override.
function renderOverrideButtons(operation, allowed, name, body, describeScope) {
  const path = apiPath.operation(operation.id);
  const buttons = OVERRIDES.filter(({ word }) => allowed.includes(word)).map(({ word, route, required, danger, description: describe }) => {
    const button = createDialogButton(`${word}…`, () => ({
      title: `${word}: ${name}`,
      description: [describe(name), `Application ${operation.app}, ${describeScope(word)}.`],
      fields: [{ ...REASON_FIELD, required }],
      action: word,
      run: ({ reason }) => post(`${path}/${route}`, { ...body, reason }),
    }), danger);
    button.dataset.do = `${word} ${name}`;
    button.setAttribute("aria-label", `${word} ${name}…`);
    return button;
  });
  return h("span.actions.small", null, buttons);
}

const isFailed = (resource) => ["Failed", "Error"].includes(resource?.hookPhase) || resource?.status === "SyncFailed";

// Creates the overrides for one object of an operation. Successful objects can't be overridden, overridden
// objects can be retried, and objects that failed or whose last call failed can be retried immediately.
export function renderTaskActions(operation, resource, name, isAwaitingCall) {
  const isOverridden = ["Skip", "MarkDone"].includes(resource.override?.action);
  const wave = operation.waves.find((wave) => wave.phase === resource.syncPhase && wave.wave === resource.wave);
  const isDone = wave?.state === "Passed" || (resource.hookPhase === "Succeeded" && !isOverridden);
  if (!isOperator() || operation.finishedAt || operation.phase === "Terminating" || isDone) return null;
  const words = isOverridden ? ["Retry"] : ["Skip", "Mark as done", (isFailed(resource) || isAwaitingCall) && "Retry"];
  const task = resource.group ? `${resource.kind}.${resource.group}/${resource.name}` : `${resource.kind}/${resource.name}`;
  return renderOverrideButtons(operation, words, name, { task, namespace: resource.namespace, phase: resource.syncPhase }, () => `wave ${resource.syncPhase}/${resource.wave}`);
}

// Returns true if an operation performs an action for a task of its plan.
export const hasAction = (task) => !["unchanged", "prune-skipped"].includes(task.action);

// Returns the names of a wave's unfinished objects, and of its failed or overridden objects.
function findUnfinished(operation, wave, tasks) {
  const getKey = (object) => `${object.group ?? ""}/${formatObjectName(object)}`;
  const results = new Map(operation.resources.filter((resource) => resource.syncPhase === wave.phase && resource.wave === wave.wave).map((resource) => [getKey(resource), resource]));
  const objects = tasks.length > 0 ? tasks.filter(hasAction) : [...results.values()];
  const isUnfinished = (resource) => !resource || (resource.hookPhase !== "Succeeded" && !["Skip", "MarkDone"].includes(resource.override?.action));
  const isBad = (resource) => ["Failed", "Error"].includes(resource?.hookPhase) || ["Skip", "MarkDone"].includes(resource?.override?.action);
  return {
    undone: objects.filter((task) => isUnfinished(results.get(getKey(task)))).map(formatObjectName),
    failed: objects.filter((task) => isBad(results.get(getKey(task)))).map(formatObjectName),
  };
}

// Returns true if the tasks of a wave cannot be overridden: the wave has ended, or is a SyncFail wave and
// nothing has failed.
export function isWaveClosed(wave) {
  return ["Passed", "Skipped", "Stopped"].includes(wave.state) || (wave.phase === "SyncFail" && wave.state === "Pending");
}

// Creates the overrides for a wave's unfinished objects. `tasks` are the wave's tasks in the plan.
export function renderWaveActions(operation, wave, tasks) {
  if (!isOperator() || operation.finishedAt || operation.phase === "Terminating" || isWaveClosed(wave)) return null;
  const hasFailed = wave.state === "Failed" || operation.resources.some((resource) => resource.syncPhase === wave.phase && resource.wave === wave.wave && ["Failed", "Error"].includes(resource.hookPhase));
  const name = `wave ${wave.phase}/${wave.wave}`;
  return renderOverrideButtons(operation, ["Skip", "Mark as done", hasFailed && "Retry"], `unfinished tasks of ${name}`, { wave: `${wave.phase}/${wave.wave}` }, (word) => {
    const { undone, failed } = findUnfinished(operation, wave, tasks);
    const names = word === "Retry" && failed.length > 0 ? failed : undone;
    return `${name}, ${formatCount(names.length, "object")}: ${joinNames(names)}`;
  });
}
