//! The name of the running program: `tidegate`, or a kubectl plugin.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use clap::Command;

use crate::args::Cli;

/// File name of the plugin for kubectl.
const PLUGIN_NAME: &str = "kubectl-tidegate";
/// File name of the program that kubectl runs for completions.
const COMPLETER_NAME: &str = "kubectl_complete-tidegate";

/// The name of the running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// `tidegate …`
    Standalone,
    /// `kubectl tidegate …`
    Plugin,
    /// Started by kubectl to get completions.
    Completer,
}

static INVOCATION: LazyLock<Invocation> = LazyLock::new(|| {
    env::args_os().next().map_or(Invocation::Standalone, |name| Invocation::from_program_name(&name))
});

impl Invocation {
    /// Returns this process's program name. For a symbolic link, that is the link's name.
    pub fn current() -> Self {
        *INVOCATION
    }

    fn from_program_name(name: &OsStr) -> Self {
        match Path::new(name).file_stem().and_then(OsStr::to_str) {
            Some(PLUGIN_NAME) => Self::Plugin,
            Some(COMPLETER_NAME) => Self::Completer,
            _ => Self::Standalone,
        }
    }

    /// Adapts the suggested commands in `text` to the program's name.
    pub fn adapt_commands(self, text: &str) -> String {
        match self {
            Self::Standalone => text.to_owned(),
            Self::Plugin | Self::Completer => prefix_with_kubectl(text),
        }
    }

    /// Returns the command-line definition, with the program's name in its help.
    pub fn command(self) -> Command {
        let command = <Cli as clap::CommandFactory>::command();
        match self {
            Self::Standalone => command,
            Self::Plugin | Self::Completer => rename_for_kubectl(
                command.bin_name("kubectl tidegate").display_name(PLUGIN_NAME).name(PLUGIN_NAME),
            ),
        }
    }

    /// Returns the program name for use in shells.
    pub fn program_name(self) -> &'static str {
        match self {
            Self::Standalone => "tidegate",
            Self::Plugin | Self::Completer => PLUGIN_NAME,
        }
    }
}

/// Inserts `kubectl` before commands. `tidegate WORD` is a command at the start of a line or a quotation, or
/// after `|` or `||`. Anywhere else, `tidegate` is just a name.
fn prefix_with_kubectl(text: &str) -> String {
    let mut adapted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("tidegate ") {
        let (before, found) = rest.split_at(at);
        adapted.push_str(before);
        let line = adapted.rsplit('\n').next().unwrap_or_default();
        let is_command =
            line.trim_start().is_empty() || line.ends_with('`') || line.trim_end().ends_with('|');
        adapted.push_str(if is_command { "kubectl tidegate " } else { "tidegate " });
        rest = found.strip_prefix("tidegate ").unwrap_or_default();
    }
    adapted + rest
}

fn rename_for_kubectl(command: Command) -> Command {
    let help =
        |found: Option<&clap::builder::StyledStr>| found.map(|text| prefix_with_kubectl(&text.to_string()));
    let (after, about, long) =
        (help(command.get_after_help()), help(command.get_about()), help(command.get_long_about()));
    let mut command = command.mut_args(|arg| {
        let output = arg.get_help().map(|text| prefix_with_kubectl(&text.to_string()));
        match output {
            Some(output) => arg.help(output),
            None => arg,
        }
    });
    if let Some(after) = after {
        command = command.after_help(after);
    }
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(long) = long {
        command = command.long_about(long);
    }
    command.mut_subcommands(rename_for_kubectl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_determines_the_invocation() {
        for (name, called) in [
            ("tidegate", Invocation::Standalone),
            ("/usr/bin/tidegate", Invocation::Standalone),
            ("kubectl-tidegate", Invocation::Plugin),
            ("/home/ann/.krew/bin/kubectl-tidegate", Invocation::Plugin),
            ("kubectl-tidegate.exe", Invocation::Plugin),
            ("kubectl_complete-tidegate", Invocation::Completer),
            ("", Invocation::Standalone),
        ] {
            assert_eq!(Invocation::from_program_name(OsStr::new(name)), called, "{name}");
        }
    }

    #[test]
    fn suggested_commands_begin_with_kubectl_and_names_do_not() {
        let text = "continue with `tidegate resume 1`, as tidegate does.\n  tidegate sync a || tidegate explain a\ntidegate x";
        assert_eq!(
            Invocation::Plugin.adapt_commands(text),
            "continue with `kubectl tidegate resume 1`, as tidegate does.\n  kubectl tidegate sync a || kubectl tidegate explain a\n\
             kubectl tidegate x"
        );
        assert_eq!(Invocation::Standalone.adapt_commands(text), text);
        assert_eq!(Invocation::Plugin.adapt_commands("a process of tidegate "), "a process of tidegate ");
    }
}
