// Actions for ApplicationSets, their rollouts and deletions, and single Applications in a rollout or
// deletion.

import { post, get, isOperator, query, del } from "./api.js";
import { createDialogButton } from "./dialog.js";
import { h } from "./dom.js";
import { REASON_FIELD, createButtonGroup, renderManifestRemoval } from "./actions.js";
import { formatCount, isAtOnce, joinNames } from "./format.js";

// Returns the ID of the displayed rollout or deletion for use in a request. Another run may be in progress by
// the time the dialog is submitted.
function expectedRun({ rolloutId, deletion, deletionId }) {
  const run = deletion && !deletion.finishedAt ? deletionId : rolloutId;
  return run ? { run } : {};
}

// Creates the actions for an ApplicationSet.
export function renderSetActions(response, set, path) {
  const [rollout, deletion] = [response.rollout, response.deletion];
  const isDeleting = Boolean(deletion && !deletion.finishedAt);
  // If a deletion ended before the ApplicationSet was deleted, a user must restart it.
  const isDeletionUnfinished = Boolean(set?.metadata.deletionTimestamp) && !isDeleting && Boolean(deletion?.outcome) && deletion.outcome !== "Completed";
  const isPresent = !isDeleting && !set?.metadata.deletionTimestamp;
  // A deletion of all Applications at once never waits, so it cannot be paused.
  const mayBeHeld = isDeleting && !isAtOnce(deletion);
  const isRolling = Boolean(rollout && !rollout.finishedAt && !isDeleting);
  const runNoun = isDeleting ? "deletion" : "rollout";
  const isPaused = (isDeleting ? deletion : rollout)?.pausedBy;
  const step = rollout?.steps?.[(rollout?.step ?? 0) - 1];
  const unfinished = listUnfinished(rollout);
  const unfinishedOfStep = listUnfinishedInStep(rollout);
  // A step that waits only for other gates or a soak time needs no approval.
  const needsApproval = (response.explanation?.awaited ?? []).some((item) => item.subject === "gate approval");
  const run = expectedRun(response);
  const hasFailed = (rollout?.members ?? []).some((member) => member.step === String(rollout.step) && member.outcome === "Failed");
  return createButtonGroup(
    isRolling && step?.status === "Held" && needsApproval && createDialogButton("Approve…", () => ({
      description: [`Step ${rollout.step} (${step.selector}) with ${formatCount(step.members, "Application")} is approved. It starts when its other gates are open.`],
      fields: [REASON_FIELD],
      action: "Approve",
      run: ({ reason }) => post(`${path}/approve`, { step: rollout.step, ...run, reason }),
    })),
    response.heldDeletions && createDialogButton("Approve deletions…", () => ({
      description: describeHeldDeletions(response.heldDeletions),
      fields: [REASON_FIELD],
      action: "Approve",
      run: ({ reason }) => post(`${path}/approve`, { deletions: response.heldDeletions.token, reason }),
    }), true),
    (isRolling || mayBeHeld) && (isPaused
      ? createDialogButton("Resume…", () => ({
        description: [`The ${runNoun} continues.`],
        fields: [REASON_FIELD],
        action: "Resume",
        run: ({ reason }) => post(`${path}/resume`, { ...run, reason }),
      }))
      : createDialogButton("Pause…", () => ({
        description: [`The ${runNoun} starts nothing new. Work in progress continues.`],
        fields: [REASON_FIELD],
        action: "Pause",
        run: ({ reason }) => post(`${path}/pause`, { ...run, reason }),
      }))),
    isRolling && rollout.step && step?.status !== "Held" && hasFailed && createDialogButton("Retry step…", () => ({
      description: [`Unfinished Applications of step ${rollout.step} are synced to their targets again.`, listMembers(unfinishedOfStep)],
      fields: [REASON_FIELD],
      action: "Retry",
      run: ({ reason }) => post(`${path}/retry`, { step: rollout.step, ...run, reason }),
    })),
    isRolling && rollout.step && createDialogButton("Skip step…", () => ({
      description: [`The rollout continues without the unfinished Applications of step ${rollout.step}. Their running operations are terminated first; changes already written are kept.`, listMembers(unfinishedOfStep.filter((member) => member.outcome !== "Skipped"))],
      fields: [{ ...REASON_FIELD, required: true }],
      action: "Skip",
      run: ({ reason }) => post(`${path}/skip`, { step: rollout.step, ...run, reason }),
    }), true),
    isDeletionUnfinished && createDialogButton("Restart deletion…", () => ({
      description: [`The deletion of ${response.applicationSet} starts again: the remaining Applications are deleted in order, then the ApplicationSet.`, ...describeUnfinished(deletion, true)],
      fields: [REASON_FIELD],
      action: "Restart",
      run: ({ reason }) => post(`${path}/retry`, { reason }),
    }), true),
    !isRolling && isPresent && rollout?.outcome && (rollout.outcome !== "Completed" || unfinished.length > 0) && createDialogButton("Restart rollout…", () => ({
      description: [
        "The rollout starts again with the current steps and targets.",
        unfinished.length > 0 ? `${unfinished.length === 1 ? "This Application has" : "These Applications have"} not reached ${unfinished.length === 1 ? "its target" : "their targets"}: ${joinApplicationNames(unfinished)}.` : "",
      ].filter(Boolean),
      fields: [REASON_FIELD],
      action: "Restart",
      run: ({ reason }) => post(`${path}/retry`, { reason }),
    })),
    createDialogButton("Refresh…", () => ({
      description: [`The generators of ${response.applicationSet} run now. If their output has changed, the Applications are updated.`],
      action: "Refresh",
      run: () => post(`${path}/refresh`),
    })),
    (isRolling || mayBeHeld) && createDialogButton("Terminate…", () => ({
      description: [
        isDeleting ? "The deletion ends, and nothing more is deleted. Deletions in progress continue; the other Applications are kept."
          : "Running operations are stopped, and the rollout ends. Applications are left as they are.",
        ...describeUnfinished(isDeleting ? deletion : rollout, isDeleting),
      ],
      fields: [REASON_FIELD],
      action: "Terminate",
      run: ({ reason }) => post(`${path}/terminate`, { ...run, reason }),
    }), true),
    isPresent && createDialogButton("Delete…", () => ({
      description: [`${response.applicationSet} is deleted. Its Applications and their objects are deleted in this order, unless they are kept:`],
      preview: (values) => renderDeletionPreview(path, values),
      fields: [{ name: "orphan", label: "Keep the Applications", kind: "check" }, REASON_FIELD],
      action: "Delete",
      run: ({ orphan, reason }) => del(query(path, { orphan: orphan ? "true" : null, reason })),
    }), true));
}

