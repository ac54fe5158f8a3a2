/// One document of a multi-document file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Document<'t> {
    /// Text of the document, including its `---` line.
    pub text: &'t str,
    /// Number of lines that precede the document in the file.
    pub lines_before: u64,
}

/// Splits a string at its document markers. Each document is then parsed on its own, so that an error in one
/// doesn't hide errors in others.
///
/// This is safe in YAML: `---` or `...` at the very start of a line is always a marker, even inside block
/// scalars.
pub(super) fn split_documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut start, mut at, mut lines_before, mut line) = (0, 0, 0, 0);
    let mut only_directives = false;
    for content in text.split_inclusive('\n') {
        let begins = is_marker(content, "---") && at > start && !only_directives;
        if begins {
            documents.push(Document { text: text.get(start..at).unwrap_or_default(), lines_before });
            (start, lines_before) = (at, line);
        }
        // `%YAML` and `%TAG` lines belong to the document that starts at the next `---`.
        let is_directive = content.starts_with('%') && (at == start || only_directives);
        only_directives = is_directive || (only_directives && is_blank(content));
        at += content.len();
        line += 1;
        if is_marker(content, "...") {
            documents.push(Document { text: text.get(start..at).unwrap_or_default(), lines_before });
            (start, lines_before) = (at, line);
            only_directives = false;
        }
    }
    if start < text.len() {
        documents.push(Document { text: text.get(start..).unwrap_or_default(), lines_before });
    }
    documents
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Returns true if a document contains only markers, comments and whitespace.
pub(super) fn is_empty(document: &str) -> bool {
    document.lines().all(|line| {
        let line = if is_marker(line, "---") || is_marker(line, "...") {
            line.get(3..).unwrap_or_default()
        } else {
            line
        };
        is_blank(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_at_markers(text: &str) -> Vec<(&str, u64)> {
        split_documents(text).into_iter().map(|document| (document.text, document.lines_before)).collect()
    }

    #[test]
    fn documents_keep_their_line_numbers() {
        assert_eq!(
            split_at_markers("a: 1\n---\nb: 2\n--- # c\nc: 3"),
            [("a: 1\n", 0), ("---\nb: 2\n", 1), ("--- # c\nc: 3", 3)]
        );
        assert_eq!(
            split_at_markers("---\na: 1\n...\n---\nb: 2\n"),
            [("---\na: 1\n...\n", 0), ("---\nb: 2\n", 3)]
        );
        assert_eq!(split_at_markers("%YAML 1.2\n# x\n---\na: 1\n"), [("%YAML 1.2\n# x\n---\na: 1\n", 0)]);
        assert_eq!(split_at_markers("a: |\n ---\n ----\n----\n"), [("a: |\n ---\n ----\n----\n", 0)]);
        assert_eq!(split_at_markers(""), []);
    }

    #[test]
    fn comments_and_markers_are_empty() {
        assert!(is_empty("--- # nothing\n\n  # here\n...\n"));
        assert!(!is_empty("--- a\n"));
        assert!(!is_empty("----\n"));
    }
}
