//! Command-line completion through kubectl's plugin protocol.
//!
//! kubectl runs `kubectl_complete-tidegate` with the words after `kubectl tidegate`. The last word is
//! incomplete and may be empty. kubectl expects lines of `WORD<TAB>DESCRIPTION`, then a line with a directive
//! for the shell.

use std::fmt::Write as _;

use clap::builder::PossibleValue;
use clap::{Arg, Command};

/// Directive for file names as additional completions.
const FILES: u8 = 0;
/// Directive for no further completions.
const NO_FILES: u8 = 4;

/// Returns the completions for the words after the program's name.
pub fn complete_words(command: &Command, text: &[String]) -> String {
    let (started, before) = text.split_last().map_or(("", text), |(last, before)| (last.as_str(), before));
    let mut command = command.clone();
    command.build();
    let (command, awaited, given) = find_position(&command, before);
    let (offered, besides) = match awaited {
        Some(option) => value_candidates(option),
        None if started.starts_with('-') => (option_candidates(command), NO_FILES),
        None if command.has_subcommands() => (subcommand_candidates(command), NO_FILES),
        None => command
            .get_positionals()
            .nth(given)
            .or_else(|| command.get_positionals().last())
            .map_or_else(|| (Vec::new(), NO_FILES), value_candidates),
    };
    let mut lines = String::new();
    for (word, about) in offered.iter().filter(|(word, _)| word.starts_with(started)) {
        // Writing to a String can't fail.
        let _ = match about.is_empty() {
            true => writeln!(lines, "{word}"),
            false => writeln!(lines, "{word}\t{about}"),
        };
    }
    let _ = writeln!(lines, ":{besides}");
    lines
}

/// Returns the command selected by the words, the option that needs a value next, and the number of
/// positional arguments so far.
fn find_position<'a>(root: &'a Command, text: &[String]) -> (&'a Command, Option<&'a Arg>, usize) {
    let (mut command, mut awaited, mut given) = (root, None, 0_usize);
    for word in text {
        if awaited.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            awaited = find_option(command, word)
                .filter(|arg| arg.get_action().takes_values() && !word.contains('='));
        } else if let Some(found) = command.find_subcommand(word) {
            (command, given) = (found, 0);
        } else {
            given = given.saturating_add(1);
        }
    }
    (command, awaited, given)
}

fn find_option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    command.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            arg.get_short().is_some_and(|short| name.strip_prefix('-') == Some(short.to_string().as_str()))
        }
    })
}

type Candidates = Vec<(String, String)>;

fn help_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn subcommand_candidates(command: &Command) -> Candidates {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    shown.map(|one| (one.get_name().to_owned(), help_line(one.get_about()))).collect()
}

fn option_candidates(command: &Command) -> Candidates {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), help_line(arg.get_help())))).collect()
}

/// Returns an argument's possible values, or files if any value is allowed.
fn value_candidates(arg: &Arg) -> (Candidates, u8) {
    let possible = arg.get_possible_values();
    let shown = possible.iter().filter(|value| !value.is_hide_set());
    let offered: Candidates = shown
        .map(|value: &PossibleValue| (value.get_name().to_owned(), help_line(value.get_help())))
        .collect();
    let besides = if offered.is_empty() { FILES } else { NO_FILES };
    (offered, besides)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn complete(text: &[&str]) -> (Vec<String>, String) {
        let text: Vec<String> = text.iter().map(|word| (*word).to_owned()).collect();
        let answer = complete_words(&Cli::command(), &text);
        let mut lines: Vec<String> =
            answer.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
        let besides = lines.pop().unwrap_or_default();
        (lines, besides)
    }

    #[test]
    fn possible_next_words_are_offered() {
        for (text, offered, besides) in [
            (&["expl"][..], &["explain"][..], ":4"),
            (&["ops", "pa"], &["pause"], ":4"),
            (&["ops", "list", "--res"], &["--result"], ":4"),
            (&["ops", "list", "--result", "s"], &["succeeded", "superseded"], ":4"),
            (&["ops", "export", "shop", "--format", ""], &["json", "html"], ":4"),
            // An option's value isn't a subcommand, and an argument with arbitrary values may be a file.
            (&["ops", "list", "--app", "pause", "--unt"], &["--until"], ":4"),
            (&["sync", ""], &[], ":0"),
            (&["completions", "po"], &["powershell"], ":4"),
            (&["nothing", "like-that"], &[], ":4"),
        ] {
            let offered: Vec<String> = offered.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(complete(text), (offered, besides.to_owned()), "{text:?}");
        }
        let (all, _) = complete(&[]);
        assert!(all.contains(&"sync".to_owned()) && !all.contains(&"__complete".to_owned()), "{all:?}");
    }
}
