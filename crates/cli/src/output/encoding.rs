//! JSON and YAML for programs, without terminal control characters.

use std::fmt::Write as _;

use serde::Serialize;

use super::text::is_dangerous;
use crate::args::Format;
use crate::error::CliError;

/// Encodes a value as a document that ends with a newline.
pub fn encode_document<T: Serialize + ?Sized>(value: &T, format: Format) -> Result<String, CliError> {
    let mut document = match format {
        Format::Yaml => encode_yaml(&value)?,
        Format::Json | Format::Text => encode_json(value)?,
    };
    if !document.ends_with('\n') {
        document.push('\n');
    }
    Ok(document)
}

/// Encodes one of several values: as a single line of JSON, or as a separate YAML document.
pub fn encode_entry<T: Serialize + ?Sized>(value: &T, format: Format) -> Result<String, CliError> {
    if format == Format::Yaml {
        return Ok(format!("---\n{}", encode_document(value, format)?));
    }
    let text = serde_json::to_string(value).map_err(|error| json_error(&error))?;
    Ok(escape_control_characters(&text) + "\n")
}

fn json_error(error: &serde_json::Error) -> CliError {
    CliError::Encoding { format: "JSON", reason: error.to_string() }
}

fn encode_json<T: Serialize + ?Sized>(value: &T) -> Result<String, CliError> {
    Ok(escape_control_characters(&serde_json::to_string_pretty(value).map_err(|error| json_error(&error))?))
}

/// Escapes the control characters that the serializer leaves alone: it only escapes C0. They, too, occur only
/// in strings.
fn escape_control_characters(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if is_dangerous(c) {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
        safe
    })
}

fn encode_yaml<T: Serialize>(value: &T) -> Result<String, CliError> {
    let unprintable = |reason: String| CliError::Encoding { format: "YAML", reason };
    let text = serde_saphyr::to_string(value).map_err(|error| unprintable(error.to_string()))?;
    // A YAML scalar with a dangerous character must be quoted. JSON is valid YAML and always quotes.
    if text.chars().any(is_dangerous) { encode_json(value) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_contain_no_terminal_control_characters() {
        let value = ["\u{1b}[2J", "\u{9b}31m", "\u{202e}txt", "plain"];
        for format in [Format::Json, Format::Yaml] {
            let text = encode_document(&value, format).unwrap();
            assert!(!text.chars().any(is_dangerous), "{text:?}");
            let read: Vec<String> = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, value, "{text}");
        }
    }
}
