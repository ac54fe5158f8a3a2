// Display of differences by object and field. The service masks the values of Secrets.

import { h } from "./dom.js";
import { renderLineDiff } from "./line-diff.js";
import { renderBadge, formatCount, renderFinding, getObjectKey, formatObjectName } from "./format.js";

// Maximum number of displayed fields per object.
const FIELDS_MAX = 200;

export function renderDiff({ objects, warnings }) {
  const differing = objects.filter((object) => object.status !== "same");
  return [
    h("p.quiet", null, differing.length === 0 ? `No differences in ${formatCount(objects.length, "object")}.`
      : `${differing.length} of ${formatCount(objects.length, "object")} differ${differing.length === 1 ? "s" : ""}. Values of Secrets are masked.`),
    differing.map((object) => h("details.differs", { "data-key": getObjectKey(object), open: differing.length === 1 },
      h("summary", null, renderBadge(object.status), " ", formatObjectName(object), object.ignored ? " (ignored)" : "",
        h("small", null, object.estimate ? " estimate" : "", ` ${formatCount(object.changes.length, "field")}`)),
      object.error ? h("p.problem", null, `The API server rejects the manifest: ${object.error}`) : null,
      h("dl.changes", null, object.changes.slice(0, FIELDS_MAX).map(renderChange)),
      object.changes.length > FIELDS_MAX ? h("p.quiet", null, `and ${formatCount(object.changes.length - FIELDS_MAX, "more field")}, not shown`) : null)),
    warnings.length > 0 ? [h("h3", null, "Findings"), h("ul", null, warnings.map(renderFinding))] : [],
  ];
}

function renderChange(change) {
  const formatValue = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  const name = h("dt", null, h("code", null, change.path || "entire object"));
  const isText = (value) => typeof value === "string";
  if (isText(change.before) && isText(change.after) && `${change.before}${change.after}`.includes("\n")) {
    return h("div", null, name, h("dd", null, renderLineDiff(change.before, change.after)));
  }
  return h("div", null, name, h("dd", null,
    change.before === null ? null : h("pre.before", { tabindex: "0" }, h("span.unseen", null, "current: "), formatValue(change.before)),
    change.after === null ? null : h("pre.after", { tabindex: "0" }, h("span.unseen", null, "new: "), formatValue(change.after))));
}