// Lists the Applications that a rollout has not synced to their target revisions: skipped, failed, rolled back or not
// reached.
function listUnfinished(rollout) {
  return (rollout?.members ?? []).filter((member) => member.step !== "-1" && (member.outcome || member.status !== "Healthy")).map((member) => member.application);
}

// Lists the unfinished Applications of the current step.
function listUnfinishedInStep(rollout) {
  return (rollout?.members ?? []).filter((member) => member.step === String(rollout.step) && (member.status !== "Healthy" || (member.outcome && member.outcome !== "Settling")));
}

const listMembers = (members) => `${formatCount(members.length, "Application")}: ${joinNames(members.map((member) => member.application))}.`;

// Describes the Applications that are affected if the run ends: Applications in progress, and Applications
// that have not started yet.
function describeUnfinished({ members }, isDeleting) {
  const isDone = (member) => ["Healthy", "RolledBack", "Deleted", "Skipped"].includes(member.status) || (member.outcome && member.outcome !== "Settling");
  const remaining = members.filter((member) => member.step !== "-1" && !isDone(member));
  const isInProgress = (member) => (isDeleting ? member.status === "Deleting" : ["Pending", "Progressing"].includes(member.status));
  const lines = [["In progress", remaining.filter(isInProgress)], ["Not started", remaining.filter((member) => !isInProgress(member))]];
  return lines.filter(([, group]) => group.length > 0).map(([label, group]) => `${label}: ${joinNames(group.map((member) => member.application))}.`);
}

// Maximum number of Applications that are listed by name.
const NAMES_MAX = 200;

const joinApplicationNames = (all) => joinNames(all, NAMES_MAX);

