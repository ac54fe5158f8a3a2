//! `ops export`: one operation as a file that needs nothing else.

use std::path::Path;

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::StreamKind;
use tidegate_oplog::{LogError, StreamName};
use tidegate_service::control::protocol::{Reply, Request};
use tidegate_service::documents::record::Record;
use tidegate_service::route;
use tidegate_service::state_dir::StateDir;

use crate::args::{ExportArgs, Format, RecordFormat};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, document};

pub async fn run(args: &ExportArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(args.state.named())?;
    let record = read(&args.id, &state_dir, printer).await?;
    if record.inspected.kept.is_some() {
        let stream = StreamName::of(StreamKind::OPERATION, record.inspected.operation.id);
        printer.warn(&LogError::Compacted { stream }.to_string());
    }
    let content = match args.format() {
        RecordFormat::Json => document(&record.document(), Format::Json)?,
        RecordFormat::Html => record.page(),
    };
    let what = format!("operation {}", record.inspected.operation.id);
    give(args.output.as_deref(), &content, &what, printer)?;
    Ok(Ended::Done)
}

/// Writes a record to a file, or to standard output where none is named, or `-`.
pub(super) fn give(
    file: Option<&Path>,
    content: &str,
    what: &str,
    printer: &Printer,
) -> Result<(), CliError> {
    let Some(path) = file.filter(|path| path.as_os_str() != "-") else { return printer.raw(content) };
    write(path, content.as_bytes())?;
    printer.note(&format!("{what} is in {}", path.display()));
    Ok(())
}

async fn read(text: &str, state_dir: &StateDir, printer: &Printer) -> Result<Record, CliError> {
    let about = |operation| Request::Inspect { operation };
    let inspected = match route::ask_about(state_dir, printer, text, about).await? {
        Reply::Operation(inspected) => *inspected,
        other => return Err(route::unexpected(&other).into()),
    };
    // The name of an application may mean another operation by now; an id does not.
    let id = inspected.operation.id.to_string();
    let all = |operation| Request::Facts { operation };
    match route::ask_about(state_dir, printer, &id, all).await? {
        Reply::Facts { facts, first, damage } => {
            Ok(Record { inspected, facts, first, damage, at: SystemClock.now() })
        }
        other => Err(route::unexpected(&other).into()),
    }
}

/// Beside it first, so that nobody ever finds half a file; for its owner alone.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), CliError> {
    let failed = |source| CliError::io("write", path, source);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".tidegate-").tempfile_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut file, content).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
