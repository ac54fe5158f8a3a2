//! The files of the page.

/// A file of the page.
pub(super) struct File {
    /// Where it is.
    pub path: &'static str,
    pub media: &'static str,
    pub bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What every view begins with.
pub(super) const INDEX: File =
    File { path: "/", media: "text/html; charset=utf-8", bytes: include_bytes!("../../page/index.html") };

macro_rules! file {
    ($media:expr, $name:literal) => {
        File {
            path: concat!("/page/", $name),
            media: $media,
            bytes: include_bytes!(concat!("../../page/", $name)),
        }
    };
}

/// All others.
pub(super) static OTHERS: [File; 32] = [
    file!("text/css; charset=utf-8", "style.css"),
    file!("image/svg+xml", "icon.svg"),
    file!(SCRIPT, "main.js"),
    file!(SCRIPT, "ask.js"),
    file!(SCRIPT, "draw.js"),
    file!(SCRIPT, "words.js"),
    file!(SCRIPT, "news.js"),
    file!(SCRIPT, "sign-in.js"),
    file!(SCRIPT, "scroll.js"),
    file!(SCRIPT, "lines.js"),
    file!(SCRIPT, "lists.js"),
    file!(SCRIPT, "fleet.js"),
    file!(SCRIPT, "sets.js"),
    file!(SCRIPT, "operations.js"),
    file!(SCRIPT, "application.js"),
    file!(SCRIPT, "differences.js"),
    file!(SCRIPT, "kept.js"),
    file!(SCRIPT, "operation.js"),
    file!(SCRIPT, "output.js"),
    file!(SCRIPT, "line.js"),
    file!(SCRIPT, "story.js"),
    file!(SCRIPT, "timeline.js"),
    file!(SCRIPT, "rollout.js"),
    file!(SCRIPT, "foreseen.js"),
    file!(SCRIPT, "runs.js"),
    file!(SCRIPT, "run.js"),
    file!(SCRIPT, "steer.js"),
    file!(SCRIPT, "steer-set.js"),
    file!(SCRIPT, "decided.js"),
    file!(SCRIPT, "dialog.js"),
    file!(SCRIPT, "picture.js"),
    file!(SCRIPT, "waves.js"),
];
