//! Markup without injection risk: all text and attribute values are escaped here, and element and attribute
//! names are static.

use tidegate_state::sanitize;

/// A piece of markup.
#[derive(Clone, Debug, Default)]
pub struct Markup(String);

/// An attribute's name and value.
pub type Attribute<'a> = (&'static str, &'a str);

impl Markup {
    /// Creates text content.
    pub fn text(text: &str) -> Self {
        Self(escape_markup(text))
    }

    /// Creates an element with attributes and content. Omits an empty class.
    pub fn element(
        name: &'static str,
        attributes: &[Attribute<'_>],
        inside: impl IntoIterator<Item = Self>,
    ) -> Self {
        let mut markup = format!("<{name}");
        for (attribute, value) in
            attributes.iter().filter(|(attribute, value)| *attribute != "class" || !value.is_empty())
        {
            markup.push_str(&format!(" {attribute}=\"{}\"", escape_markup(value)));
        }
        markup.push('>');
        markup.extend(inside.into_iter().map(|one| one.0));
        markup.push_str(&format!("</{name}>"));
        Self(markup)
    }

    /// Creates an element that contains only text.
    pub fn text_element(name: &'static str, text: &str) -> Self {
        Self::element(name, &[], [Self::text(text)])
    }

    /// Creates a text element with a class.
    pub fn text_element_with_class(name: &'static str, class: &str, text: &str) -> Self {
        Self::element(name, &[("class", class)], [Self::text(text)])
    }

    /// Concatenates parts.
    pub fn concat(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect())
    }

    /// Returns the markup as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Escapes characters that have a meaning in markup, control terminals or reorder text.
fn escape_markup(text: &str) -> String {
    let plain = sanitize::escape(text);
    plain.chars().fold(String::with_capacity(plain.len()), |mut safe, c| {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
        safe
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_or_value_becomes_markup() {
        let hostile = "</style></svg><script>x('y')</script>\" onload=\"z&\u{202e}\u{0}";
        let markup = Markup::element("p", &[("class", hostile), ("title", "")], [Markup::text(hostile)]);
        let safe = "&lt;/style&gt;&lt;/svg&gt;&lt;script&gt;x(&#39;y&#39;)&lt;/script&gt;&quot; onload=&quot;z&amp;\\u{202e}\\u{0}";
        assert_eq!(markup.as_str(), format!("<p class=\"{safe}\" title=\"\">{safe}</p>"));
        assert_eq!(Markup::text_element_with_class("b", "", "a").as_str(), "<b>a</b>");
    }
}
