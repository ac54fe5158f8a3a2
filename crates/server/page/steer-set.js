// What people may have done with an ApplicationSet, its rollout and its deletion, and with one Application of those.

import { act, look, mayAct, query, remove } from "./ask.js";
import { ask } from "./dialog.js";
import { h } from "./draw.js";
import { WHY, buttons, fileGoes } from "./steer.js";
import { count, isAtOnce, listed } from "./words.js";

// Which rollout or deletion is meant: another one may be at work by the time that somebody has answered a question.
function runOf({ rolloutId, teardown, teardownId }) {
  const run = teardown && !teardown.finishedAt ? teardownId : rolloutId;
  return run ? { run } : {};
}

// Of an ApplicationSet.
export function setActions(told, set, path) {
  const [rollout, teardown] = [told.rollout, told.teardown];
  const isDeleting = Boolean(teardown && !teardown.finishedAt);
  // A deletion that has ended before its set is gone waits for a person.
  const isLeft = Boolean(set?.metadata.deletionTimestamp) && !isDeleting && Boolean(teardown?.end) && teardown.end !== "Completed";
  const isThere = !isDeleting && !set?.metadata.deletionTimestamp;
  // What goes all at once waits for nobody.
  const mayBeHeld = isDeleting && !isAtOnce(teardown);
  const isRolling = Boolean(rollout && !rollout.finishedAt && !isDeleting);
  const what = isDeleting ? "deletion" : "rollout";
  const isPaused = (isDeleting ? teardown : rollout)?.paused;
  const step = rollout?.steps?.[(rollout?.step ?? 0) - 1];
  const left = leftToDo(rollout);
  const undone = undoneOf(rollout);
  // A step that is held by its gates or a soak alone waits for nobody.
  const isForPeople = (told.explanation?.awaited ?? []).some((one) => one.what === "gate approval");
  const run = runOf(told);
  const hasFailed = (rollout?.members ?? []).some((one) => one.step === String(rollout.step) && one.outcome === "Failed");
  return buttons(
    isRolling && step?.status === "Held" && isForPeople && ask("Approve…", () => ({
      what: [`Step ${rollout.step} (${step.selects}) may begin with its ${count(step.members, "Application")}, where approval is all that it waits for.`],
      fields: [WHY],
      action: "Approve",
      run: ({ reason }) => act(`${path}/approve`, { step: rollout.step, ...run, reason }),
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
        run: ({ reason }) => act(`${path}/resume`, { ...run, reason }),
      }))
      : ask("Pause…", () => ({
        what: [`The ${what} begins nothing more. What is at work goes on.`],
        fields: [WHY],
        action: "Pause",
        run: ({ reason }) => act(`${path}/pause`, { ...run, reason }),
      }))),
    isRolling && rollout.step && step?.status !== "Held" && hasFailed && ask("Retry step…", () => ({
      what: [`Applications of step ${rollout.step} that are not done are brought to their targets once more.`, named(undone)],
      fields: [WHY],
      action: "Retry",
      run: ({ reason }) => act(`${path}/retry`, { step: rollout.step, ...run, reason }),
    })),
    isRolling && rollout.step && ask("Skip step…", () => ({
      what: [`The rollout goes on without the Applications of step ${rollout.step} that are not done. Operations of theirs that are under way are terminated first; what these have written by then stays.`, named(undone.filter((one) => one.outcome !== "Skipped"))],
      fields: [{ ...WHY, required: true }],
      action: "Skip",
      run: ({ reason }) => act(`${path}/skip`, { step: rollout.step, ...run, reason }),
    }), true),
    isLeft && ask("Begin the deletion again…", () => ({
      what: [`The deletion of ${told.set} that has ended begins again: what it has left goes in its order, and then the ApplicationSet.`, ...endedWith(teardown, true)],
      fields: [WHY],
      action: "Begin again",
      run: ({ reason }) => act(`${path}/retry`, { reason }),
    }), true),
    !isRolling && isThere && rollout?.end && (rollout.end !== "Completed" || left.length > 0) && ask("Begin again…", () => ({
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
      what: [
        isDeleting ? "Nothing more is deleted, and the deletion ends. Applications that are being deleted already go on with that; the others stay."
          : "What is at work is stopped, and the rollout ends. Applications stay as they are then.",
        ...endedWith(isDeleting ? teardown : rollout, isDeleting),
      ],
      fields: [WHY],
      action: "Terminate",
      run: ({ reason }) => act(`${path}/terminate`, { ...run, reason }),
    }), true),
    isThere && ask("Delete…", () => ({
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
  const plan = await look(`${path}/deletion`);
  const file = plan.removesFile ? fileGoes() : null;
  if (orphan) return [file, h("p", null, "Its Applications stay, and nobody generates them any more.")];
  const of = (step) => plan.members.filter((one) => one.step === (step === null || step === undefined ? "-1" : String(step)));
  return [
    file,
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

// What becomes of an Application that a deletion goes on without.
function notAwaited({ application, status }) {
  const what = `The deletion goes on without ${application}`;
  return status === "Deleting" ? `${what}, which is being deleted already: that goes on, and nobody waits for it.`
    : `${what}, which is not deleted: it stays with its objects, and its ApplicationSet goes without it.`;
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
  const [name, run] = [member.application, runOf(told)];
  const skip = !isDone && ask("Skip…", () => ({
    title: `Skip ${name}`,
    what: [isDeleting ? notAwaited(member) : withoutIt(member)],
    fields: [{ ...WHY, required: true }],
    action: "Skip",
    run: ({ reason }) => act(`${path}/skip`, { application: name, ...run, reason }),
  }));
  const retry = mayBeRetried && ask("Retry…", () => ({
    title: `Retry ${name}`,
    what: [`${name} is brought to its target once more.`],
    fields: [WHY],
    action: "Retry",
    run: ({ reason }) => act(`${path}/retry`, { application: name, ...run, reason }),
  }));
  for (const [word, button] of [["Skip", skip], ["Retry", retry]]) {
    if (!button) continue;
    button.dataset.do = `${word} ${name}`;
    button.setAttribute("aria-label", `${word} ${name}…`);
  }
  return h("span.actions.small", null, skip, retry);
}
