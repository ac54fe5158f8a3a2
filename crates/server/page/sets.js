// All ApplicationSets, as they stand.

import { fill, h, link, paths } from "./draw.js";
import { HEALTH, asked, filterBar, problemsOf } from "./lists.js";
import { follow } from "./news.js";
import { LongList } from "./scroll.js";
import { badge, count, tone } from "./words.js";

const SORTS = [["name", "name"], ["health", "health"], ["applications", "number of Applications"]];
const COLUMNS = [["Name", "name"], ["Health", "health"], ["Applications", "operation"], ["Rollout", "bar"], ["Where it is, or what is wrong", "why"]];
const STATES = ["Healthy", "Skipped", "Progressing", "Pending", "Waiting"];

// How many Applications of a rollout are how far, as a bar and in words.
export function rolloutBar(set) {
  // Argo CD's words make no difference between what was skipped and what is well.
  const skipped = set.rollout?.skipped ?? 0;
  const members = { ...set.rollout?.members, Skipped: skipped };
  if (skipped > 0) members.Healthy -= skipped;
  const total = Object.values(members).reduce((sum, one) => sum + one, 0);
  if (total === 0) return h("span.quiet", null, count(set.applications, "Application"));
  const states = STATES.filter((state) => members[state] > 0);
  const words = states.map((state) => `${members[state]} ${state}`).join(", ");
  return h("span.bar", { role: "img", "aria-label": words, title: words },
    states.map((state) => h(`span.${tone(state)}`, { look: { "flex-grow": String(members[state]) } })));
}

// What is wrong with it; or where it is, and what it waits for.
export const whereItIs = (set) => set.error ?? [set.deleting ? "being deleted" : set.rollout?.message, set.awaits].filter(Boolean).join("; ");

function cells(set) {
  return [
    [link(paths.set(set.namespace, set.name), set.name), h("small", null, ` ${set.namespace}`)],
    badge(set.health, "health"), count(set.applications, "Application"), rolloutBar(set),
    whereItIs(set),
  ];
}

export function showSets(view) {
  const wanted = asked(["name", "health", "progressing", "sort", "reverse"]);
  const matching = h("p.matching");
  const place = h("div");
  const problems = h("section.problem");
  let list = null;
  const begin = () => {
    list?.close();
    list = new LongList({
      path: "/api/v1/applicationsets", parameters: { ...wanted }, columns: COLUMNS, cells, noun: ["ApplicationSet", "ApplicationSets"],
      key: (set) => `${set.namespace}/${set.name}`,
      onMatching: (text, wrong) => {
        fill(matching, text);
        problemsOf(problems, wrong);
      },
    });
    fill(place, list.element, list.empty);
  };
  fill(view, h("h1", null, "ApplicationSets"),
    filterBar({
      filters: [["health", "Health", HEALTH], ["progressing", "Rollout", [["true", "under way"], ["false", "not under way"]]]],
      sorts: SORTS, wanted, search: "part of NAMESPACE/NAME", then: begin,
    }), matching, problems, place);
  begin();
  const isFiltered = () => Boolean(wanted.health || wanted.progressing || (wanted.sort && wanted.sort !== "name"));
  const end = follow((kind, data) => {
    if (kind === "applicationSet") list.changed(data, isFiltered());
    else if (kind === "applicationSetGone" || kind === "reset") list.again();
  });
  return () => {
    end();
    list.close();
  };
}
