// The plans of an Application that are kept: what each would change now, and a way to have exactly that carried out.

import { act, at, look, mayAct, query } from "./ask.js";
import { ask } from "./dialog.js";
import { diffOf } from "./differences.js";
import { h, link, paths, refill } from "./draw.js";
import { WHY, planning, revised, revisionsOf, someOf } from "./steer.js";
import { approvalOf, badge, count, short, shortHash, terms, time } from "./words.js";

// So many are shown, the newest.
const PLANS = 20;

// Whether it may still be carried out.
const mayStill = (plan) => !["taken", "withdrawn"].includes(plan.state);
// What a plan does: `2 to create, 1 to prune`.
const doesOf = ({ actions }) => Object.entries(actions).map(([action, number]) => (action === "prune-skipped" ? `${number} left alone` : `${number} to ${action}`)).join(", ") || "nothing to do";
const revisions = ({ revision }) => short(revision);

export function keptPlansOf(namespace, name, signal) {
  const element = h("section", { "aria-labelledby": "kept" }, h("h2", { id: "kept" }, "Kept plans"));
  const own = query("/api/v1/plans", { application: `${namespace}/${name}`, limit: PLANS });
  const called = namespace === "argocd" ? name : `${namespace}/${name}`;
  const state = { app: null, resources: [], answer: null, problem: null };
  // What those would change that are looked at, by hash.
  const changes = new Map();

  async function load() {
    try {
      [state.answer, state.problem] = [await look(own, signal), null];
    } catch (problem) {
      if (problem.name === "AbortError") return;
      state.problem = problem.words ?? String(problem);
    }
    draw();
    const known = new Set((state.answer?.items ?? []).filter(mayStill).map((one) => one.hash));
    for (const hash of [...changes.keys()]) {
      if (known.has(hash)) askChanges(hash);
      else changes.delete(hash);
    }
  }

  // As the cluster is now. What was asked for before may be answered last.
  async function askChanges(hash) {
    const asked = {};
    changes.set(hash, { ...changes.get(hash), asked });
    const found = await look(`${at.plan(hash)}/diff`, signal).then((told) => ({ told }), (problem) => ({ problem }));
    if (found.problem?.name === "AbortError" || changes.get(hash)?.asked !== asked) return;
    changes.set(hash, { ...found, asked });
    draw();
  }

  function draw() {
    const { app, resources, answer, problem } = state;
    // What waits for an approval is shown apart.
    const shown = (answer?.items ?? []).filter((one) => one.state !== "waiting");
    const toggled = (plan) => (event) => {
      if (event.target.open && mayStill(plan) && !changes.has(plan.hash)) askChanges(plan.hash);
    };
    refill(element, h("h2", { id: "kept" }, "Kept plans"),
      problem ? h("p.problem", null, problem) : null,
      answer || problem ? null : h("p.quiet", null, "…"),
      answer && shown.length === 0 ? h("p.empty", null, `There is none. One is kept here, or by tidegate app plan ${called}.`) : null,
      shown.map((plan) => h("details.differs.kept", { "data-key": plan.hash, ontoggle: toggled(plan) },
        h("summary", null, badge(plan.state, "plan"), " ", h("code", null, shortHash(plan.hash)), ` revision ${revisions(plan)}: ${doesOf(plan)} `, h("small", null, time(plan.madeAt))),
        planOf(plan, app, changes.get(plan.hash), load))),
      answer?.next ? h("p.quiet", null, `and ${count(answer.matching - answer.items.length, "older one")}: tidegate app plans ${called}`) : null,
      app && !app.deleting && mayAct() ? h("div.actions", null, keepButton(app, resources, load)) : null);
  }

  // `take`: how the Application stands, of which buttons and words are made.
  return { element, load, take: (app, resources) => { Object.assign(state, { app, resources }); draw(); } };
}

function planOf(plan, app, found, load) {
  return h("div", null,
    terms([
      ["Plan", h("code", null, plan.hash)], ["Made", time(plan.madeAt)], ["By", plan.by], ["Revision", plan.revision], ["Does", doesOf(plan)],
      ["Needs", plan.needs], ["Approved by", plan.approvals.map(approvalOf)], ["Withdrawn by", plan.withdrawnBy ? approvalOf(plan.withdrawnBy) : null],
      ["Carried out by", plan.operation ? link(paths.operation(plan.operation), `operation ${plan.operation}`) : null],
    ]),
    actionOf(plan, app, load),
    !mayStill(plan) ? null : [h("h3", null, "What it would change now"), changesOf(found)]);
}

