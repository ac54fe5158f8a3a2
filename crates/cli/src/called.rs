//! By which name the program was called: as `tidegate`, or by kubectl as its plugin.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use clap::Command;

use crate::args::Cli;

/// The name of the file by which kubectl finds a plugin.
const PLUGIN: &str = "kubectl-tidegate";
/// The name of the file that kubectl asks what could come next.
const COMPLETER: &str = "kubectl_complete-tidegate";

/// How people call the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// `tidegate …`
    Itself,
    /// `kubectl tidegate …`
    Plugin,
    /// By kubectl, to be told what could come next.
    Completer,
}

static CALLED: LazyLock<Called> =
    LazyLock::new(|| env::args_os().next().map_or(Called::Itself, |name| Called::by(&name)));

impl Called {
    /// By which name this process was begun; also that of a symbolic link.
    pub fn now() -> Self {
        *CALLED
    }

    fn by(name: &OsStr) -> Self {
        match Path::new(name).file_stem().and_then(OsStr::to_str) {
            Some(PLUGIN) => Self::Plugin,
            Some(COMPLETER) => Self::Completer,
            _ => Self::Itself,
        }
    }

    /// A text in which the commands that are suggested begin as people call the program.
    pub fn say(self, text: &str) -> String {
        match self {
            Self::Itself => text.to_owned(),
            Self::Plugin | Self::Completer => as_plugin(text),
        }
    }

    /// The command line, with help that names the program as it was called.
    pub fn command(self) -> Command {
        let command = <Cli as clap::CommandFactory>::command();
        match self {
            Self::Itself => command,
            Self::Plugin | Self::Completer => {
                renamed(command.bin_name("kubectl tidegate").display_name(PLUGIN).name(PLUGIN))
            }
        }
    }

    /// What a shell knows the program as.
    pub fn file(self) -> &'static str {
        match self {
            Self::Itself => "tidegate",
            Self::Plugin | Self::Completer => PLUGIN,
        }
    }
}

/// `tidegate WORD` is a command where it begins a line or a quotation, or follows `|` or `||`; elsewhere it is a name.
fn as_plugin(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("tidegate ") {
        let (before, found) = rest.split_at(at);
        said.push_str(before);
        let line = said.rsplit('\n').next().unwrap_or_default();
        let is_command =
            line.trim_start().is_empty() || line.ends_with('`') || line.trim_end().ends_with('|');
        said.push_str(if is_command { "kubectl tidegate " } else { "tidegate " });
        rest = found.strip_prefix("tidegate ").unwrap_or_default();
    }
    said + rest
}

fn renamed(command: Command) -> Command {
    let help = |found: Option<&clap::builder::StyledStr>| found.map(|text| as_plugin(&text.to_string()));
    let (after, about, long) =
        (help(command.get_after_help()), help(command.get_about()), help(command.get_long_about()));
    let mut command = command.mut_args(|arg| {
        let said = arg.get_help().map(|text| as_plugin(&text.to_string()));
        match said {
            Some(said) => arg.help(said),
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
    command.mut_subcommands(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_says_how_it_is_called() {
        for (name, called) in [
            ("tidegate", Called::Itself),
            ("/usr/bin/tidegate", Called::Itself),
            ("kubectl-tidegate", Called::Plugin),
            ("/home/ann/.krew/bin/kubectl-tidegate", Called::Plugin),
            ("kubectl-tidegate.exe", Called::Plugin),
            ("kubectl_complete-tidegate", Called::Completer),
            ("", Called::Itself),
        ] {
            assert_eq!(Called::by(OsStr::new(name)), called, "{name}");
        }
    }

    #[test]
    fn commands_that_are_suggested_begin_with_kubectl_and_names_do_not() {
        let text = "go on with `tidegate resume 1`, as tidegate does.\n  tidegate sync a || tidegate explain a\ntidegate x";
        assert_eq!(
            Called::Plugin.say(text),
            "go on with `kubectl tidegate resume 1`, as tidegate does.\n  kubectl tidegate sync a || kubectl tidegate explain a\n\
             kubectl tidegate x"
        );
        assert_eq!(Called::Itself.say(text), text);
        assert_eq!(Called::Plugin.say("a process of tidegate "), "a process of tidegate ");
    }
}
