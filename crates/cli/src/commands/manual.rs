//! Completion scripts and man pages, generated from the definition of the command line.

use std::fs;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::CompletionShell;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::invocation::Invocation;
use crate::output::Printer;

/// Script that kubectl runs to get completions.
const KUBECTL_SCRIPT: &str = "\
#!/bin/sh
# Save this script as an executable file named kubectl_complete-tidegate in a directory on the PATH.
exec kubectl tidegate __complete \"$@\"
";

/// Prints the completion script for a shell.
pub fn completions(shell: CompletionShell, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let known = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Elvish => Shell::Elvish,
        CompletionShell::Fish => Shell::Fish,
        CompletionShell::Powershell => Shell::PowerShell,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Kubectl => {
            printer.print_raw(KUBECTL_SCRIPT)?;
            return Ok(CommandOutcome::Done);
        }
    };
    let mut script = Vec::new();
    let called = Invocation::current();
    clap_complete::generate(known, &mut called.command(), called.program_name(), &mut script);
    printer.print_raw(&String::from_utf8_lossy(&script))?;
    Ok(CommandOutcome::Done)
}

/// Writes a man page for each command into a folder.
pub fn man(folder: &Path, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CliError::io("write", path, source)
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut command = Invocation::current().command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect_pages(&command, &mut pages);
    for (name, page) in &pages {
        let path = folder.join(name);
        fs::write(&path, page).map_err(failed(&path))?;
    }
    printer.note(&format!("wrote {} pages to {}", pages.len(), folder.display()));
    Ok(CommandOutcome::Done)
}

/// Collects the pages of a command and its subcommands, each with its file name.
fn collect_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    // Writing to memory can't fail.
    if man.render(&mut page).is_ok() {
        pages.push((man.get_filename(), page));
    }
    command.get_subcommands().filter(|one| !one.is_hide_set()).for_each(|one| collect_pages(one, pages));
}
