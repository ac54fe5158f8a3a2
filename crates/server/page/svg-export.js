// Pictures for download: SVG files that define their own colors, because a file has no style sheet.

import { h, svg } from "./dom.js";

const EXPORT_STYLE = "text{font:12px sans-serif;fill:#1a2330}text.quiet,text.axis{fill:#55606e}text.title{font-size:16px;font-weight:bold}.head text,text.strong{font-weight:bold}"
  + ".dull{fill:#c3cad4}.frame{fill:#d5dae1}.good{fill:#1f8f4e}.busy{fill:#2f7ad1}.wait{fill:#e0a100}.warn{fill:#c96f00}.bad{fill:#c9302c}"
  + ".grid{stroke:#d5dae1}.through{stroke:#000;stroke-dasharray:3 3}rect.paper{fill:#fff}rect.card{fill:#fff;stroke:#d5dae1}rect.empty{fill:#edeff2}";

// Shortens a text to a maximum length.
export function truncate(text, maxLength) {
  return text.length <= maxLength ? text : `${text.slice(0, Math.max(3, maxLength - 1))}…`;
}

// Saves a picture as a file.
export function savePicture(picture, name) {
  const style = svg("style");
  style.textContent = EXPORT_STYLE;
  picture.prepend(style, svg("rect.paper", { width: "100%", height: "100%" }));
  const file = new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
  const url = URL.createObjectURL(file);
  const anchor = h("a", { href: url, download: `${name}.svg` });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  URL.revokeObjectURL(url);
}

// Creates a download button. `draw` creates the picture when the button is clicked; `subject` describes the
// picture for screen readers.
export function createSaveButton(subject, name, draw) {
  return h("button", { type: "button", onclick: () => savePicture(draw(), name), "data-do": `save ${subject}`, "aria-label": `Save ${subject} as SVG` }, "Save as SVG");
}
