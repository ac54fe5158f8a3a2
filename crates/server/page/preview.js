// Previews of the rollout and the deletion of an ApplicationSet.

import { get } from "./api.js";
import { fill, h, link, paths } from "./dom.js";
import { formatCount, formatDuration, shortenRevision, renderTerms } from "./format.js";

// Maximum number of displayed fields per Application.
const FIELDS_MAX = 50;

// Creates a section with a button. `show` returns the content of the preview.
function createPreviewSection(id, title, button, action, show) {
  const container = h("div", { "aria-live": "polite" });
  const onclick = async () => {
    try {
      fill(container, await show());
    } catch (problem) {
      if (problem.name !== "AbortError") fill(container, h("p.problem", { role: "alert" }, problem.fullMessage ?? String(problem)));
    }
  };
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title),
    h("button", { type: "button", onclick, "data-do": action }, button), container);
}

// Creates the preview of a rollout: steps with their members, target revisions and gates, and the changes to
// Applications that precede the rollout.
export function createRolloutPreview(path, namespace, signal) {
  const show = async () => {
    const response = await get(`${path}/plan`, signal);
    return [
      response.applications.problems.map((problem) => h("p.problem", null, problem)),
      response.rollout ? renderSteps(response, namespace) : renderWithoutSteps(response, namespace),
      renderDeletionOrder(response.applications), renderWithheld(response.applications, namespace),
    ];
  };
  return createPreviewSection("foreseen", "Rollout preview", "Preview rollout", "preview-rollout", show);
}

function renderSteps(response, namespace) {
  const { rollout, applications } = response;
  const membersOf = (number) => rollout.members.filter((member) => member.step === String(number));
  const deletedIn = (number) => applications.deleted.filter((member) => (member.step ?? -1) === number);
  const renderMembers = (number) => h("ul", null, membersOf(number).map((member) => renderMember(member, response, namespace)), deletedIn(number).map((member) => renderDeleted(member, namespace)));
  const isOutside = membersOf(-1).length + deletedIn(-1).length > 0;
  return [
    h("ol.foreseen", null, rollout.steps.map((step, index) => h("li.card", null,
      h("h3", null, `Step ${index + 1} `, h("small", null, formatCount(membersOf(index + 1).length, "Application"))), h("p.quiet", null, step.selector),
      renderTerms([
        ["Max at once", step.maxUpdate === 0 ? "none automatically: sync each Application manually" : step.maxUpdate ?? "all"],
        ["Starts after", (step.gates ?? []).length > 0 ? step.gates.join(", ") : index === 0 ? null : "the previous step"],
        ["Max failures", step.maxFailures ?? null], ["Deadline", step.deadlineSeconds ? formatDuration(step.deadlineSeconds * 1000) : null],
      ]),
      renderMembers(index + 1)))),
    isOutside ? [h("h3", null, "Outside all steps"), h("p.quiet", null, "No step selects these Applications: the rollout does not change them."), renderMembers(-1)] : null,
  ];
}

// Renders the changes of Applications that sync according to their own policies.
function renderWithoutSteps({ applications }, namespace) {
  const { created, changed, deleted } = applications;
  return [
    h("p", null, "No progressive sync: each Application is synced according to its own policy."),
    created.length + changed.length + deleted.length === 0 ? h("p.quiet", null, "No Application would be created, updated or deleted.")
      : h("ul", null, created.map((member) => h("li", null, `${member.application}: created`)),
        changed.map((member) => h("li", null, createMemberLink(member, namespace), ": updated", renderFields(member))), deleted.map((member) => renderDeleted(member, namespace))),
  ];
}

const createMemberLink = ({ application }, namespace) => link(paths.application(namespace, application), application);

function renderMember(member, { currentRevisions, unresolved, applications }, namespace) {
  const isSame = (other) => other.application === member.application;
  const [isCreated, changed] = [applications.created.some(isSame), applications.changed.find(isSame)];
  const [current, target] = [currentRevisions[member.application], member.targetRevisions].map((revisions) => (revisions ?? []).map(shortenRevision).join(", "));
  const reason = unresolved[member.application];
  const text = reason ? `target not known yet: ${reason}` : member.status === "Healthy" ? `already at ${target}`
    : current === target ? `${target} again` : current ? `${current} → ${target}` : `${target}, first sync`;
  return h("li", { "data-key": member.application }, isCreated ? [h("strong", null, member.application), ": created; "] : [createMemberLink(member, namespace), ": "], text,
    changed ? ["; updated", renderFields(changed)] : null);
}

function renderDeleted(member, namespace) {
  return h("li", { "data-key": member.application }, createMemberLink(member, namespace), ": ", h("strong", null, "deleted"), `, no longer generated; its objects are ${member.keepsObjects ? "kept" : "deleted as well"}`);
}

// Renders changed fields with old and new values.
function renderFields({ fields }) {
  const formatValue = (value) => (value === undefined || value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value));
  return h("ul.fields", null, fields.slice(0, FIELDS_MAX).map((field) => h("li", null, h("code", null, field.field), `: ${formatValue(field.before)} → ${formatValue(field.after)}`)),
    fields.length > FIELDS_MAX ? h("li.quiet", null, `and ${formatCount(fields.length - FIELDS_MAX, "more field")}, not shown`) : null);
}

function renderDeletionOrder({ deletion }) {
  return deletion ? [h("h3", null, "Deleted, in this order"), renderOrder(deletion)] : null;
}

function renderWithheld({ withheld }, namespace) {
  const entries = Object.entries(withheld);
  return entries.length > 0 ? [h("h3", null, "Left as they are"),
    h("ul", null, entries.map(([application, reason]) => h("li", { "data-key": application }, createMemberLink({ application }, namespace), `: ${reason}`)))] : null;
}

// Creates the preview of a deletion: the Applications in deletion order, and the objects that are kept.
export function createDeletionPreview(path, signal) {
  return createPreviewSection("preview", "Deletion preview", "Preview deletion", "preview", async () => renderOrder(await get(`${path}/deletion`, signal)));
}

function renderOrder({ steps, members, remaining }) {
  const namesOf = (step) => members.filter((member) => member.step === String(step.step ?? -1)).map((member) => member.application).join(", ");
  return [
    h("ol", null, steps.filter((step) => step.members > 0).map((step) => h("li", null,
      h("strong", null, step.step ? `Step ${step.step} (${step.selector})` : "No step"),
      `, ${step.maxUpdate ? `${step.maxUpdate} at once` : "all at once"}: ${namesOf(step)}`))),
    remaining.length > 0 ? [h("h3", null, "Kept"), h("ul", null, remaining.map((remainder) => h("li", null,
      `${remainder.kind === "Objects" ? "Objects of " : ""}${remainder.applications.join(", ")}: ${remainder.reason}`)))] : null,
  ];
}
