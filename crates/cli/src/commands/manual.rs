//! What is made of the command line's own description: completion scripts and man pages.

use std::fs;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::CompletionShell;
use crate::called::Called;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;

/// What kubectl runs to be told what could come next.
const FOR_KUBECTL: &str = "\
#!/bin/sh
# Save it as kubectl_complete-tidegate on the PATH, executable.
exec kubectl tidegate __complete \"$@\"
";

/// Prints the script of a shell.
pub fn completions(shell: CompletionShell, printer: &Printer) -> Result<Ended, CliError> {
    let known = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Elvish => Shell::Elvish,
        CompletionShell::Fish => Shell::Fish,
        CompletionShell::Powershell => Shell::PowerShell,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Kubectl => {
            printer.raw(FOR_KUBECTL)?;
            return Ok(Ended::Done);
        }
    };
    let mut script = Vec::new();
    let called = Called::now();
    clap_complete::generate(known, &mut called.command(), called.file(), &mut script);
    printer.raw(&String::from_utf8_lossy(&script))?;
    Ok(Ended::Done)
}

/// Writes a page for each command into a folder.
pub fn man(folder: &Path, printer: &Printer) -> Result<Ended, CliError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CliError::io("write", path, source)
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut command = Called::now().command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages);
    for (name, page) in &pages {
        let path = folder.join(name);
        fs::write(&path, page).map_err(failed(&path))?;
    }
    printer.note(&format!("{} pages are in {}", pages.len(), folder.display()));
    Ok(Ended::Done)
}

/// The pages of a command and those below it, each with the name of its file.
fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    if man.render(&mut page).is_ok() {
        pages.push((man.get_filename(), page));
    }
    command.get_subcommands().filter(|one| !one.is_hide_set()).for_each(|one| collect(one, pages));
}
