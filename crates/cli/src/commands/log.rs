//! `tidegate log`: copies the operation log from a state directory to PostgreSQL and back.

use tidegate_oplog::CopyCounts;
use tidegate_state::log_copy::{self, CopyDirection, CopyOptions, CopyReport};
use tidegate_state::shell_words::quote_path;
use tidegate_state::state_dir::StateDir;

use super::serve_startup::log_target;
use crate::args::{CopyLogArgs, LogCommand, LogLocation};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::Printer;

/// Units of sizes, each with 1,024 times the bytes of the previous one.
const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

pub fn run(command: LogCommand, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        LogCommand::Copy(args) => copy(&args, printer),
    }
}

fn copy(args: &CopyLogArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let target = |url: &str| log_target(url, args.log_password.as_deref());
    let direction = match (&args.from, &args.to) {
        (LogLocation::Directory(from), LogLocation::Database(to)) => {
            CopyDirection::ToDatabase(StateDir::resolve(Some(from.as_path()))?, target(to)?)
        }
        (LogLocation::Database(from), LogLocation::Directory(to)) => {
            CopyDirection::ToDirectory(target(from)?, StateDir::resolve(Some(to.as_path()))?)
        }
        (LogLocation::Directory(_), LogLocation::Directory(_)) => {
            return Err(CliError::usage(
                "--from and --to are both directories, but one of them must be the URL of a database \
                 (postgres://USER@HOST/DATABASE); to copy a state directory, stop its process and copy all its files",
            ));
        }
        (LogLocation::Database(_), LogLocation::Database(_)) => {
            return Err(CliError::usage(
                "--from and --to are both databases, but one of them must be a state directory; to copy a database, \
                 use the programs of PostgreSQL, such as pg_dump",
            ));
        }
    };
    let options = CopyOptions { is_dry_run: args.dry_run, skip_damaged: args.skip_damaged };
    let report = log_copy::copy_log(&direction, options, printer)?;
    print_report(&direction, options, &report, printer)?;
    Ok(CommandOutcome::Done)
}

fn print_report(
    direction: &CopyDirection,
    options: CopyOptions,
    report: &CopyReport,
    printer: &Printer,
) -> Result<(), CliError> {
    let (from, to) = match direction {
        CopyDirection::ToDatabase(from, to) => (from.path().display().to_string(), to.to_string()),
        CopyDirection::ToDirectory(from, to) => (from.to_string(), to.path().display().to_string()),
    };
    if report.is_already_moved {
        return printer.print_raw(&format!("The log in {from} has already been moved to {to}.\n"));
    }
    for damaged in &report.damaged {
        printer.warn(&format!("{} is damaged and is not copied: {}", damaged.stream, damaged.reason));
    }
    let opening = match options.is_dry_run {
        true => format!("Would copy the log in {from} to {to}:"),
        false => format!("Copied the log in {from} to {to}, and verified the copy:"),
    };
    printer.print_raw(&format!("{opening}\n{}", describe_content(report)))?;
    if options.is_dry_run {
        return Ok(());
    }
    match direction {
        CopyDirection::ToDatabase(from, _) => {
            let key = from.path().join("key");
            let hint = match key.exists() {
                true => format!("; the services need the key in {} as TIDEGATE_LOG_KEY", quote_path(&key)),
                false => String::new(),
            };
            printer.note(&format!(
                "the log in {} can no longer be used; start `tidegate serve --log` with the database and this state \
                 directory{hint}",
                from.path().display()
            ));
        }
        CopyDirection::ToDirectory(from, to) => printer.note(&format!(
            "use either {} or {from}, but not both; commands that use the directory need the same TIDEGATE_LOG_KEY",
            to.path().display()
        )),
    }
    Ok(())
}

fn describe_content(report: &CopyReport) -> String {
    let CopyCounts { streams, open, events, record_bytes, blobs, blob_bytes, inventories } = report.counts;
    let existing = match report.existing {
        0 => String::new(),
        existing => format!(", {existing} of them copied earlier"),
    };
    format!(
        "  operations and runs:  {streams} ({open} unfinished{existing})\n  events:               {events} ({})\n  \
         manifests and plans:  {blobs} ({})\n  inventories:          {inventories}\n  stored plans:         {}\n",
        format_bytes(record_bytes),
        format_bytes(blob_bytes),
        report.plans
    )
}

/// Formats a size, such as `512 bytes` or `1.4 MiB`.
fn format_bytes(bytes: u64) -> String {
    let (mut whole, mut tenths, mut unit) = (bytes, 0, None);
    for name in UNITS {
        if whole < 1024 {
            break;
        }
        tenths = (whole % 1024) * 10 / 1024;
        whole /= 1024;
        unit = Some(name);
    }
    match unit {
        None => format!("{bytes} bytes"),
        Some(unit) => format!("{whole}.{tenths} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
    }
}
