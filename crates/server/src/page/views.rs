//! Views of the page.

/// Paths of the views. All of them serve the same file; the page itself interprets the path.
pub(super) const VIEWS: [&str; 7] = [
    "/",
    "/applicationsets",
    "/operations",
    "/applications/{namespace}/{name}",
    "/applicationsets/{namespace}/{name}",
    "/applicationsets/{namespace}/{name}/runs/{id}",
    "/operations/{id}",
];
/// Maximum length of a view's URL in bytes.
pub(super) const VIEW_MAX: usize = 2048;

/// Returns true if a path with a query leads to a view, rather than to another host, a file or an API route.
pub(crate) fn is_view(target: &str) -> bool {
    // Browsers drop some of the excluded characters or convert them to slashes.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\#\"<>^`{|}".contains(&byte);
    let (path, _) = target.split_once('?').unwrap_or((target, ""));
    let is_up = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    let is_like = |view: &str| {
        let fits = |(wanted, part): (&str, &str)| match wanted.starts_with('{') {
            true => !part.is_empty() && !is_up(part),
            false => wanted == part,
        };
        view.split('/').count() == path.split('/').count() && view.split('/').zip(path.split('/')).all(fits)
    };
    target.len() <= VIEW_MAX && target.bytes().all(is_plain) && VIEWS.into_iter().any(is_like)
}
