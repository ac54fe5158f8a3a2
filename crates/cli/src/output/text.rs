//! Human-readable text. Content from files and clusters is escaped as it is added, so that only Tidegate's
//! own styles control the terminal.

use std::fmt::Write as _;

pub use tidegate_state::sanitize::{escape, is_dangerous, one_line};

/// Style of text on a color terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Unstyled.
    Plain,
    /// Headings and names.
    Bold,
    /// Less important text.
    Dim,
    /// Success.
    Good,
    /// Failure.
    Bad,
    /// Warning.
    Warn,
    /// Locations: phases and waves.
    Accent,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "33",
            Self::Accent => "36",
        }
    }
}

/// One or more lines of styled text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pieces: Vec<(Style, String)>,
}

impl Text {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates unstyled text.
    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::new().push(Style::Plain, text)
    }

    #[must_use]
    pub fn push(mut self, style: Style, text: impl AsRef<str>) -> Self {
        self.add(style, text);
        self
    }

    pub fn add(&mut self, style: Style, text: impl AsRef<str>) {
        self.pieces.push((style, escape(text.as_ref())));
    }

    pub fn end_line(&mut self) {
        self.pieces.push((Style::Plain, "\n".to_owned()));
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn append(&mut self, mut other: Self) {
        self.pieces.append(&mut other.pieces);
    }

    /// Renders the text, with or without color.
    pub fn render(&self, colour: bool) -> String {
        let mut rendered = String::new();
        for (style, text) in &self.pieces {
            if colour && *style != Style::Plain {
                // Writing to a String can't fail.
                let _ = write!(rendered, "\u{1b}[{}m{text}\u{1b}[0m", style.code());
            } else {
                rendered.push_str(text);
            }
        }
        rendered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_appear_only_with_color() {
        let text = Text::plain("a ").push(Style::Bad, "b\u{1b}");
        assert_eq!(text.render(false), "a b\\u{1b}");
        assert_eq!(text.render(true), "a \u{1b}[31mb\\u{1b}\u{1b}[0m");
    }
}