// Describes the deletions that are held because their number exceeds the limit.
function describeHeldDeletions({ applications, applicationsKeepingObjects: orphaning, total, maximum }) {
  const keepingObjects = new Set(orphaning);
  const deletingObjects = applications.filter((name) => !keepingObjects.has(name));
  return [
    `${applications.length} of its ${formatCount(total, "Application")} are no longer generated. Deleting more than ${maximum} at once requires approval.`,
    deletingObjects.length > 0 ? `Deleted with ${deletingObjects.length === 1 ? "its" : "their"} objects: ${joinApplicationNames(deletingObjects)}.` : "",
    orphaning.length > 0 ? `Deleted without ${orphaning.length === 1 ? "its" : "their"} objects: ${joinApplicationNames(orphaning)}.` : "",
    "The approval covers exactly these Applications. If the generators return different Applications before the deletions start, nothing is deleted.",
  ].filter(Boolean);
}

async function renderDeletionPreview(path, { orphan }) {
  const plan = await get(`${path}/deletion`);
  const file = plan.removesFile ? renderManifestRemoval() : null;
  if (orphan) return [file, h("p", null, "Its Applications are kept and no longer generated.")];
  const membersOf = (step) => plan.members.filter((member) => member.step === (step === null || step === undefined ? "-1" : String(step)));
  return [
    file,
    h("ol", null, plan.steps.filter((step) => step.members > 0).map((step) => h("li", null,
      `${step.step ? `Step ${step.step} (${step.selector})` : "No step"}, ${step.maxUpdate ? `${step.maxUpdate} at once` : "all at once"}: ${membersOf(step.step).map((remainder) => remainder.application).join(", ")}`))),
    plan.remaining.map((member) => h("p", null, `Kept: ${member.kind === "Objects" ? "the objects of " : ""}${member.applications.join(", ")} (${member.reason})`)),
  ];
}

// Describes the effect of skipping an Application in a rollout.
function describeRolloutSkip({ application, status, outcome }) {
  const start = `The rollout continues without ${application}`;
  if (["Pending", "Progressing"].includes(status) && !outcome) return `${start}. Its running operation is terminated first; changes already written are kept.`;
  return `${start}, which is left as it is.`;
}

// Describes the effect of skipping an Application in a deletion.
function describeDeletionSkip({ application, status }) {
  const start = `The deletion continues without ${application}`;
  return status === "Deleting" ? `${start}. The deletion of the Application continues, but the deletion of the ApplicationSet does not wait for it.`
    : `${start}. The Application and its objects are kept, and the ApplicationSet is deleted without it.`;
}

// Creates the actions for one Application in a rollout or deletion.
export function renderMemberActions(response, member, path) {
  const isDeleting = Boolean(response.deletion && !response.deletion.finishedAt);
  const isRolling = Boolean(response.rollout && !response.rollout.finishedAt && !isDeleting);
  const isDone = ["Healthy", "RolledBack", "Deleted", "Skipped", "Released"].includes(member.status) || (isDeleting && isAtOnce(response.deletion));
  // Applications that failed, were skipped or aren't Healthy yet can be retried until their step has
  // completed.
  const isInCurrentStep = isRolling && ["Held", "Rolling", "Failed"].includes(response.rollout.steps[(response.rollout.step ?? 0) - 1]?.status) && Number(member.step) >= response.rollout.step;
  const mayBeRetried = isInCurrentStep && ["Failed", "Skipped", "AssumedHealthy", "Settling"].includes(member.outcome);
  if (!isOperator() || (isDone && !mayBeRetried) || member.step === "-1" || !(isRolling || isDeleting)) return null;
  const [name, run] = [member.application, expectedRun(response)];
  const skip = !isDone && createDialogButton("Skip…", () => ({
    title: `Skip ${name}`,
    description: [isDeleting ? describeDeletionSkip(member) : describeRolloutSkip(member)],
    fields: [{ ...REASON_FIELD, required: true }],
    action: "Skip",
    run: ({ reason }) => post(`${path}/skip`, { application: name, ...run, reason }),
  }));
  const retry = mayBeRetried && createDialogButton("Retry…", () => ({
    title: `Retry ${name}`,
    description: [`${name} is synced to its target again.`],
    fields: [REASON_FIELD],
    action: "Retry",
    run: ({ reason }) => post(`${path}/retry`, { application: name, ...run, reason }),
  }));
  for (const [word, button] of [["Skip", skip], ["Retry", retry]]) {
    if (!button) continue;
    button.dataset.do = `${word} ${name}`;
    button.setAttribute("aria-label", `${word} ${name}…`);
  }
  return h("span.actions.small", null, skip, retry);
}
