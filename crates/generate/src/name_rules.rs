//! Conversion of strings to names, and the Kubernetes rules for names, keys and label values.

/// Maximum length of an Application's name in bytes.
const NAME_BYTES_MAX: usize = 253;

/// Default maximum length of a slug.
pub(crate) const SLUG_BYTES: usize = 50;

/// Converts a string to a name: lower-cases it, replaces invalid characters with `-`, and truncates it to the
/// maximum length.
pub(crate) fn normalize(text: &str) -> String {
    let allowed = |c: char| if matches!(c, 'a'..='z' | '0'..='9' | '-' | '.') { c } else { '-' };
    // All characters are single bytes from here on.
    let name: String = text.to_lowercase().chars().map(allowed).take(NAME_BYTES_MAX).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// Converts a string to words separated by `-`, truncated to `bytes_max` bytes. With `smart`, it is truncated
/// only between words.
pub(crate) fn slugify(bytes_max: usize, smart: bool, text: &str) -> String {
    slug(bytes_max, smart, &normalize(text))
}

/// Like [`slugify`], but without calling [`normalize`] first. Accented letters become their base letters, and
/// letters of other scripts are dropped.
pub(crate) fn slug(bytes_max: usize, smart: bool, text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            '"' | '\'' | '’' => {}
            '&' => slug.push_str("and"),
            '@' => slug.push_str("at"),
            _ => match transliterate(c) {
                Some(letters) => slug.push_str(letters),
                None if slug.ends_with('-') => {}
                None => slug.push('-'),
            },
        }
    }
    let slug = slug.trim_matches('-');
    if slug.len() <= bytes_max {
        return slug.to_owned();
    }
    let cut = slug.get(..bytes_max).unwrap_or(slug);
    // Keep a word that ends exactly at the limit.
    let ends_there = slug.get(bytes_max..).is_some_and(|rest| rest.starts_with('-'));
    let cut = match cut.rfind('-') {
        Some(end) if smart && !ends_there => cut.get(..end).unwrap_or(cut),
        _ => cut,
    };
    cut.trim_matches('-').to_owned()
}

/// Returns the base letters of an accented letter, or `None` if it isn't a Western European letter.
fn transliterate(c: char) -> Option<&'static str> {
    Some(match c {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => "a",
        'è' | 'é' | 'ê' | 'ë' => "e",
        'ì' | 'í' | 'î' | 'ï' => "i",
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' => "o",
        'ù' | 'ú' | 'û' | 'ü' => "u",
        'ý' | 'ÿ' => "y",
        'ç' => "c",
        'ñ' => "n",
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        _ => return None,
    })
}

/// Returns the reason Kubernetes rejects a name, or `None` if it is valid.
pub(crate) fn invalid_name_reason(name: &str) -> Option<&'static str> {
    let is_part = |part: &str| {
        let ends = [part.chars().next(), part.chars().last()];
        let can_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        ends.into_iter().all(can_end) && part.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'))
    };
    if name.is_empty() {
        Some("the name is empty")
    } else if name.len() > NAME_BYTES_MAX {
        Some("the name is longer than 253 bytes")
    } else if !name.split('.').all(is_part) {
        Some("use only lower-case letters, digits, '-' and '.', with a letter or digit at both ends")
    } else {
        None
    }
}

/// Returns the reason Kubernetes rejects a label key, annotation key or finalizer (a "qualified name"), or
/// `None` if it is valid.
pub(crate) fn invalid_key_reason(key: &str) -> Option<&'static str> {
    let name = match key.split_once('/') {
        Some((prefix, _)) if invalid_name_reason(prefix).is_some() => {
            return Some("the prefix before / must be a lower-case DNS name, such as example.org");
        }
        Some((_, name)) => name,
        None => key,
    };
    if name.is_empty() || !is_label_value(name) {
        Some("use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends")
    } else {
        None
    }
}

/// Returns the reason Kubernetes rejects a label value, or `None` if it is valid.
pub(crate) fn invalid_label_value_reason(value: &str) -> Option<&'static str> {
    (!is_label_value(value))
        .then_some("use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends")
}

