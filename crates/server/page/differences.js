// What differs, object by object and field by field. Values of Secrets are masked by whoever tells it.

import { h } from "./draw.js";
import { linesOf } from "./lines.js";
import { badge, count, findingOf, objectKey, objectName } from "./words.js";

// So many fields of an object are shown.
const SHOWN = 200;

export function diffOf({ objects, warnings }) {
  const differing = objects.filter((one) => one.status !== "same");
  return [
    h("p.quiet", null, differing.length === 0 ? `Nothing: ${count(objects.length, "object")} as in the manifests.`
      : `${differing.length} of ${count(objects.length, "object")}. Values of Secrets are masked.`),
    differing.map((one) => h("details.differs", { "data-key": objectKey(one), open: differing.length === 1 },
      h("summary", null, badge(one.status), " ", objectName(one), one.ignored ? " (does not count)" : "",
        h("small", null, one.estimate ? " estimate" : "", ` ${count(one.changes.length, "field")}`)),
      one.error ? h("p.problem", null, `The server refuses the manifest: ${one.error}`) : null,
      h("dl.changes", null, one.changes.slice(0, SHOWN).map(changeOf)),
      one.changes.length > SHOWN ? h("p.quiet", null, `and ${count(one.changes.length - SHOWN, "other field")}, which are not shown`) : null)),
    warnings.length > 0 ? [h("h3", null, "Findings"), h("ul", null, warnings.map(findingOf))] : [],
  ];
}

function changeOf(change) {
  const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  const name = h("dt", null, h("code", null, change.path || "the whole object"));
  const isText = (value) => typeof value === "string";
  if (isText(change.before) && isText(change.after) && `${change.before}${change.after}`.includes("\n")) {
    return h("div", null, name, h("dd", null, linesOf(change.before, change.after)));
  }
  return h("div", null, name, h("dd", null,
    change.before === null ? null : h("pre.before", { tabindex: "0" }, h("span.unseen", null, "now: "), shown(change.before)),
    change.after === null ? null : h("pre.after", { tabindex: "0" }, h("span.unseen", null, "then: "), shown(change.after))));
}
