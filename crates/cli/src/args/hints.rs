//! Checks that hints in messages mention only options that the commands have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};

use super::Cli;

/// Commands that print the messages of a folder or file, for messages that don't mention a command. All other
/// messages mention the command with the option, because several commands print them.
#[rustfmt::skip]
const COMMANDS_BY_PATH: &[(&str, &[&str])] = &[
    ("cli/src/args", &[]), // The help texts of the commands.
    ("cli/src/commands/api", &["serve"]),
    ("cli/src/commands/appset", &["appset plan", "appset generate", "appset delete"]),
    ("cli/src/commands/app", &["app sync", "app delete", "app list"]),
    ("cli/src/commands/delete", &["delete"]),
    ("cli/src/commands/stored_plan", &["plan", "sync"]),
    ("cli/src/commands/log", &["log copy"]),
    ("cli/src/commands/ops", &["ops list", "resume"]),
    ("cli/src/commands/replicas", &["replicas drain"]),
    ("cli/src/commands/resume", &["resume"]),
    ("cli/src/commands/serve", &["serve"]),
    ("cli/src/commands/sync", &["sync"]),
    ("cli/src/error", &["sync", "plan"]),
    ("cli/src/input", &["sync", "plan"]),
    ("cli/src/request", &["sync", "plan"]),
    ("kube/src", &["sync", "serve", "app sync"]),
    ("server/src/api_client", &["app list"]),
    ("server/src", &["serve"]),
    ("app-controller/src/application_service/plans", &["app sync"]),
    ("app-controller/src/generator_inputs", &["appset generate", "appset plan"]),
    ("app-controller/src", &["serve"]),
    ("appset-controller/src", &["appset delete", "appset retry"]),
    ("daemon/src", &["app list"]),
    ("state/src/error", &["sync", "resume", "serve"]),
    ("state/src/log_copy", &["log copy"]),
    ("state/src/gates", &["sync", "serve"]),
    ("state/src/state_dir", &["sync", "app list"]),
    ("stores/src", &["serve"]),
    ("source/src/helm", &[]), // Arguments that are passed to helm and kustomize.
    ("source/src/kustomize", &[]),
    ("source/src", &["serve"]),
    ("scm/src", &["serve"]),
];

/// Other programs. Their options are ignored.
const FOREIGN_PROGRAMS: [&str; 4] = ["git", "kubectl", "helm", "kustomize"];

#[test]
fn every_hint_names_an_option_that_the_command_has() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Cli::command();
    command.build();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in find_source_files(crates) {
        let name = file.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        // Unit tests are at the end of each file.
        let text = text.split("\n#[cfg(test)]").next().unwrap();
        for (line, literal) in parse_string_literals(text) {
            let options = parse_options(&literal);
            if options.is_empty()
                || FOREIGN_PROGRAMS.iter().any(|program| literal.contains(&format!("{program} ")))
            {
                continue;
            }
            let named = named_commands(&command, &literal);
            let printers =
                COMMANDS_BY_PATH.iter().find(|(place, _)| name.starts_with(place)).map(|(_, all)| *all);
            if printers.is_some_and(<[&str]>::is_empty) {
                continue;
            }
            let printers = printers.unwrap_or_default().iter().map(|path| find_command(&command, path));
            let commands: Vec<&Command> = named.into_iter().chain(printers).collect();
            for option in options {
                seen += 1;
                if !commands.iter().any(|command| has_option(command, &option)) {
                    wrong.push(format!("{name}:{line}: --{option} in {literal:?}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "name the command that has the option, as in `tidegate sync --queue`: {wrong:#?}"
    );
    assert!(seen > 50, "the sources are not read: {seen}");
}

/// Returns true if a command has the option. Global options count.
fn has_option(command: &Command, option: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(option))
}

fn find_command<'c>(command: &'c Command, path: &str) -> &'c Command {
    path.split(' ').fold(command, |command, word| {
        command.find_subcommand(word).unwrap_or_else(|| panic!("there is no command {path}"))
    })
}

/// Returns the commands mentioned in the literal.
fn named_commands<'c>(command: &'c Command, literal: &str) -> Vec<&'c Command> {
    let after = literal.match_indices("tidegate ").map(|(at, word)| &literal[at + word.len()..]);
    after
        .filter_map(|rest| {
            let mut here = command;
            for word in rest.split_whitespace() {
                let word = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
                match here.find_subcommand(word) {
                    Some(next) => here = next,
                    None => break,
                }
            }
            (here.get_name() != command.get_name()).then_some(here)
        })
        .collect()
}

/// Returns the long options in the literal, without their dashes.
fn parse_options(literal: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let found = literal.match_indices("--").filter_map(|(at, dashes)| {
        let before = literal[..at].chars().next_back();
        let rest = &literal[at + dashes.len()..];
        let name: String = rest.chars().take_while(|c| is_part(*c)).collect();
        let is_option = !before.is_some_and(|c| is_part(c) || c.is_ascii_alphanumeric())
            && name.starts_with(|c: char| c.is_ascii_lowercase());
        is_option.then(|| name.trim_end_matches('-').to_owned())
    });
    found.collect()
}

/// Returns the source files of all crates, except tests.
pub(super) fn find_source_files(crates: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    while let Some(folder) = folders.pop() {
        if folder.ends_with("testkit/src") || folder.ends_with("tests") || !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.ends_with("tests.rs") || path.ends_with("hints.rs");
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !is_test {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

/// Returns the string literals in a source file, each with its first line number.
pub(super) fn parse_string_literals(source: &str) -> Vec<(usize, String)> {
    let characters: Vec<char> = source.chars().collect();
    let at = |index: usize| characters.get(index).copied().unwrap_or('\n');
    let (mut all, mut index, mut line) = (Vec::new(), 0, 1);
    while index < characters.len() {
        match at(index) {
            '/' if at(index + 1) == '/' => {
                while at(index) != '\n' {
                    index += 1;
                }
            }
            // A lifetime has no closing quote, so this is a character literal.
            '\'' if at(index + 1) == '\\' => {
                index += 2;
                while at(index + 1) != '\'' && at(index + 1) != '\n' {
                    index += 1;
                }
                index += 2;
            }
            '\'' if at(index + 2) == '\'' => index += 3,
            '"' => {
                let hashes = (1..=index).take_while(|back| at(index - back) == '#').count();
                let is_raw = index > hashes && at(index - hashes - 1) == 'r';
                let started = line;
                let mut text = String::new();
                index += 1;
                loop {
                    let ends = (1..=hashes).all(|next| at(index + next) == '#');
                    match at(index) {
                        '"' if !is_raw || ends => break,
                        '\\' if !is_raw => {
                            index += 1;
                            text.push(' ');
                        }
                        _ if index >= characters.len() => break,
                        c => text.push(c),
                    }
                    line += usize::from(at(index) == '\n');
                    index += 1;
                }
                all.push((started, text));
                index += 1;
            }
            c => {
                line += usize::from(c == '\n');
                index += 1;
            }
        }
    }
    all
}

#[test]
fn string_literals_are_found_with_their_lines() {
    let source = "let a: &'a str = \"one --x\"; // \"not\"\nlet c = '\"'; let r = r#\"two \"--y\" \"#; '\\'' \"three\\\n  --z\"";
    let found: Vec<String> = parse_string_literals(source).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(parse_options(&found.join(" ")), BTreeSet::from(["x", "y", "z"].map(str::to_owned)));
    assert!(parse_options("a--b ---- -- a-b").is_empty());
}
