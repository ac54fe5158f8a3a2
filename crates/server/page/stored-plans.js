// Stored plans of an Application, with their changes and actions.

import { post, apiPath, get, isOperator, formatApplicationName, query } from "./api.js";
import { createDialogButton } from "./dialog.js";
import { renderDiff } from "./diff.js";
import { h, link, paths, refill } from "./dom.js";
import { REASON_FIELD, createPlanPreview, getRevisionParameters, createRevisionFields, createObjectsField } from "./actions.js";
import { renderApproval, renderBadge, formatCount, shortenRevision, shortenHash, renderTerms, renderTime } from "./format.js";

// Maximum number of displayed plans.
const PLANS_MAX = 20;

// Returns true if a plan can still be executed.
const isOpen = (plan) => !["executed", "withdrawn"].includes(plan.state);
// Describes a plan's actions, such as `2 to create, 1 to prune`.
const describeActions = ({ actions }) => Object.entries(actions).map(([action, number]) => (action === "prune-skipped" ? `${number} not pruned` : `${number} to ${action}`)).join(", ") || "nothing to do";
const formatRevision = ({ revision }) => shortenRevision(revision);

export function createStoredPlans(namespace, name, signal) {
  const element = h("section", { "aria-labelledby": "stored-plans" }, h("h2", { id: "stored-plans" }, "Stored plans"));
  const listPath = query("/api/v1/plans", { application: `${namespace}/${name}`, limit: PLANS_MAX });
  const displayName = formatApplicationName(namespace, name);
  const state = { app: null, resources: [], answer: null, problem: null };
  // Changes of the expanded plans, by hash.
  const changes = new Map();

  async function load() {
    try {
      [state.answer, state.problem] = [await get(listPath, signal), null];
    } catch (problem) {
      if (problem.name === "AbortError") return;
      state.problem = problem.fullMessage ?? String(problem);
    }
    draw();
    const openHashes = new Set((state.answer?.items ?? []).filter(isOpen).map((plan) => plan.hash));
    for (const hash of [...changes.keys()]) {
      if (openHashes.has(hash)) loadChanges(hash);
      else changes.delete(hash);
    }
  }

  // Loads the changes that a plan would make to the cluster in its current state. Responses may arrive out of
  // order.
  async function loadChanges(hash) {
    const request = {};
    changes.set(hash, { ...changes.get(hash), request });
    const result = await get(`${apiPath.plan(hash)}/diff`, signal).then((response) => ({ response }), (problem) => ({ problem }));
    if (result.problem?.name === "AbortError" || changes.get(hash)?.request !== request) return;
    changes.set(hash, { ...result, request });
    draw();
  }

  function draw() {
    const { app, resources, answer, problem } = state;
    // The plan that is waiting for approval has its own section in the view.
    const visible = (answer?.items ?? []).filter((plan) => plan.state !== "waiting");
    const onToggle = (plan) => (event) => {
      if (event.target.open && isOpen(plan) && !changes.has(plan.hash)) loadChanges(plan.hash);
    };
    refill(element, h("h2", { id: "stored-plans" }, "Stored plans"),
      problem ? h("p.problem", null, problem) : null,
      answer || problem ? null : h("p.quiet", null, "…"),
      answer && visible.length === 0 ? h("p.empty", null, `No stored plans. Create one here, or with tidegate app plan ${displayName}.`) : null,
      visible.map((plan) => h("details.differs.stored", { "data-key": plan.hash, ontoggle: onToggle(plan) },
        h("summary", null, renderBadge(plan.state, "plan"), " ", h("code", null, shortenHash(plan.hash)), ` revision ${formatRevision(plan)}: ${describeActions(plan)} `, h("small", null, renderTime(plan.createdAt))),
        renderPlan(plan, app, changes.get(plan.hash), load))),
      answer?.next ? h("p.quiet", null, `and ${formatCount(answer.total - answer.items.length, "older plan")}: tidegate app plans ${displayName}`) : null,
      app && !app.deleting && isOperator() ? h("div.actions", null, createStoreButton(app, resources, load)) : null);
  }

  // `update` sets the Application's summary and objects, which the buttons depend on.
  return { element, load, update: (app, resources) => { Object.assign(state, { app, resources }); draw(); } };
}

function renderPlan(plan, app, result, load) {
  return h("div", null,
    renderTerms([
      ["Plan", h("code", null, plan.hash)], ["Created", renderTime(plan.createdAt)], ["Requested by", plan.initiatedBy], ["Revision", plan.revision], ["Actions", describeActions(plan)],
      ["Requires", plan.missingApproval], ["Approved by", plan.approvals.map(renderApproval)], ["Withdrawn by", plan.withdrawnBy ? renderApproval(plan.withdrawnBy) : null],
      ["Executed by", plan.operation ? link(paths.operation(plan.operation), `operation ${plan.operation}`) : null],
    ]),
    renderAction(plan, app, load),
    !isOpen(plan) ? null : [h("h3", null, "Changes if executed now"), renderChanges(result)]);
}

