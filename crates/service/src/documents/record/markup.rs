//! Markup that cannot be steered by what is in it: every text and every value of an attribute is escaped here, and names of
//! elements and attributes are ours.

use crate::plain;

/// Markup.
#[derive(Clone, Debug, Default)]
pub struct Markup(String);

/// A name and its value.
pub type Attribute<'a> = (&'static str, &'a str);

impl Markup {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self(escaped(text))
    }

    /// `name.class` with these in it. An empty class is none.
    pub fn element(
        name: &'static str,
        attributes: &[Attribute<'_>],
        inside: impl IntoIterator<Item = Self>,
    ) -> Self {
        let mut markup = format!("<{name}");
        for (attribute, value) in
            attributes.iter().filter(|(attribute, value)| *attribute != "class" || !value.is_empty())
        {
            markup.push_str(&format!(" {attribute}=\"{}\"", escaped(value)));
        }
        markup.push('>');
        markup.extend(inside.into_iter().map(|one| one.0));
        markup.push_str(&format!("</{name}>"));
        Self(markup)
    }

    /// An element with nothing but a text in it.
    pub fn of(name: &'static str, text: &str) -> Self {
        Self::element(name, &[], [Self::text(text)])
    }

    /// As [`Self::of`], of a class.
    pub fn classed(name: &'static str, class: &str, text: &str) -> Self {
        Self::element(name, &[("class", class)], [Self::text(text)])
    }

    /// One after the other.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect())
    }

    /// As bytes of a document.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Characters that steer terminals or reorder text are shown as what they are; those of markup are none here.
fn escaped(text: &str) -> String {
    let plain = plain::escape(text);
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
    fn no_text_and_no_value_becomes_markup() {
        let hostile = "</style></svg><script>x('y')</script>\" onload=\"z&\u{202e}\u{0}";
        let markup = Markup::element("p", &[("class", hostile), ("title", "")], [Markup::text(hostile)]);
        let safe = "&lt;/style&gt;&lt;/svg&gt;&lt;script&gt;x(&#39;y&#39;)&lt;/script&gt;&quot; onload=&quot;z&amp;\\u{202e}\\u{0}";
        assert_eq!(markup.as_str(), format!("<p class=\"{safe}\" title=\"\">{safe}</p>"));
        assert_eq!(Markup::classed("b", "", "a").as_str(), "<b>a</b>");
    }
}
