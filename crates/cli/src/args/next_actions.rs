//! Checks that the commands in all next actions can be parsed.

use std::fs;
use std::path::Path;

use clap::Parser as _;

use super::Cli;
use super::hints::{find_source_files, parse_string_literals};

/// Source files that create next actions.
const SOURCE_FILES: [&str; 2] = ["next_action.rs", "stored_appsets.rs"];

/// Replaces each `{…}` in the text with a value.
fn fill_placeholders(text: &str) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        filled.push('1');
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    filled + rest
}

/// Returns the commands in a string literal: the whole literal, or the parts in backticks.
fn extract_commands(literal: &str) -> Vec<String> {
    let parts: Vec<&str> = match literal.contains('`') {
        true => literal.split('`').skip(1).step_by(2).collect(),
        false => vec![literal],
    };
    parts.into_iter().filter(|part| part.starts_with("tidegate ")).map(fill_placeholders).collect()
}

#[test]
fn every_command_of_a_next_action_parses() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in find_source_files(crates)
        .into_iter()
        .filter(|file| SOURCE_FILES.iter().any(|name| file.ends_with(name)))
    {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
        for (line, literal) in parse_string_literals(text) {
            for command in extract_commands(&literal) {
                seen += 1;
                if let Err(error) = Cli::try_parse_from(command.split_whitespace()) {
                    wrong.push(format!("{}:{line}: {command}: {error}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 25, "the sources are not read: {seen}");
}
