//! What of a resource must not be seen: credentials in the addresses of repositories.

use tidegate_model::argo::{Application, ApplicationSource};

/// Stands for what is not shown.
pub const HIDDEN: &str = "******";

/// What is secret in an address, and what is shown in its place. By HTTP a user alone may be a token.
fn credentials(url: &str) -> Option<(&str, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (user, _) = rest.get(..end)?.rsplit_once('@')?;
    let is_http = scheme.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("http"));
    match user.split_once(':') {
        _ if is_http => Some((user, HIDDEN.to_owned())),
        Some((name, password)) if !password.is_empty() => Some((user, format!("{name}:{HIDDEN}"))),
        _ => None,
    }
}

/// An address without its credentials.
pub fn without_credentials(url: &str) -> String {
    match credentials(url) {
        Some((user, shown)) => url.replacen(user, &shown, 1),
        None => url.to_owned(),
    }
}

/// What an address in a text ends at.
const ENDS: [char; 6] = ['"', '\'', '`', '<', '>', ','];

/// A text without the credentials of whatever addresses are in it.
pub fn text_without_credentials(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || ENDS.contains(&c);
    text.split_inclusive(is_end)
        .map(|part| {
            let address = part.trim_end_matches(is_end);
            let end = part.strip_prefix(address).unwrap_or_default();
            format!("{}{end}", without_credentials(address))
        })
        .collect()
}

/// A text about a repository, without the credentials of its address.
pub fn hide_credentials(text: &str, url: &str) -> String {
    let Some((user, shown)) = credentials(url) else { return text.to_owned() };
    let mut hidden = text.replace(user, &shown);
    if let Some((_, password)) = user.split_once(':')
        && !password.is_empty()
    {
        hidden = hidden.replace(password, HIDDEN);
    }
    hidden
}

/// A source without credentials: to be shown, kept and compared.
pub fn bare(source: &ApplicationSource) -> ApplicationSource {
    ApplicationSource { repo_url: without_credentials(&source.repo_url), ..source.clone() }
}

/// An application without credentials, to be shown and kept.
pub fn shown(application: &Application) -> Application {
    let mut shown = application.clone();
    let spec = &mut shown.spec;
    for source in spec.source.iter_mut().chain(&mut spec.sources) {
        source.repo_url = without_credentials(&source.repo_url);
    }
    if let Some(sync) = shown.operation.as_mut().and_then(|asked| asked.sync.as_mut()) {
        for source in sync.source.iter_mut().chain(&mut sync.sources) {
            source.repo_url = without_credentials(&source.repo_url);
        }
    }
    // `kubectl apply` keeps a copy of all that is wanted.
    for value in shown.metadata.annotations.values_mut() {
        for source in application.spec.source.iter().chain(&application.spec.sources) {
            *value = hide_credentials(value, &source.repo_url);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        for (url, shown) in [
            ("https://example.com/a.git", "https://example.com/a.git"),
            ("https://me:pass@example.com/a.git", "https://******@example.com/a.git"),
            ("HTTPS://token@example.com", "HTTPS://******@example.com"),
            ("https://me:p@ss@example.com/a@b", "https://******@example.com/a@b"),
            ("https://example.com/a@b", "https://example.com/a@b"),
            ("ssh://git@example.com/a", "ssh://git@example.com/a"),
            ("ssh://git:pass@example.com/a", "ssh://git:******@example.com/a"),
            ("git@example.com:a.git", "git@example.com:a.git"),
            ("./repo", "./repo"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
        let told =
            hide_credentials("me:s3cret@example.com refused s3cret", "https://me:s3cret@example.com/a");
        assert_eq!(told, "******@example.com refused ******");
    }
}
