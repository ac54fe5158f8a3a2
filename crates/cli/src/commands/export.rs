//! `tidegate ops export`: writes an operation to a self-contained file.

use std::path::Path;

use tidegate_daemon::operation_access;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::StreamKind;
use tidegate_oplog::{LogError, StreamName};
use tidegate_state::state_dir::StateDir;
use tidegate_views::protocol::{Reply, Request};
use tidegate_views::record::Record;

use crate::args::{ExportArgs, Format, RecordFormat};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, encode_document};

pub async fn run(args: &ExportArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let record = read_record(&args.id, &state_dir, printer).await?;
    if record.details.summary.is_some() {
        let stream = StreamName::with_kind(StreamKind::OPERATION, record.details.operation.id);
        printer.warn(&LogError::Compacted { stream }.to_string());
    }
    let content = match args.file.format() {
        RecordFormat::Json => encode_document(&record.document(), Format::Json)?,
        RecordFormat::Html => record.render_page(),
    };
    let what = format!("operation {}", record.details.operation.id);
    write_record(args.file.output.as_deref(), &content, &what, printer)?;
    Ok(CommandOutcome::Done)
}

/// Writes a record to a file, or to standard output if the name is missing or `-`.
pub(super) fn write_record(
    file: Option<&Path>,
    content: &str,
    what: &str,
    printer: &Printer,
) -> Result<(), CliError> {
    let Some(path) = file.filter(|path| path.as_os_str() != "-") else { return printer.print_raw(content) };
    write_file(path, content.as_bytes())?;
    printer.note(&format!("wrote {what} to {}", path.display()));
    Ok(())
}

async fn read_record(text: &str, state_dir: &StateDir, printer: &Printer) -> Result<Record, CliError> {
    let about = |operation| Request::Inspect { operation };
    let details = match operation_access::query_operation(state_dir, printer, text, about).await? {
        Reply::Operation(inspected) => *inspected,
        other => return Err(operation_access::unexpected_reply_error(&other).into()),
    };
    // Use the ID: the application's name may already refer to a newer operation.
    let id = details.operation.id.to_string();
    let all = |operation| Request::Facts { operation };
    match operation_access::query_operation(state_dir, printer, &id, all).await? {
        Reply::Facts { facts, first, damage } => {
            Ok(Record { details, events: facts, first_sequence: first, damage, read_at: SystemClock.now() })
        }
        other => Err(operation_access::unexpected_reply_error(&other).into()),
    }
}

/// Writes a file that only its owner can read. Uses a temporary file, so that readers never see a partial
/// file.
pub(super) fn write_file(path: &Path, content: &[u8]) -> Result<(), CliError> {
    let failed = |source| CliError::io("write", path, source);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".tidegate-").tempfile_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut file, content).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