function renderChanges(result) {
  if (result?.problem) return h("p.problem", null, result.problem.fullMessage ?? String(result.problem));
  if (!result?.response) return h("p.quiet", null, "…");
  return [renderValidity(result.response), renderDiff({ ...result.response, warnings: result.response.warnings.filter((warning) => !isPlanOutdated(warning)) })];
}

const isPlanOutdated = (warning) => warning.code === "plan-moved";

// Renders a message that says if the plan is valid for the cluster's current state.
function renderValidity({ warnings }) {
  const findings = warnings.filter(isPlanOutdated);
  return findings.length > 0 ? h("p.problem", null, findings.map((finding) => finding.message).join("; "))
    : h("p.quiet", null, "The plan is still valid for the current state of the cluster.");
}

// Creates the button that approves a plan. Calls `onApproved` afterwards.
export function createApproveButton(app, plan, onApproved) {
  if (!isOperator() || app.deleting || !plan) return null;
  if (plan.approvalDeniedReason) return h("p.quiet", null, `You cannot approve this plan: ${plan.approvalDeniedReason}.`);
  const isStored = plan.state === "stored";
  return createDialogButton("Approve…", () => ({
    title: "Approve the plan",
    description: [
      `Plan ${shortenHash(plan.hash)} of ${app.namespace}/${app.name} ${isStored ? "can then be executed" : "is executed"} on ${app.destination.cluster}: ${describeActions(plan)}, revision ${formatRevision(plan)}.`,
      `Exactly the actions shown here are executed. If they no longer match the cluster, the service rejects the plan${isStored ? "" : " and creates a new plan"}.`,
      plan.reason ? `Requested by ${plan.initiatedBy || "unknown"}: ${plan.reason}` : "",
      plan.missingApproval ? `The plan requires ${plan.missingApproval}.` : "",
    ].filter(Boolean),
    fields: [REASON_FIELD],
    action: "Approve",
    run: ({ reason }) => post(`${apiPath.plan(plan.hash)}/approve`, { reason }).then(onApproved),
  }));
}

function renderAction(plan, app, load) {
  if (plan.state !== "stored" || !app || app.deleting || !isOperator()) return null;
  if (!plan.missingApproval) return h("div.actions.small", null, createExecuteButton(app, plan, load));
  const button = createApproveButton(app, plan, load);
  return h("div.actions.small", null, plan.approvalDeniedReason ? button : nameButton(button, `Approve plan ${shortenHash(plan.hash)}`));
}

function nameButton(button, name) {
  button.dataset.do = name;
  button.setAttribute("aria-label", `${name}…`);
  return button;
}

function createExecuteButton(app, plan, load) {
  const hash = shortenHash(plan.hash);
  return nameButton(createDialogButton("Sync this plan…", () => ({
    title: `Sync plan ${hash}`,
    description: [
      `Plan ${hash} of ${app.namespace}/${app.name} is executed on ${app.destination.cluster}: ${describeActions(plan)}, revision ${formatRevision(plan)}.`,
      "Later commits are ignored. If the plan no longer matches the cluster, the service rejects it and lists the changes.",
    ],
    preview: async () => renderValidity(await get(`${apiPath.plan(plan.hash)}/diff`)),
    fields: [{ name: "allowDrift", label: "Execute even if fields outside the plan have changed", kind: "check" }, REASON_FIELD],
    action: "Sync",
    run: async (values) => {
      await post(`${apiPath.plan(plan.hash)}/sync`, values);
      load();
    },
  })), `Sync plan ${hash}`);
}

function createStoreButton(app, objects, load) {
  return createDialogButton("Store a plan…", () => ({
    description: [`A sync of ${app.namespace}/${app.name} is planned for the current state, and the plan is stored under its hash. Nothing is written to ${app.destination.cluster}.`],
    preview: createPlanPreview(apiPath.application(app.namespace, app.name), false, app.sources),
    fields: [
      ...createRevisionFields(app.sources),
      { name: "prune", label: "Delete objects that are no longer in the manifests", kind: "check" },
      createObjectsField(objects),
    ],
    action: "Store",
    run: async ({ prune, resources: selected, ...values }) => {
      const resources = selected.map((selector) => JSON.parse(selector));
      await post("/api/v1/plans", { ...getRevisionParameters(app.sources, values), application: `${app.namespace}/${app.name}`, prune, resources });
      load();
    },
  }));
}
