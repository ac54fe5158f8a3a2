//! What hooks write, line by line, each with where it comes from.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::ObjectKey;
use tidegate_service::documents::output::{OutputDocument, OutputKind};

use super::text::{Style, Text, escape};

/// Names the source of each line as shortly as what has come so far allows.
#[derive(Default)]
pub struct HookLines {
    /// Of each hook, the pods and containers that have written something.
    sources: BTreeMap<ObjectKey, BTreeSet<(String, String)>>,
}

impl HookLines {
    /// One line, without its end.
    pub fn text(&mut self, document: &OutputDocument) -> Text {
        let mut text = Text::new();
        if let Some(hook) = &document.hook {
            text.add(Style::Accent, self.name(hook, document));
            text.add(Style::Dim, " | ");
        }
        let style = match document.kind {
            OutputKind::Line => Style::Plain,
            OutputKind::LeftOut => Style::Warn,
            OutputKind::Note => {
                text.add(Style::Accent, "note");
                text.add(Style::Plain, ": ");
                Style::Plain
            }
        };
        text.add(style, line(&document.text));
        text
    }

    /// The hook; with its kind and namespace where another has its name, and with pod and container where it has several.
    fn name(&mut self, hook: &ObjectKey, document: &OutputDocument) -> String {
        let sources = self.sources.entry(hook.clone()).or_default();
        let source = document.pod.clone().zip(document.container.clone());
        sources.extend(source.clone());
        let has_several = sources.len() > 1;
        let is_alone = self.sources.keys().filter(|known| known.name == hook.name).count() < 2;
        let name = if is_alone { hook.name.clone() } else { hook.to_string() };
        match source.filter(|_| has_several) {
            Some((pod, container)) => format!("{name} {pod}/{container}"),
            None => name,
        }
    }
}

/// What could steer a terminal is escaped, and nothing makes two lines of one.
fn line(text: &str) -> String {
    escape(text).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(hook: (&str, &str), pod: &str, container: &str, text: &str) -> OutputDocument {
        OutputDocument {
            kind: OutputKind::Line,
            hook: Some(ObjectKey::new("batch", "Job", hook.0, hook.1)),
            pod: Some(pod.to_owned()),
            container: Some(container.to_owned()),
            at: None,
            lines: None,
            text: text.to_owned(),
        }
    }

    #[test]
    fn lines_are_named_as_shortly_as_is_clear_and_steer_no_terminal() {
        let mut lines = HookLines::default();
        for (document, expected) in [
            (told(("a", "migrate"), "migrate-x", "main", "begins"), "migrate | begins"),
            (told(("a", "smoke"), "smoke-x", "main", "\u{1b}[2Jgone\r"), "smoke | \\u{1b}[2Jgone\\u{d}"),
            (told(("a", "migrate"), "migrate-x", "side", "too"), "migrate migrate-x/side | too"),
            (told(("a", "migrate"), "migrate-x", "main", "ends"), "migrate migrate-x/main | ends"),
            (told(("b", "smoke"), "smoke-y", "main", "other"), "batch/Job b/smoke | other"),
            (told(("a", "smoke"), "smoke-x", "main", "a\nb"), "batch/Job a/smoke | a b"),
        ] {
            let text = lines.text(&document).render(false);
            let (_, shown) = text.split_once(" | ").unwrap();
            assert!(expected.ends_with(shown), "{text}");
            if !expected.starts_with("batch") {
                assert_eq!(text, expected);
            }
        }
        let note = OutputDocument {
            kind: OutputKind::Note,
            hook: None,
            pod: None,
            container: None,
            ..told(("", ""), "", "", "no logs can be had")
        };
        assert_eq!(lines.text(&note).render(false), "note: no logs can be had");
    }
}
