//! Masking of credentials in repository URLs.

use std::ops::Range;

use tidegate_model::argo::{Application, ApplicationSource};

/// Replacement for a masked value.
pub const MASK: &str = "******";

/// Secrets of at least this many bytes are masked anywhere in a string, shorter ones only as whole words.
const MASKED_ANYWHERE_MIN: usize = 4;

/// Locates the credentials in a URL and masks them. In an HTTP URL, a user name without a password may be a
/// token.
fn find_credentials(url: &str) -> Option<(Range<usize>, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (user, _) = rest.get(..end)?.rsplit_once('@')?;
    let begin = url.len().checked_sub(rest.len())?;
    let place = begin..begin.checked_add(user.len())?;
    let is_http = scheme.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("http"));
    match user.split_once(':') {
        // There are no credentials to mask.
        _ if user.trim_matches(':').is_empty() => None,
        _ if is_http => Some((place, MASK.to_owned())),
        Some((name, password)) if !password.is_empty() => Some((place, format!("{name}:{MASK}"))),
        _ => None,
    }
}

/// Returns a URL with its credentials masked.
pub fn without_credentials(url: &str) -> String {
    let shown = find_credentials(url).and_then(|(place, shown)| {
        let (before, after) = (url.get(..place.start)?, url.get(place.end..)?);
        Some(format!("{before}{shown}{after}"))
    });
    shown.unwrap_or_else(|| url.to_owned())
}

/// Characters that end a URL within a string.
const ADDRESS_ENDS: [char; 6] = ['"', '\'', '`', '<', '>', ','];

/// Masks the credentials in all URLs in a string.
pub fn text_without_credentials(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || ADDRESS_ENDS.contains(&c);
    text.split_inclusive(is_end)
        .map(|part| {
            let address = part.trim_end_matches(is_end);
            let end = part.strip_prefix(address).unwrap_or_default();
            format!("{}{end}", without_credentials(address))
        })
        .collect()
}

/// Masks a repository's credentials in a string that may contain the repository's URL or just the
/// credentials.
pub fn hide_credentials(text: &str, url: &str) -> String {
    let found = find_credentials(url).and_then(|(place, shown)| Some((url.get(place)?, shown)));
    let Some((user, shown)) = found else { return text.to_owned() };
    // Mask the whole URL first, so that even short user names are masked.
    let hidden = text.replace(url, &without_credentials(url));
    let hidden = replace_secret(&hidden, user, &shown);
    match user.split_once(':') {
        Some((_, password)) => replace_secret(&hidden, password, MASK),
        None => hidden,
    }
}

/// Replaces a secret wherever it occurs in a string.
fn replace_secret(text: &str, secret: &str, shown: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    let (mut hidden, mut rest) = (String::with_capacity(text.len()), text);
    let mut before = None;
    while let Some((head, tail)) = rest.split_once(secret) {
        let is_in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_part = is_in_word(head.chars().next_back().or(before)) || is_in_word(tail.chars().next());
        hidden.push_str(head);
        hidden.push_str(if is_part && secret.len() < MASKED_ANYWHERE_MIN { secret } else { shown });
        before = secret.chars().next_back();
        rest = tail;
    }
    hidden.push_str(rest);
    hidden
}

/// Returns a source with its credentials masked, for display, storage and comparison.
pub fn source_without_credentials(source: &ApplicationSource) -> ApplicationSource {
    ApplicationSource { repo_url: without_credentials(&source.repo_url), ..source.clone() }
}

/// Returns an application with its credentials masked, for display and storage.
pub fn application_without_credentials(application: &Application) -> Application {
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
    // `kubectl apply` stores a copy of the whole manifest in an annotation.
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
            ("https://@example.com/a", "https://@example.com/a"),
            ("https://:@example.com/a", "https://:@example.com/a"),
            ("https://:p@example.com/a", "https://******@example.com/a"),
            // The secret also occurs elsewhere in the URL.
            ("https://s@example.com/a", "https://******@example.com/a"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
        let told =
            hide_credentials("me:s3cret@example.com refused s3cret", "https://me:s3cret@example.com/a");
        assert_eq!(told, "******@example.com refused ******");
    }

    #[test]
    fn a_masked_text_stays_readable() {
        let words = "cannot read https://example.com/a: it has an empty user";
        for url in ["https://@example.com/a", "https://:@example.com/a", "https://e@x/a"] {
            assert_eq!(hide_credentials(words, url), words, "{url}");
        }
        for (text, url, expected) in [
            (
                "user a of https://a@example.com/a",
                "https://a@example.com/a",
                "user ****** of https://******@example.com/******",
            ),
            ("as me:pw some", "https://me:pw@example.com", "as ****** some"),
            ("xtokenx", "https://token@example.com", "x******x"),
            ("aa a aa", "https://a@example.com", "aa ****** aa"),
        ] {
            assert_eq!(hide_credentials(text, url), expected, "{url}");
        }
    }
}