/// Returns true if a string is a valid label value.
fn is_label_value(text: &str) -> bool {
    const BYTES_MAX: usize = 63;
    let can_end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= BYTES_MAX
        && can_end(text.chars().next())
        && can_end(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Truncates a string to the given number of characters.
pub(crate) fn truncate(text: &str, characters_max: usize) -> &str {
    text.char_indices().nth(characters_max).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_names() {
        for (text, name) in [
            ("Prod_EU", "prod-eu"),
            ("a.b-c", "a.b-c"),
            ("-.shop.-", "shop"),
            ("https://example.com/a b", "https---example.com-a-b"),
            ("Zürich", "z-rich"),
            ("", ""),
        ] {
            assert_eq!(normalize(text), name, "{text}");
        }
        assert_eq!(normalize(&"a".repeat(300)).len(), 253);
        assert_eq!(
            normalize(&format!("{}-b", "a".repeat(252))).len(),
            252,
            "the name does not end with a dash"
        );
    }

    #[test]
    fn slugs_are_cut_between_words() {
        let words = "feat/a_really+long_pull_request_name_to_test_argo_slugification_and_branch_name_shortening_feature";
        let word = "feat/areallylongpullrequestnametotestargoslugificationandbranchnameshorteningfeature";
        for (bytes_max, smart, text, expected) in [
            (50, false, words, "feat-a-really-long-pull-request-name-to-test-argo"),
            (53, true, words, "feat-a-really-long-pull-request-name-to-test-argo"),
            (50, true, word, "feat"),
            (50, false, word, "feat-areallylongpullrequestnametotestargoslugifica"),
            (4, true, "feat/a", "feat"),
            (2, true, "feat", "fe"),
            (50, true, "", ""),
            (50, true, "a__b--c", "a-b-c"),
        ] {
            assert_eq!(slugify(bytes_max, smart, text), expected, "{text} to {bytes_max}, {smart}");
        }
        assert_eq!(slug(50, true, "Größe & Maß_1"), "grosse-and-mass-1");
    }

    /// The rows come from `TestIsQualifiedName` and `TestIsValidLabelValue` in Kubernetes' apimachinery
    /// package.
    #[test]
    fn keys_and_values_that_kubernetes_rejects_are_found() {
        for key in [
            "simple",
            "now-with-dashes",
            "1-starts-with-num",
            "1234",
            "simple/simple",
            "now-with-dashes/simple",
            "1.2.3.4/5678",
            "Uppercase_Is_OK_123",
            "example.com/Uppercase_Is_OK_123",
            "requests.storage-foo",
        ] {
            assert_eq!(invalid_key_reason(key), None, "{key}");
        }
        for key in [
            "",
            "/",
            "a/",
            "/a",
            "nospecialchars%^=@",
            "cantendwithadash-",
            "-cantstartwithadash-",
            "only/one/slash",
            "Example.com/abc",
            "example_com/abc",
            "example.com/",
            "{{ .a }}",
            &"a".repeat(64),
        ] {
            assert!(invalid_key_reason(key).is_some(), "{key}");
        }
        for value in ["", "a", "A.b_c-1", &"a".repeat(63)] {
            assert_eq!(invalid_label_value_reason(value), None, "{value}");
        }
        for value in ["a b", "-a", "a-", "a/b", "é", &"a".repeat(64)] {
            assert!(invalid_label_value_reason(value).is_some(), "{value}");
        }
    }

    #[test]
    fn names_that_kubernetes_rejects_are_found() {
        for name in ["a", "a-b.c1", "1a", &"a".repeat(253)] {
            assert_eq!(invalid_name_reason(name), None, "{name}");
        }
        for name in ["", "A", "a_b", "-a", "a-", "a..b", "a.", "é", "{{name}}", "a b", &"a".repeat(254)] {
            assert!(invalid_name_reason(name).is_some(), "{name}");
        }
    }
}
