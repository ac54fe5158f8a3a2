// All Applications, as they stand, and the ApplicationSets that have something under way.

import { look } from "./ask.js";
import { fill, h, link, paths, refill, soon } from "./draw.js";
import { HEALTH, OPERATION, SYNC, asked, filterBar, problemsOf } from "./lists.js";
import { follow } from "./news.js";
import { LongList } from "./scroll.js";
import { rolloutBar, whereItIs } from "./sets.js";
import { badge, between, inZone, short } from "./words.js";

const SORTS = [["name", "name"], ["project", "project"], ["sync", "sync"], ["health", "health"], ["operation", "last operation"]];
// So many ApplicationSets are shown above the Applications.
const SETS_MAX = 4;

const COLUMNS = [
  ["Name", "name"], ["Sync", "sync"], ["Health", "health"], ["Operation", "operation"], ["Why, or what it is at", "why"], ["Revision", "revision"],
];

// Why an Application is not done, in one line: what its operation waits for comes first.
export function reason(app) {
  const operation = app.operation;
  if (app.deleting) return `being deleted${operation?.message ? `: ${inZone(operation.message)}` : ""}`;
  if (operation && !operation.finishedAt) return inZone(operation.message);
  if (app.awaits) return app.awaits;
  if (operation && operation.phase !== "Succeeded") return inZone(operation.message);
  if (app.condition) {
    const others = Object.keys(app.conditions).filter((one) => one !== app.condition.type);
    return [`${app.condition.type}: ${app.condition.message}`, ...others].join("; ");
  }
  if (app.health !== "Healthy") return app.healthMessage;
  return "";
}

function cells(app) {
  const operation = app.operation;
  const shown = operation && [
    badge(operation.phase, "operation"), operation.dryRun ? h("small", null, " dry run") : null, " ",
    operation.id ? link(paths.operation(operation.id), operation.finishedAt && operation.startedAt ? between(operation.startedAt, operation.finishedAt) : "watch",
      h("span.unseen", null, ` operation of ${app.name}`)) : null,
  ];
  return [
    [link(paths.application(app.namespace, app.name), app.name), h("small", null, ` ${app.namespace}`)],
    badge(app.sync, "sync"), badge(app.health, "health"), shown ?? "", why(app), short(app.revision),
  ];
}

function why(app) {
  const words = reason(app);
  return words && words === app.awaits ? h("a", { href: paths.set(app.namespace, app.set), title: words }, words) : h("span", { title: words }, words);
}

export function showFleet(view) {
  const wanted = asked(["name", "sync", "health", "operation", "project", "label", "sort", "reverse"]);
  const matching = h("p.matching");
  const place = h("div");
  const problems = h("section.problem");
  const sets = h("section.sets", { "aria-label": "ApplicationSets" });
  sets.hidden = true;
  let list = null;
  const begin = () => {
    list?.close();
    list = new LongList({
      path: "/api/v1/applications", parameters: { ...wanted }, columns: COLUMNS, cells, noun: ["Application", "Applications"],
      key: (app) => `${app.namespace}/${app.name}`,
      onMatching: (text, wrong) => {
        fill(matching, text);
        problemsOf(problems, wrong);
      },
    });
    fill(place, list.element, list.empty);
  };
  fill(view, h("h1", null, "Applications"), sets,
    filterBar({
      filters: [["sync", "Sync", SYNC], ["health", "Health", HEALTH], ["operation", "Operation", OPERATION]],
      sorts: SORTS, wanted, search: "part of NAMESPACE/NAME", then: begin,
    }), matching, problems, place);
  begin();
  const showSets = () => look(`/api/v1/applicationsets?limit=${SETS_MAX}`).then((answer) => {
    sets.hidden = answer.items.length === 0;
    const more = answer.matching > answer.items.length ? h("p", null, link("/applicationsets", `All ${answer.matching} ApplicationSets`)) : null;
    refill(sets, h("ul.cards", null, answer.items.map(card)), more);
  }, () => undefined);
  const again = soon(300, showSets);
  showSets();
  const isFiltered = () => Object.entries(wanted).some(([name, value]) => value && !["name", "project", "label"].includes(name));
  const end = follow((kind, data) => {
    if (kind === "application") list.changed(data, isFiltered());
    else if (kind === "gone") list.again();
    else if (kind === "reset") {
      list.again();
      again();
    } else if (kind.startsWith("applicationSet")) {
      again();
      // What its Applications wait for may be something else by now.
      if (kind === "applicationSet") list.again();
    }
  });
  return () => {
    end();
    again.stop();
    list.close();
  };
}

function card(set) {
  return h("li.card", { "data-key": `${set.namespace}/${set.name}` },
    h("div", null, link(paths.set(set.namespace, set.name), set.name), " ", badge(set.health, "health")),
    rolloutBar(set), h("p.line", null, whereItIs(set)));
}