function changesOf(found) {
  if (found?.problem) return h("p.problem", null, found.problem.words ?? String(found.problem));
  if (!found?.told) return h("p.quiet", null, "…");
  return [fitOf(found.told), diffOf({ ...found.told, warnings: found.told.warnings.filter((one) => !isMoved(one)) })];
}

const isMoved = (warning) => warning.code === "plan-moved";

// Whether it still holds as the cluster is now.
function fitOf({ warnings }) {
  const moved = warnings.filter(isMoved);
  return moved.length > 0 ? h("p.problem", null, moved.map((one) => one.message).join("; "))
    : h("p.quiet", null, "It holds: as the cluster is now, it would do what it says.");
}

// Of a plan that needs an approval. `then` is called when it has one.
export function approveButton(app, plan, then) {
  if (!mayAct() || app.deleting || !plan) return null;
  if (plan.notYours) return h("p.quiet", null, `You cannot approve it: ${plan.notYours}.`);
  const isKept = plan.state === "kept";
  return ask("Approve…", () => ({
    title: "Approve the plan",
    what: [
      `Plan ${shortHash(plan.hash)} of ${app.namespace}/${app.name} ${isKept ? "may be carried out then" : "is carried out"} on ${app.destination.cluster}: ${doesOf(plan)}, revision ${revisions(plan)}.`,
      `It is what is shown here, and nothing else; where that does not fit the cluster any more, the service refuses it${isKept ? "" : " and makes a new plan"}.`,
      plan.reason ? `${plan.by || "Somebody"} asks for it: ${plan.reason}` : "",
      plan.needs ? `It needs ${plan.needs}.` : "",
    ].filter(Boolean),
    fields: [WHY],
    action: "Approve",
    run: ({ reason }) => act(`${at.plan(plan.hash)}/approve`, { reason }).then(then),
  }));
}

function actionOf(plan, app, load) {
  if (plan.state !== "kept" || !app || app.deleting || !mayAct()) return null;
  if (!plan.needs) return h("div.actions.small", null, carryOutButton(app, plan, load));
  const button = approveButton(app, plan, load);
  return h("div.actions.small", null, plan.notYours ? button : named(button, `Approve plan ${shortHash(plan.hash)}`));
}

function named(button, name) {
  button.dataset.do = name;
  button.setAttribute("aria-label", `${name}…`);
  return button;
}

function carryOutButton(app, plan, load) {
  const hash = shortHash(plan.hash);
  return named(ask("Sync this plan…", () => ({
    title: `Sync plan ${hash}`,
    what: [
      `Plan ${hash} of ${app.namespace}/${app.name} is carried out on ${app.destination.cluster}: ${doesOf(plan)}, revision ${revisions(plan)}.`,
      "It is that and nothing else, whatever was committed since. Where it does not fit the cluster any more, it is refused, which says what has moved.",
    ],
    preview: async () => fitOf(await look(`${at.plan(plan.hash)}/diff`)),
    fields: [{ name: "allowDrift", label: "Also where fields have changed since that it says nothing about", kind: "check" }, WHY],
    action: "Sync",
    run: async (said) => {
      await act(`${at.plan(plan.hash)}/sync`, said);
      load();
    },
  })), `Sync plan ${hash}`);
}

function keepButton(app, objects, load) {
  return ask("Keep a plan…", () => ({
    what: [`A sync of ${app.namespace}/${app.name} is planned as things stand, and the plan is kept under its hash. Nothing is written to ${app.destination.cluster}.`],
    preview: planning(at.application(app.namespace, app.name), false, app.sources),
    fields: [
      ...revisionsOf(app.sources),
      { name: "prune", label: "Delete objects that are no longer in the manifests", kind: "check" },
      someOf(objects),
    ],
    action: "Keep",
    run: async ({ prune, resources: chosen, ...said }) => {
      const resources = chosen.map((one) => JSON.parse(one));
      await act("/api/v1/plans", { ...revised(app.sources, said), application: `${app.namespace}/${app.name}`, prune, resources });
      load();
    },
  }));
}
