// What the lists have in common: what is looked for and how it is ordered, both in the address.

import { fill, h, soon } from "./draw.js";

// What the address asks for, of these names.
export function asked(names) {
  const search = new URLSearchParams(location.search);
  return Object.fromEntries(names.map((name) => [name, search.get(name) ?? ""]));
}

function remember(wanted) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(wanted)) {
    if (value) search.set(name, value);
  }
  const text = search.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

// The line with what is looked for. `filters` are [name, label, choices]; `sorts` are [key, word]; `then` gets what is wanted.
export function filterBar({ filters, sorts, wanted, search, then }) {
  const change = () => {
    remember(wanted);
    then();
  };
  // Not after it has given way to another view.
  const late = soon(200, () => field.isConnected && change());
  const field = h("input", {
    type: "search", id: "search", value: wanted.name, placeholder: search, autocomplete: "off", spellcheck: "false",
    oninput: (event) => {
      wanted.name = event.target.value.trim();
      late();
    },
  });
  const choice = (name, label, choices, empty) => {
    const select = h("select", {
      id: `filter-${name}`,
      onchange: (event) => {
        wanted[name] = event.target.value;
        change();
      },
    }, empty === null ? null : h("option", { value: "" }, empty ?? "any"),
    choices.map(([value, word]) => h("option", { value, selected: wanted[name] === value }, word)));
    return h("div.field", null, h("label", { for: `filter-${name}` }, label), select);
  };
  const reverse = h("input", {
    type: "checkbox", id: "filter-reverse", checked: wanted.reverse === "true",
    onchange: (event) => {
      wanted.reverse = event.target.checked ? "true" : "";
      change();
    },
  });
  return h("form.filters", { role: "search", onsubmit: (event) => event.preventDefault() },
    h("div.field.grow", null, h("label", { for: "search" }, "Search"), field),
    filters.map(([name, label, choices]) => choice(name, label, choices)),
    sorts.length > 0 ? choice("sort", "Order by", sorts, null) : null,
    sorts.length > 0 ? h("div.field", null, h("label.check", { for: "filter-reverse" }, reverse, " reversed")) : null);
}

export const HEALTH = ["Healthy", "Progressing", "Degraded", "Missing", "Suspended", "Unknown"].map((one) => [one, one]);
export const SYNC = ["Synced", "OutOfSync", "Unknown"].map((one) => [one, one]);
export const OPERATION = ["Running", "Terminating", "Succeeded", "Failed", "Error"].map((one) => [one, one]);

// What cannot be read and belongs to nothing that is listed.
export function problemsOf(place, problems) {
  place.hidden = problems.length === 0;
  fill(place, h("h2", null, "What cannot be read"), h("ul", null, problems.map((one) => h("li", null, one))));
}
