// View of all ApplicationSets.

import { fill, h, link, paths } from "./dom.js";
import { HEALTH, readFilters, createFilterBar, showReadErrors } from "./filters.js";
import { subscribe } from "./events.js";
import { LongList } from "./virtual-list.js";
import { renderBadge, formatCount, getTone } from "./format.js";

const SORTS = [["name", "name"], ["health", "health"], ["applications", "number of Applications"]];
const COLUMNS = [["Name", "name"], ["Health", "health"], ["Applications", "operation"], ["Rollout", "bar"], ["Status", "why"]];
const STATES = ["Healthy", "Skipped", "Progressing", "Pending", "Waiting"];

// Renders the number of Applications by status as a bar with a text alternative.
export function renderRolloutBar(set) {
  // Argo CD's status counts skipped Applications as Healthy.
  const skipped = set.rollout?.skipped ?? 0;
  const members = { ...set.rollout?.members, Skipped: skipped };
  if (skipped > 0) members.Healthy -= skipped;
  const total = Object.values(members).reduce((sum, number) => sum + number, 0);
  if (total === 0) return h("span.quiet", null, formatCount(set.applications, "Application"));
  const states = STATES.filter((state) => members[state] > 0);
  const text = states.map((state) => `${members[state]} ${state}`).join(", ");
  return h("span.bar", { role: "img", "aria-label": text, title: text },
    states.map((state) => h(`span.${getTone(state)}`, { style: { "flex-grow": String(members[state]) } })));
}

// Describes an ApplicationSet's error, or its rollout's progress and wait reason.
export const describeStatus = (set) => set.error ?? [set.deleting ? "being deleted" : set.rollout?.message, set.waitReason].filter(Boolean).join("; ");

function renderCells(set) {
  return [
    [link(paths.set(set.namespace, set.name), set.name), h("small", null, ` ${set.namespace}`)],
    renderBadge(set.health, "health"), formatCount(set.applications, "Application"), renderRolloutBar(set),
    describeStatus(set),
  ];
}

export function showApplicationSets(view) {
  const selection = readFilters(["name", "health", "progressing", "sort", "reverse"]);
  const totalLine = h("p.matching");
  const container = h("div");
  const problems = h("section.problem");
  let list = null;
  const startList = () => {
    list?.close();
    list = new LongList({
      path: "/api/v1/applicationsets", parameters: { ...selection }, columns: COLUMNS, cells: renderCells, noun: ["ApplicationSet", "ApplicationSets"],
      key: (set) => `${set.namespace}/${set.name}`,
      onTotal: (text, errors) => {
        fill(totalLine, text);
        showReadErrors(problems, errors);
      },
    });
    fill(container, list.element, list.empty);
  };
  fill(view, h("h1", null, "ApplicationSets"),
    createFilterBar({
      filters: [["health", "Health", HEALTH], ["progressing", "Rollout", [["true", "in progress"], ["false", "not in progress"]]]],
      sorts: SORTS, values: selection, search: "part of NAMESPACE/NAME", onChange: startList,
    }), totalLine, problems, container);
  startList();
  const isFiltered = () => Boolean(selection.health || selection.progressing || (selection.sort && selection.sort !== "name"));
  const unsubscribe = subscribe((kind, data) => {
    if (kind === "applicationSet") list.updateItem(data, isFiltered());
    else if (kind === "applicationSetRemoved" || kind === "reset") list.refetchLater();
  });
  return () => {
    unsubscribe();
    list.close();
  };
}
