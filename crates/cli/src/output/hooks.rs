//! Hook output as lines that start with their source.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::ObjectKey;
use tidegate_views::output::{OutputDocument, OutputKind};

use super::text::{Style, Text, escape};

/// Formatter for lines of hook output. A line's source is as short as the sources so far allow.
#[derive(Default)]
pub struct HookLines {
    /// Pods and containers with output so far, by hook.
    sources: BTreeMap<ObjectKey, BTreeSet<(String, String)>>,
}

impl HookLines {
    /// Formats one line, without the newline.
    pub fn format_line(&mut self, document: &OutputDocument) -> Text {
        let mut text = Text::new();
        if let Some(hook) = &document.hook {
            text.add(Style::Accent, self.source_name(hook, document));
            text.add(Style::Dim, " | ");
        }
        let style = match document.kind {
            OutputKind::Line => Style::Plain,
            OutputKind::Omitted => Style::Warn,
            OutputKind::Note => {
                text.add(Style::Accent, "note");
                text.add(Style::Plain, ": ");
                Style::Plain
            }
        };
        text.add(style, escape_line(&document.text));
        text
    }

    /// Returns the hook's name, with kind and namespace if it is ambiguous, and with pod and container if the
    /// hook has several.
    fn source_name(&mut self, hook: &ObjectKey, document: &OutputDocument) -> String {
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

/// Escapes terminal control sequences and line breaks.
fn escape_line(text: &str) -> String {
    escape(text).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_document(hook: (&str, &str), pod: &str, container: &str, text: &str) -> OutputDocument {
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
    fn lines_have_short_clear_names_and_no_control_characters() {
        let mut lines = HookLines::default();
        for (document, expected) in [
            (output_document(("a", "migrate"), "migrate-x", "main", "begins"), "migrate | begins"),
            (
                output_document(("a", "smoke"), "smoke-x", "main", "\u{1b}[2Jgone\r"),
                "smoke | \\u{1b}[2Jgone\\u{d}",
            ),
            (output_document(("a", "migrate"), "migrate-x", "side", "too"), "migrate migrate-x/side | too"),
            (output_document(("a", "migrate"), "migrate-x", "main", "ends"), "migrate migrate-x/main | ends"),
            (output_document(("b", "smoke"), "smoke-y", "main", "other"), "batch/Job b/smoke | other"),
            (output_document(("a", "smoke"), "smoke-x", "main", "a\nb"), "batch/Job a/smoke | a b"),
        ] {
            let text = lines.format_line(&document).render(false);
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
            ..output_document(("", ""), "", "", "no logs are available")
        };
        assert_eq!(lines.format_line(&note).render(false), "note: no logs are available");
    }
}
