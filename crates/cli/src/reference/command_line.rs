//! Reference page for the command line, generated from the clap definition.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

use super::markdown::{anchor, code, sentence};
use crate::invocation::Invocation;

const INTRO: &str = "\
# Command line

All `tidegate` commands, with their arguments and options. `tidegate COMMAND --help` prints the same text, and `tidegate man DIR` writes
man pages. As a kubectl plugin, the program is `kubectl tidegate`.

Options that several commands share are in [shared options](#shared-options). Square brackets contain defaults, permitted values and
environment variables.
";

/// Minimum number of commands that must share a group of options before it gets its own section.
const SHARED_MIN: usize = 3;

/// Maximum width of paragraphs below the options, as in the help.
const PARAGRAPH_WIDTH: usize = 100;

pub(super) fn page() -> String {
    let mut root = Invocation::Standalone.command().disable_help_subcommand(true);
    root.build();
    let mut commands = Vec::new();
    collect_commands(&root, &mut commands);
    let shared = shared_groups(&commands);
    let mut text = format!("{INTRO}\n## Commands\n\n");
    for (name, command) in commands.iter().filter(|(_, command)| !command.has_subcommands()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("- [`{name}`](#{}): {}\n", anchor(name), sentence(&about)));
    }
    for (name, command) in &commands {
        text.push_str(&section(name, command, &shared));
    }
    text.push_str("\n## Shared options\n");
    for (heading, options) in &shared {
        text.push_str(&format!("\n### {}\n\n{options}", shared_title(heading)));
    }
    text
}

/// Collects a command and its subcommands, each with its full name.
fn collect_commands<'c>(command: &'c Command, commands: &mut Vec<(String, &'c Command)>) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    commands.push((name, command));
    command
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .for_each(|one| collect_commands(one, commands));
}

fn shared_title(heading: &str) -> String {
    format!("Shared options: {}", heading.to_lowercase())
}

/// Returns the groups of options that several commands share, by heading.
fn shared_groups(commands: &[(String, &Command)]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (_, command) in commands {
        for (heading, options) in
            option_groups(command).into_iter().filter(|(heading, _)| !heading.is_empty())
        {
            *counts.entry((heading, options)).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count >= SHARED_MIN).collect();
    // The map keeps the last variant of each group, so the most frequent one comes last.
    counts.sort_by_key(|(_, count)| *count);
    counts.into_iter().map(|(group, _)| group).collect()
}

/// Returns a command's options by heading, in the order of the help. The empty heading has the command's own
/// options.
fn option_groups(command: &Command) -> Vec<(String, String)> {
    let mut groups: Vec<(String, String)> = Vec::new();
    for arg in command.get_arguments().filter(|arg| is_shown(arg, command) && !arg.is_positional()) {
        let heading = arg.get_help_heading().unwrap_or_default();
        let line = line(arg);
        match groups.iter_mut().find(|(known, _)| known == heading) {
            Some((_, options)) => options.push_str(&line),
            None => groups.push((heading.to_owned(), line)),
        }
    }
    groups.sort_by_key(|(heading, _)| !heading.is_empty());
    groups
}

/// Returns true for the command's own arguments. Global options are in the `tidegate` section.
fn is_shown(arg: &Arg, command: &Command) -> bool {
    let is_help = matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort);
    let is_root = command.get_bin_name().is_none_or(|name| name == command.get_name());
    !arg.is_hide_set() && !is_help && (is_root || !arg.is_global_set())
}

fn section(name: &str, command: &Command, shared: &BTreeMap<String, String>) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<String> = about.split("\n\n").map(sentence).collect();
    let usage = command.clone().render_usage().to_string();
    let mut text =
        format!("\n## `{name}`\n\n{}\n\n```text\n{}\n```\n", paragraphs.join("\n\n"), usage.trim());
    let subcommands: Vec<String> = command
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .map(|one| {
            let of = one.get_bin_name().unwrap_or_else(|| one.get_name());
            format!("[`{}`](#{})", one.get_name(), anchor(of))
        })
        .collect();
    if !subcommands.is_empty() {
        text.push_str(&format!("\nSubcommands: {}.\n", subcommands.join(", ")));
    }
    let positional = command.get_positionals().filter(|arg| is_shown(arg, command)).map(line);
    let positional: String = positional.collect();
    if !positional.is_empty() {
        text.push_str(&format!("\nArguments:\n\n{positional}"));
    }
    for (heading, options) in option_groups(command) {
        match shared.get(&heading) {
            Some(known) if *known == options => {
                let title = shared_title(&heading);
                text.push_str(&format!(
                    "\nShared options: [{}](#{}).\n",
                    heading.to_lowercase(),
                    anchor(&title)
                ));
            }
            _ => {
                let heading = if heading.is_empty() { "Options" } else { &heading };
                text.push_str(&format!("\n{heading}:\n\n{options}"));
            }
        }
    }
    if let Some(after) = command.get_after_help() {
        let after = wrap_paragraphs(after.to_string().trim());
        text.push_str(&format!("\n```text\n{after}\n```\n"));
    }
    text
}

/// Wraps paragraphs, each a single line of the input. Keeps indented lines, such as examples.
fn wrap_paragraphs(text: &str) -> String {
    let wrapped: Vec<String> = text.lines().map(wrap_paragraph).collect();
    wrapped.join("\n")
}

fn wrap_paragraph(line: &str) -> String {
    if line.starts_with(' ') {
        return line.to_owned();
    }
    let mut lines: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match lines.last_mut() {
            Some(last) if last.chars().count().saturating_add(word.chars().count()) < PARAGRAPH_WIDTH => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Returns an argument's list item: its names, help, default, possible values and environment variable.
fn line(arg: &Arg) -> String {
    let values: Vec<String> = arg.get_value_names().into_iter().flatten().map(ToString::to_string).collect();
    let takes_value = arg.get_action().takes_values();
    let names = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, Some(long)) => format!("--{long}"),
        (None, None) => return format!("- {}: {}\n", code(&values.join(" ")), details(arg, true)),
    };
    let names = if takes_value { format!("{names} {}", values.join(" ")) } else { names };
    format!("- {}: {}\n", code(names.trim()), details(arg, takes_value))
}

fn details(arg: &Arg, takes_value: bool) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = sentence(&help);
    let join = |words: Vec<String>| words.iter().map(|word| code(word)).collect::<Vec<_>>().join(", ");
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    let defaults: Vec<String> = defaults.filter(|value| !value.is_empty()).collect();
    if takes_value && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        text.push_str(&format!(" \\[default: {}]", join(defaults)));
    }
    let possible = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    let possible: Vec<String> = possible.map(|value| value.get_name().to_owned()).collect();
    if takes_value && !possible.is_empty() && !arg.is_hide_possible_values_set() {
        text.push_str(&format!(" \\[values: {}]", join(possible)));
    }
    if let Some(variable) = arg.get_env().and_then(|name| name.to_str()) {
        text.push_str(&format!(" \\[env: {}]", code(variable)));
    }
    text
}
