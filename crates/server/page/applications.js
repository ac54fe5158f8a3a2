// View of all Applications, with a few ApplicationSets above them.

import { get } from "./api.js";
import { fill, h, link, paths, refill, debounce } from "./dom.js";
import { HEALTH, OPERATION, SYNC, readFilters, createFilterBar, showReadErrors } from "./filters.js";
import { subscribe } from "./events.js";
import { LongList } from "./virtual-list.js";
import { renderRolloutBar, describeStatus } from "./appsets.js";
import { renderBadge, formatElapsed, localizeRetryTime, shortenRevision } from "./format.js";

const SORTS = [["name", "name"], ["project", "project"], ["sync", "sync"], ["health", "health"], ["operation", "last operation"]];
// Maximum number of ApplicationSets above the Applications.
const SETS_MAX = 4;

const COLUMNS = [
  ["Name", "name"], ["Sync", "sync"], ["Health", "health"], ["Operation", "operation"], ["Status", "why"], ["Revision", "revision"],
];

// Describes in one line why an Application is not Synced and Healthy. A running operation takes precedence.
export function describeReason(app) {
  const operation = app.operation;
  if (app.deleting) return `being deleted${operation?.message ? `: ${localizeRetryTime(operation.message)}` : ""}`;
  if (operation && !operation.finishedAt) return localizeRetryTime(operation.message);
  if (app.waitReason) return app.waitReason;
  if (operation && operation.phase !== "Succeeded") return localizeRetryTime(operation.message);
  if (app.condition) {
    const others = Object.keys(app.conditions).filter((type) => type !== app.condition.type);
    return [`${app.condition.type}: ${app.condition.message}`, ...others].join("; ");
  }
  if (app.health !== "Healthy") return app.healthMessage;
  return "";
}

function renderCells(app) {
  const operation = app.operation;
  const operationCell = operation && [
    renderBadge(operation.outcome, "operation"), operation.dryRun ? h("small", null, " dry run") : null, " ",
    operation.id ? link(paths.operation(operation.id), operation.finishedAt && operation.startedAt ? formatElapsed(operation.startedAt, operation.finishedAt) : "watch",
      h("span.unseen", null, ` operation of ${app.name}`)) : null,
  ];
  return [
    [link(paths.application(app.namespace, app.name), app.name), h("small", null, ` ${app.namespace}`)],
    renderBadge(app.sync, "sync"), renderBadge(app.health, "health"), operationCell ?? "", renderReason(app), shortenRevision(app.revision),
  ];
}

function renderReason(app) {
  const text = describeReason(app);
  return text && text === app.waitReason ? h("a", { href: paths.set(app.namespace, app.applicationSet), title: text }, text) : h("span", { title: text }, text);
}

export function showApplications(view) {
  const selection = readFilters(["name", "sync", "health", "operation", "project", "label", "sort", "reverse"]);
  const totalLine = h("p.matching");
  const container = h("div");
  const problems = h("section.problem");
  const sets = h("section.sets", { "aria-label": "ApplicationSets" });
  sets.hidden = true;
  let list = null;
  const startList = () => {
    list?.close();
    list = new LongList({
      path: "/api/v1/applications", parameters: { ...selection }, columns: COLUMNS, cells: renderCells, noun: ["Application", "Applications"],
      key: (app) => `${app.namespace}/${app.name}`,
      onTotal: (text, errors) => {
        fill(totalLine, text);
        showReadErrors(problems, errors);
      },
    });
    fill(container, list.element, list.empty);
  };
  fill(view, h("h1", null, "Applications"), sets,
    createFilterBar({
      filters: [["sync", "Sync", SYNC], ["health", "Health", HEALTH], ["operation", "Operation", OPERATION]],
      sorts: SORTS, values: selection, search: "part of NAMESPACE/NAME", onChange: startList,
    }), totalLine, problems, container);
  startList();
  const loadSets = () => get(`/api/v1/applicationsets?limit=${SETS_MAX}`).then((response) => {
    sets.hidden = response.items.length === 0;
    const allLink = response.total > response.items.length ? h("p", null, link("/applicationsets", `All ${response.total} ApplicationSets`)) : null;
    refill(sets, h("ul.cards", null, response.items.map(renderCard)), allLink);
  }, () => undefined);
  const reloadSets = debounce(300, loadSets);
  loadSets();
  const isFiltered = () => Object.entries(selection).some(([name, value]) => value && !["name", "project", "label"].includes(name));
  const unsubscribe = subscribe((kind, data) => {
    if (kind === "application") list.updateItem(data, isFiltered());
    else if (kind === "applicationRemoved") list.refetchLater();
    else if (kind === "reset") {
      list.refetchLater();
      reloadSets();
    } else if (kind.startsWith("applicationSet")) {
      reloadSets();
      // The Applications of the ApplicationSet may have a different wait reason now.
      if (kind === "applicationSet") list.refetchLater();
    }
  });
  return () => {
    unsubscribe();
    reloadSets.stop();
    list.close();
  };
}

function renderCard(set) {
  return h("li.card", { "data-key": `${set.namespace}/${set.name}` },
    h("div", null, link(paths.set(set.namespace, set.name), set.name), " ", renderBadge(set.health, "health")),
    renderRolloutBar(set), h("p.line", null, describeStatus(set)));
}
