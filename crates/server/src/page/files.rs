//! Files of the page.

/// A file of the page.
pub(super) struct PageFile {
    /// Path of the file.
    pub path: &'static str,
    pub media_type: &'static str,
    pub bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// File that every view loads first.
pub(super) const INDEX: PageFile = PageFile {
    path: "/",
    media_type: "text/html; charset=utf-8",
    bytes: include_bytes!("../../page/index.html"),
};

macro_rules! file {
    ($media:expr, $name:literal) => {
        PageFile {
            path: concat!("/page/", $name),
            media_type: $media,
            bytes: include_bytes!(concat!("../../page/", $name)),
        }
    };
}

/// All other files.
pub(super) static OTHERS: [PageFile; 32] = [
    file!("text/css; charset=utf-8", "style.css"),
    file!("image/svg+xml", "icon.svg"),
    file!(SCRIPT, "main.js"),
    file!(SCRIPT, "api.js"),
    file!(SCRIPT, "dom.js"),
    file!(SCRIPT, "format.js"),
    file!(SCRIPT, "events.js"),
    file!(SCRIPT, "sign-in.js"),
    file!(SCRIPT, "virtual-list.js"),
    file!(SCRIPT, "line-diff.js"),
    file!(SCRIPT, "filters.js"),
    file!(SCRIPT, "applications.js"),
    file!(SCRIPT, "appsets.js"),
    file!(SCRIPT, "operations.js"),
    file!(SCRIPT, "application.js"),
    file!(SCRIPT, "diff.js"),
    file!(SCRIPT, "stored-plans.js"),
    file!(SCRIPT, "operation.js"),
    file!(SCRIPT, "output.js"),
    file!(SCRIPT, "timeline-row.js"),
    file!(SCRIPT, "timeline-model.js"),
    file!(SCRIPT, "timeline.js"),
    file!(SCRIPT, "appset.js"),
    file!(SCRIPT, "preview.js"),
    file!(SCRIPT, "run-list.js"),
    file!(SCRIPT, "run.js"),
    file!(SCRIPT, "actions.js"),
    file!(SCRIPT, "appset-actions.js"),
    file!(SCRIPT, "decisions.js"),
    file!(SCRIPT, "dialog.js"),
    file!(SCRIPT, "svg-export.js"),
    file!(SCRIPT, "waves.js"),
];
