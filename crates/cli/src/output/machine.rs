//! JSON and YAML for programs, without characters that could steer a terminal.

use std::fmt::Write as _;

use serde::Serialize;

use super::text::is_dangerous;
use crate::args::Format;
use crate::error::CliError;

/// A value as a document that ends with a line end.
pub fn document<T: Serialize + ?Sized>(value: &T, format: Format) -> Result<String, CliError> {
    let mut document = match format {
        Format::Yaml => yaml(&value)?,
        Format::Json | Format::Text => json(value)?,
    };
    if !document.ends_with('\n') {
        document.push('\n');
    }
    Ok(document)
}

/// A value as one of many that follow each other: JSON on one line, YAML as a document of its own.
pub fn entry<T: Serialize + ?Sized>(value: &T, format: Format) -> Result<String, CliError> {
    if format == Format::Yaml {
        return Ok(format!("---\n{}", document(value, format)?));
    }
    let text = serde_json::to_string(value).map_err(|error| not_json(&error))?;
    Ok(harmless(&text) + "\n")
}

fn not_json(error: &serde_json::Error) -> CliError {
    CliError::Unprintable { format: "JSON", reason: error.to_string() }
}

fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, CliError> {
    Ok(harmless(&serde_json::to_string_pretty(value).map_err(|error| not_json(&error))?))
}

/// The serialiser escapes the old control characters; the newer ones only occur inside strings as well.
fn harmless(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if is_dangerous(c) {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
        safe
    })
}

fn yaml<T: Serialize>(value: &T) -> Result<String, CliError> {
    let unprintable = |reason: String| CliError::Unprintable { format: "YAML", reason };
    let text = serde_saphyr::to_string(value).map_err(|error| unprintable(error.to_string()))?;
    // A scalar with such a character would have to be quoted; JSON always is, and is YAML too.
    if text.chars().any(is_dangerous) { json(value) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_hold_no_character_that_steers_a_terminal() {
        let value = ["\u{1b}[2J", "\u{9b}31m", "\u{202e}txt", "plain"];
        for format in [Format::Json, Format::Yaml] {
            let text = document(&value, format).unwrap();
            assert!(!text.chars().any(is_dangerous), "{text:?}");
            let read: Vec<String> = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, value, "{text}");
        }
    }
}
