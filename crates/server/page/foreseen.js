// What would be: a rollout before it begins, with the Applications that come and go before, and the deletion of all of them.

import { look } from "./ask.js";
import { fill, h, link, paths } from "./draw.js";
import { count, long, short, terms } from "./words.js";

// So many fields of an Application are shown.
const FIELDS = 50;

// A section with a button: `show` makes what is shown when somebody asks for it.
function section(id, title, button, action, show) {
  const place = h("div", { "aria-live": "polite" });
  const onclick = async () => {
    try {
      fill(place, await show());
    } catch (problem) {
      if (problem.name !== "AbortError") fill(place, h("p.problem", { role: "alert" }, problem.words ?? String(problem)));
    }
  };
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title),
    h("button", { type: "button", onclick, "data-do": action }, button), place);
}

// Who is in which step, what each would get, and what opens the steps; who is made, changed and deleted before.
export function rolloutPreviewOf(path, namespace, signal) {
  const show = async () => {
    const told = await look(`${path}/plan`, signal);
    return [
      told.applications.problems.map((one) => h("p.problem", null, one)),
      told.rollout ? stepsOf(told, namespace) : withoutStepsOf(told, namespace),
      goneOf(told.applications), stayOf(told.applications, namespace),
    ];
  };
  return section("foreseen", "If a rollout began now", "Show what it would do", "preview-rollout", show);
}

function stepsOf(told, namespace) {
  const { rollout, applications } = told;
  const of = (number) => rollout.members.filter((one) => one.step === String(number));
  const goes = (number) => applications.deleted.filter((one) => (one.step ?? -1) === number);
  const members = (number) => h("ul", null, of(number).map((one) => wouldGet(one, told, namespace)), goes(number).map((one) => wouldGo(one, namespace)));
  const isOutside = of(-1).length + goes(-1).length > 0;
  return [
    h("ol.foreseen", null, rollout.steps.map((step, index) => h("li.card", null,
      h("h3", null, `Step ${index + 1} `, h("small", null, count(of(index + 1).length, "Application"))), h("p.quiet", null, step.selects),
      terms([
        ["At once", step.maxUpdate === 0 ? "none by itself: somebody has to sync each" : step.maxUpdate ?? "all"],
        ["Begins by", (step.gates ?? []).length > 0 ? step.gates.join(", ") : index === 0 ? "itself" : "itself, after the step before"],
        ["May fail", step.maxFailures ?? null], ["May take", step.deadlineSeconds ? long(step.deadlineSeconds * 1000) : null],
      ]),
      members(index + 1)))),
    isOutside ? [h("h3", null, "In no step"), h("p.quiet", null, "No step selects these: the rollout leaves them alone."), members(-1)] : null,
  ];
}

// Where each is synced by its own policy.
function withoutStepsOf({ applications }, namespace) {
  const { created, changed, deleted } = applications;
  return [
    h("p", null, "Its Applications are synced each by its own policy: there is no progressive sync."),
    created.length + changed.length + deleted.length === 0 ? h("p.quiet", null, "None of them would be made, changed or deleted.")
      : h("ul", null, created.map((one) => h("li", null, `${one.application}: it is made`)),
        changed.map((one) => h("li", null, named(one, namespace), ": it is changed", fieldsOf(one))), deleted.map((one) => wouldGo(one, namespace))),
  ];
}

const named = ({ application }, namespace) => link(paths.application(namespace, application), application);

function wouldGet(member, { before, unknown, applications }, namespace) {
  const isIt = (one) => one.application === member.application;
  const [isMade, changed] = [applications.created.some(isIt), applications.changed.find(isIt)];
  const [now, then] = [before[member.application], member.targetRevisions].map((all) => (all ?? []).map(short).join(", "));
  const why = unknown[member.application];
  const what = why ? `it is not known yet what it gets: ${why}` : member.status === "Healthy" ? `has ${then} already`
    : now === then ? `${then} once more` : now ? `${now} → ${then}` : `${then}, its first`;
  return h("li", { "data-key": member.application }, isMade ? [h("strong", null, member.application), ": it is made; "] : [named(member, namespace), ": "], what,
    changed ? ["; it is changed", fieldsOf(changed)] : null);
}

function wouldGo(one, namespace) {
  return h("li", { "data-key": one.application }, named(one, namespace), ": ", h("strong", null, "it is deleted"), `, because it is not generated any more; its objects ${one.keepsObjects ? "stay" : "go with it"}`);
}

// From what to what.
function fieldsOf({ fields }) {
  const shown = (value) => (value === undefined || value === null ? "nothing" : typeof value === "string" ? value : JSON.stringify(value));
  return h("ul.fields", null, fields.slice(0, FIELDS).map((one) => h("li", null, h("code", null, one.field), `: ${shown(one.before)} → ${shown(one.after)}`)),
    fields.length > FIELDS ? h("li.quiet", null, `and ${count(fields.length - FIELDS, "other field")}, which are not shown`) : null);
}

function goneOf({ deletion }) {
  return deletion ? [h("h3", null, "What is deleted, in this order"), orderOf(deletion)] : null;
}

function stayOf({ left }, namespace) {
  const all = Object.entries(left);
  return all.length > 0 ? [h("h3", null, "What stays as it is"),
    h("ul", null, all.map(([application, why]) => h("li", { "data-key": application }, named({ application }, namespace), `: ${why}`)))] : null;
}

// In which order all would go, for whoever wants to know it beforehand.
export function deletionPreviewOf(path, signal) {
  return section("preview", "If it were deleted", "Show in which order", "preview", async () => orderOf(await look(`${path}/deletion`, signal)));
}

function orderOf({ steps, members, kept }) {
  const of = (step) => members.filter((one) => one.step === String(step.step ?? -1)).map((one) => one.application).join(", ");
  return [
    h("ol", null, steps.filter((step) => step.members > 0).map((step) => h("li", null,
      h("strong", null, step.step ? `Step ${step.step} (${step.selects})` : "Those of no step"),
      `, ${step.maxUpdate ? `${step.maxUpdate} at once` : "all at once"}: ${of(step)}`))),
    kept.length > 0 ? [h("h3", null, "What stays"), h("ul", null, kept.map((one) => h("li", null,
      `${one.what === "Objects" ? "Objects of " : ""}${one.applications.join(", ")}: ${one.why}`)))] : null,
  ];
}
