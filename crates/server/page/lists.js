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

// A moment as the field of a form has it, in the zone of the reader; and as the API has it.
function local(moment) {
  const at = new Date(moment);
  return Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

function moment(text) {
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
}

// The line with what is looked for. `filters` are [name, label, choices]; `fields` are [name, label, placeholder], `moments`
// [name, label]; `sorts` are [key, word]; `then` gets what is wanted.
export function filterBar({ filters, fields = [], moments = [], sorts, wanted, search, then }) {
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
  const written = (name, label, attributes, [shown, meant]) => h("div.field", null, h("label", { for: `filter-${name}` }, label), h("input", {
    ...attributes, id: `filter-${name}`, value: shown(wanted[name]), autocomplete: "off",
    onchange: (event) => {
      wanted[name] = meant(event.target.value.trim());
      change();
    },
  }));
  const asIs = [(text) => text, (text) => text];
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
    fields.map(([name, label, placeholder]) => written(name, label, { type: "text", placeholder, spellcheck: "false" }, asIs)),
    moments.map(([name, label]) => written(name, label, { type: "datetime-local" }, [local, moment])),
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
