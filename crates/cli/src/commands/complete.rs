//! What could come next on the command line, in the words in which kubectl asks its plugins.
//!
//! kubectl runs `kubectl_complete-tidegate` with the words after `kubectl tidegate`, the last of which is begun and may be
//! empty. It reads lines of `WORD<TAB>DESCRIPTION`, and a last line with what the shell is to do besides.

use std::fmt::Write as _;

use clap::builder::PossibleValue;
use clap::{Arg, Command};

/// The shell offers files too.
const FILES: u8 = 0;
/// There is nothing else.
const NO_FILES: u8 = 4;

/// The answer for these words.
pub fn answer(command: &Command, words: &[String]) -> String {
    let (begun, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
    let mut command = command.clone();
    command.build();
    let (command, awaited, given) = place(&command, before);
    let (offered, besides) = match awaited {
        Some(option) => values(option),
        None if begun.starts_with('-') => (options(command), NO_FILES),
        None if command.has_subcommands() => (subcommands(command), NO_FILES),
        None => command
            .get_positionals()
            .nth(given)
            .or_else(|| command.get_positionals().last())
            .map_or_else(|| (Vec::new(), NO_FILES), values),
    };
    let mut lines = String::new();
    for (word, about) in offered.iter().filter(|(word, _)| word.starts_with(begun)) {
        // Writing to a String cannot fail.
        let _ = match about.is_empty() {
            true => writeln!(lines, "{word}"),
            false => writeln!(lines, "{word}\t{about}"),
        };
    }
    let _ = writeln!(lines, ":{besides}");
    lines
}

/// The command that is meant, the option whose value comes next, and how many words that are no options it has already.
fn place<'a>(root: &'a Command, words: &[String]) -> (&'a Command, Option<&'a Arg>, usize) {
    let (mut command, mut awaited, mut given) = (root, None, 0_usize);
    for word in words {
        if awaited.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            awaited =
                option(command, word).filter(|arg| arg.get_action().takes_values() && !word.contains('='));
        } else if let Some(found) = command.find_subcommand(word) {
            (command, given) = (found, 0);
        } else {
            given = given.saturating_add(1);
        }
    }
    (command, awaited, given)
}

fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    command.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            arg.get_short().is_some_and(|short| name.strip_prefix('-') == Some(short.to_string().as_str()))
        }
    })
}

type Offered = Vec<(String, String)>;

fn line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn subcommands(command: &Command) -> Offered {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    shown.map(|one| (one.get_name().to_owned(), line(one.get_about()))).collect()
}

fn options(command: &Command) -> Offered {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), line(arg.get_help())))).collect()
}

/// What an argument may be; files where it may be anything.
fn values(arg: &Arg) -> (Offered, u8) {
    let possible = arg.get_possible_values();
    let shown = possible.iter().filter(|value| !value.is_hide_set());
    let offered: Offered =
        shown.map(|value: &PossibleValue| (value.get_name().to_owned(), line(value.get_help()))).collect();
    let besides = if offered.is_empty() { FILES } else { NO_FILES };
    (offered, besides)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn answered(words: &[&str]) -> (Vec<String>, String) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = answer(&Cli::command(), &words);
        let mut lines: Vec<String> =
            answer.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
        let besides = lines.pop().unwrap_or_default();
        (lines, besides)
    }

    #[test]
    fn what_can_come_next_is_offered() {
        for (words, offered, besides) in [
            (&["expl"][..], &["explain"][..], ":4"),
            (&["ops", "pa"], &["pause"], ":4"),
            (&["ops", "list", "--res"], &["--result"], ":4"),
            (&["ops", "list", "--result", "s"], &["succeeded"], ":4"),
            (&["ops", "export", "shop", "--format", ""], &["json", "html"], ":4"),
            // A value of an option is no subcommand, and what may be anything may be a file.
            (&["ops", "list", "--app", "pause", "--unt"], &["--until"], ":4"),
            (&["sync", ""], &[], ":0"),
            (&["completions", "po"], &["powershell"], ":4"),
            (&["nothing", "like-that"], &[], ":4"),
        ] {
            let offered: Vec<String> = offered.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(answered(words), (offered, besides.to_owned()), "{words:?}");
        }
        let (all, _) = answered(&[]);
        assert!(all.contains(&"sync".to_owned()) && !all.contains(&"__complete".to_owned()), "{all:?}");
    }
}
