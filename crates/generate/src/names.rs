//! Names made of other texts.

/// How long the name of an Application can be, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// How long a slug is if nobody says.
pub(crate) const SLUG_BYTES: usize = 50;

/// A text as a name: in lower case, `-` for what cannot be in a name, and no longer than a name can be.
pub(crate) fn normalize(text: &str) -> String {
    let allowed = |c: char| if matches!(c, 'a'..='z' | '0'..='9' | '-' | '.') { c } else { '-' };
    // All of them are one byte long now.
    let name: String = text.to_lowercase().chars().map(allowed).take(NAME_BYTES_MAX).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// A text in words with `-` between them, cut to some bytes: between two words, where `smart`.
pub(crate) fn slugify(bytes_max: usize, smart: bool, text: &str) -> String {
    slug(bytes_max, smart, &normalize(text))
}

/// The same without [`normalize`] before: what is no letter of English is written as its likeness, or left out.
pub(crate) fn slug(bytes_max: usize, smart: bool, text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            '"' | '\'' | '’' => {}
            '&' => slug.push_str("and"),
            '@' => slug.push_str("at"),
            _ => match likeness(c) {
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
    // A word that ends right there stays.
    let ends_there = slug.get(bytes_max..).is_some_and(|rest| rest.starts_with('-'));
    let cut = match cut.rfind('-') {
        Some(end) if smart && !ends_there => cut.get(..end).unwrap_or(cut),
        _ => cut,
    };
    cut.trim_matches('-').to_owned()
}

/// Letters of Western Europe without their marks.
fn likeness(c: char) -> Option<&'static str> {
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

/// Why Kubernetes takes no object of this name, where it does not.
pub(crate) fn unusable(name: &str) -> Option<&'static str> {
    let is_part = |part: &str| {
        let ends = [part.chars().next(), part.chars().last()];
        let can_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        ends.into_iter().all(can_end) && part.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'))
    };
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > NAME_BYTES_MAX {
        Some("it is longer than 253 bytes")
    } else if !name.split('.').all(is_part) {
        Some(
            "it may have lower case letters, digits, '-' and '.' only, and must begin and end with a letter or digit",
        )
    } else {
        None
    }
}

/// The beginning of a text, of at most so many characters.
pub(crate) fn beginning(text: &str, characters_max: usize) -> &str {
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
        assert_eq!(normalize(&format!("{}-b", "a".repeat(252))).len(), 252, "no dash is left at the end");
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

    #[test]
    fn names_that_kubernetes_refuses_are_told() {
        for name in ["a", "a-b.c1", "1a", &"a".repeat(253)] {
            assert_eq!(unusable(name), None, "{name}");
        }
        for name in ["", "A", "a_b", "-a", "a-", "a..b", "a.", "é", "{{name}}", "a b", &"a".repeat(254)] {
            assert!(unusable(name).is_some(), "{name}");
        }
    }
}
