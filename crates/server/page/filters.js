// Filters and sort order of lists. Both are stored in the address.

import { fill, h, debounce } from "./dom.js";

// Reads the values of the named filters from the address.
export function readFilters(names) {
  const search = new URLSearchParams(location.search);
  return Object.fromEntries(names.map((name) => [name, search.get(name) ?? ""]));
}

function writeFilters(values) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value) search.set(name, value);
  }
  const text = search.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

// Converts a timestamp to the format of a datetime input, in the reader's time zone, and back.
function toInputValue(timestamp) {
  const date = new Date(timestamp);
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

function toTimestamp(text) {
  const date = new Date(text);
  return text && !Number.isNaN(date.getTime()) ? date.toISOString() : "";
}

// Creates the bar with search, filters and order. `filters` are [name, label, choices]; `fields` are [name, label, placeholder]; `moments`
// are [name, label]; `sorts` are [key, text]. `onChange` is called after each change of `values`.
export function createFilterBar({ filters, fields = [], moments = [], sorts, values, search, onChange }) {
  const change = () => {
    writeFilters(values);
    onChange();
  };
  // The user may have left the view in the meantime.
  const changeLater = debounce(200, () => field.isConnected && change());
  const field = h("input", {
    type: "search", id: "search", value: values.name, placeholder: search, autocomplete: "off", spellcheck: "false",
    oninput: (event) => {
      values.name = event.target.value.trim();
      changeLater();
    },
  });
  const createInput = (name, label, attributes, [format, parse]) => h("div.field", null, h("label", { for: `filter-${name}` }, label), h("input", {
    ...attributes, id: `filter-${name}`, value: format(values[name]), autocomplete: "off",
    onchange: (event) => {
      values[name] = parse(event.target.value.trim());
      change();
    },
  }));
  const unchanged = [(text) => text, (text) => text];
  const createSelect = (name, label, choices, empty) => {
    const select = h("select", {
      id: `filter-${name}`,
      onchange: (event) => {
        values[name] = event.target.value;
        change();
      },
    }, empty === null ? null : h("option", { value: "" }, empty ?? "any"),
    choices.map(([value, text]) => h("option", { value, selected: values[name] === value }, text)));
    return h("div.field", null, h("label", { for: `filter-${name}` }, label), select);
  };
  const reverse = h("input", {
    type: "checkbox", id: "filter-reverse", checked: values.reverse === "true",
    onchange: (event) => {
      values.reverse = event.target.checked ? "true" : "";
      change();
    },
  });
  return h("form.filters", { role: "search", onsubmit: (event) => event.preventDefault() },
    h("div.field.grow", null, h("label", { for: "search" }, "Search"), field),
    filters.map(([name, label, choices]) => createSelect(name, label, choices)),
    fields.map(([name, label, placeholder]) => createInput(name, label, { type: "text", placeholder, spellcheck: "false" }, unchanged)),
    moments.map(([name, label]) => createInput(name, label, { type: "datetime-local" }, [toInputValue, toTimestamp])),
    sorts.length > 0 ? createSelect("sort", "Sort by", sorts, null) : null,
    sorts.length > 0 ? h("div.field", null, h("label.check", { for: "filter-reverse" }, reverse, " reversed")) : null);
}

export const HEALTH = ["Healthy", "Progressing", "Degraded", "Missing", "Suspended", "Unknown"].map((value) => [value, value]);
export const SYNC = ["Synced", "OutOfSync", "Unknown"].map((value) => [value, value]);
export const OPERATION = ["Running", "Terminating", "Succeeded", "Failed", "Error", "Superseded"].map((value) => [value, value]);

// Shows read errors for files that don't correspond to an item in the list.
export function showReadErrors(element, problems) {
  element.hidden = problems.length === 0;
  fill(element, h("h2", null, "Read errors"), h("ul", null, problems.map((problem) => h("li", null, problem))));
}
