//! Arguments for `ops`, `resume`, `explain` and `sim`.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tidegate_model::OperationOutcome;

use super::cluster::ConnectionArgs;
use super::common::{Format, ReasonArgs, StateArgs};
use super::health::CustomizationArgs;
use super::sync::WaitingArgs;
use super::values::{self, TimeArg};

/// Lists, shows and controls operations.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
ID is an operation ID, a prefix of an ID, or an application's name. A name selects the \
application's unfinished operation or, if there is none, its newest operation in the log. If \
another tidegate process is running the operation, the command sends its request to that process. \
If no process is running the operation, the command updates the operation in the log.

Examples:
  tidegate ops list
  tidegate ops list --since 24h --result failed
  tidegate ops show shop -o json
  tidegate ops export shop -o shop.html
  tidegate ops pause 019a --reason \"waiting for the database team\"")]
pub struct OpsArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: OpsCommand,
}

/// One operation and the output format.
#[derive(Clone, Debug, Args)]
pub struct SingleOperationArgs {
    /// Operation ID, a prefix of an ID, or an application's name
    pub id: String,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Subcommands of `ops`.
#[derive(Clone, Debug, Subcommand)]
pub enum OpsCommand {
    /// List operations, oldest first
    List(OperationListArgs),
    /// Show an operation's waves, resources and warnings
    Show(SingleOperationArgs),
    /// Print all log records of an operation
    Log(SingleOperationArgs),
    /// Print an operation's numbered events
    Events(EventsArgs),
    /// Print the output of an operation's hooks until the operation ends
    #[command(after_help = OUTPUT_HELP)]
    Output(SingleOperationArgs),
    /// Export the complete record of an operation to a file, for example for an incident report or a change request
    Export(ExportArgs),
    /// Terminate an operation and its running hooks without rolling back
    Terminate {
        #[command(flatten)]
        one: SingleOperationArgs,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        connection: ConnectionArgs,
    },
    /// Pause an operation at its next safe point and suspend its deadlines
    Pause {
        #[command(flatten)]
        one: SingleOperationArgs,
        /// Reason for the request, recorded in the log
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Continue a paused operation
    Unpause {
        #[command(flatten)]
        one: SingleOperationArgs,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Approve pruning that is waiting for confirmation (Prune=confirm)
    Confirm {
        #[command(flatten)]
        one: SingleOperationArgs,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Approve a wave that is waiting for the "approval" gate
    Approve {
        #[command(flatten)]
        one: SingleOperationArgs,
        /// Number of the wave, as shown by `tidegate explain`; later waves can be approved in advance [default: the
        /// wave that is waiting]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        wave: Option<u32>,
        /// Reason for the request, recorded in the log
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Skip an object, or the unfinished objects in a wave, and continue
    Skip(OverrideArgs),
    /// Mark an object, or the unfinished objects in a wave, as done
    MarkDone(OverrideArgs),
    /// Retry an object, or the failed objects in a wave, immediately
    RetryTask(RetryTaskArgs),
}

const OUTPUT_HELP: &str = "\
If a hook is already running, the command starts with the last lines of its output. For hooks that \
start later, it prints the complete output. The last lines of a failed hook's output are stored \
with the operation, and `tidegate ops show` prints them. -o json prints one JSON document per \
line.

Examples:
  tidegate ops output shop
  tidegate ops output 019a1b2c -o json";

/// Part of an operation that a request affects.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("part").required(true))]
pub struct ScopeArgs {
    /// Select this object in the plan
    #[arg(long, value_name = "KIND[.GROUP]/NAME", group = "part")]
    pub task: Option<String>,
    /// Namespace of the object; needed only if several objects have the same name
    #[arg(short, long, value_name = "NAME", conflicts_with = "wave")]
    pub namespace: Option<String>,
    /// Phase of the hook; needed only if the hook runs in several phases
    #[arg(long, value_name = "PHASE", conflicts_with = "wave")]
    pub phase: Option<String>,
    /// Select this wave, by its phase and number or by its number in the plan
    #[arg(long, value_name = "PHASE/N|N", group = "part")]
    pub wave: Option<String>,
}

/// Arguments for `ops skip` and `ops mark-done`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The affected objects, the requester and the reason appear in the result, the log and the \
operation's message.

`skip` leaves the object as it is, but stops a running hook. `mark-done` treats the object as done: \
the operation no longer waits for it, and records a running hook as succeeded.

Examples:
  tidegate ops skip shop --task Job/smoke-test -n shop --reason \"tested by hand\"
  tidegate ops skip shop --wave Sync/3 --reason \"will be deployed next week\"
  tidegate ops mark-done shop --task Deployment/api --reason \"the probe is broken, but the API works\"")]
pub struct OverrideArgs {
    #[command(flatten)]
    pub one: SingleOperationArgs,
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Reason for the request, recorded in the log
    #[arg(long, value_name = "TEXT", required = true, value_parser = values::parse_required_reason)]
    pub reason: String,
}

/// Arguments for `ops retry-task`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The operation immediately repeats cluster requests that are waiting for a retry. It retries a \
failed object if the object's wave is still running, and a skipped object unless its wave has \
finished. A hook starts from the beginning. If the operation is waiting for its next attempt, it \
starts the attempt immediately.

Example:
  tidegate ops retry-task shop --task Job/migrate -n shop --reason \"the database is back\"")]
pub struct RetryTaskArgs {
    #[command(flatten)]
    pub one: SingleOperationArgs,
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Reason for the request, recorded in the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// Filters for `ops list`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
TIME is a timestamp, such as 2026-11-21T09:30:00Z, or a duration before now, such as 90m or 24h.

Examples:
  tidegate ops list --app shop --result failed
  tidegate ops list --since 24h --by ann
  tidegate ops list --revision 4f2a9c -o json")]
pub struct OperationListArgs {
    /// List only operations for this application
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
    /// List only operations with this result (repeatable)
    #[arg(long, value_enum, value_name = "RESULT", ignore_case = true)]
    pub result: Vec<OperationResultArg>,
    /// List only operations that started at this time or later
    #[arg(long, value_name = "TIME", value_parser = values::parse_time)]
    pub since: Option<TimeArg>,
    /// List only operations that started before this time
    #[arg(long, value_name = "TIME", value_parser = values::parse_time)]
    pub until: Option<TimeArg>,
    /// List only operations whose revision starts with this text
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// List only operations requested by this user or program
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// List only the newest N operations [default: all]
    #[arg(long, value_name = "N", value_parser = values::count_parser())]
    pub limit: Option<usize>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Operation state to filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OperationResultArg {
    Running,
    Terminating,
    Succeeded,
    Failed,
    Error,
    Superseded,
}

impl From<OperationResultArg> for OperationOutcome {
    fn from(result: OperationResultArg) -> Self {
        match result {
            OperationResultArg::Running => Self::Running,
            OperationResultArg::Terminating => Self::Terminating,
            OperationResultArg::Succeeded => Self::Succeeded,
            OperationResultArg::Failed => Self::Failed,
            OperationResultArg::Error => Self::Error,
            OperationResultArg::Superseded => Self::Superseded,
        }
    }
}

/// Arguments for `ops export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file is self-contained, without scripts, links or external images. Secret values are masked, \
as in the log.

Examples:
  tidegate ops export shop -o shop.html
  tidegate ops export 019a1b2c --format json > operation.json")]
pub struct ExportArgs {
    /// Operation ID, a prefix of an ID, or an application's name
    pub id: String,
    #[command(flatten)]
    pub file: RecordFileArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

/// File to export a record to.
#[derive(Clone, Debug, Args)]
pub struct RecordFileArgs {
    /// File format: JSON for programs, HTML for people [default: html if FILE ends in .html or .htm, json
    /// otherwise]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RecordFormat>,
    /// File to write, or - for standard output; an existing file is overwritten [default: -]
    #[arg(short, long, value_name = "FILE", value_parser = values::path_parser())]
    pub output: Option<PathBuf>,
}

impl RecordFileArgs {
    /// Returns the requested format or, by default, that of the file's extension.
    pub fn format(&self) -> RecordFormat {
        let ending = self.output.as_deref().and_then(Path::extension);
        let is_page =
            ending.is_some_and(|is| is.eq_ignore_ascii_case("html") || is.eq_ignore_ascii_case("htm"));
        self.format.unwrap_or(if is_page { RecordFormat::Html } else { RecordFormat::Json })
    }
}

/// File format for an exported record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    Json,
    Html,
}

/// Arguments for `ops events`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
An event's number is the number of its record in the log. The numbers have gaps because not every \
record is an event. With --follow and -o json, the command prints each event on its own line as \
soon as the event is durable, until the operation ends. If no process is running the operation, the \
command exits with code 3.

Examples:
  tidegate ops events shop
  tidegate ops events shop --after 120 --follow -o json")]
pub struct EventsArgs {
    #[command(flatten)]
    pub one: SingleOperationArgs,
    /// Print only events after the event with this number, such as the last event that you received
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u64,
    /// Keep printing new events until the operation ends
    #[arg(long)]
    pub follow: bool,
}

/// Resumes operations.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without an ID, the command resumes the only unfinished operation. If several operations are \
unfinished, specify an ID or --all. The operation continues in the same cluster and as the same \
user; both are recorded with the operation. Cluster options are needed only if the connection to \
the cluster has changed; an operation never continues in a different cluster. Health rules are \
also stored with the operation; --customizations replaces them.

Examples:
  tidegate resume --all
  tidegate resume 019a1b2c --timeout 5m")]
pub struct ResumeArgs {
    /// Operation ID, a prefix of an ID, or an application's name
    #[arg(conflicts_with = "all")]
    pub id: Option<String>,
    /// Resume all unfinished operations
    #[arg(long)]
    pub all: bool,
    /// Resume only operations in the simulated cluster; to select a real cluster, use --context
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "impersonate_user", "impersonate_groups"])]
    pub sim: bool,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    #[command(flatten)]
    pub waiting: WaitingArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Explains the state of an operation.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command works for running, interrupted and finished operations.

Examples:
  tidegate explain shop
  tidegate explain 019a1b2c -o json")]
pub struct ExplainArgs {
    /// Operation ID, a prefix of an ID, or an application's name. A name selects the application's unfinished
    /// operation or, if there is none, its newest operation
    #[arg(value_name = "ID|APP")]
    pub id: String,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Inspects the simulated cluster.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate sim audit -o json
  tidegate sim objects
  tidegate sim delete apps:Deployment:fleet/frontend")]
pub struct SimArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: SimCommand,
}

/// Subcommands of `sim`.
#[derive(Clone, Debug, Subcommand)]
pub enum SimCommand {
    /// List every write request that the simulated cluster has received; also works while operations are running
    Audit {
        /// Output format
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        state: StateArgs,
    },
    /// List the objects in the simulated cluster with their health
    Objects {
        /// Output format; JSON and YAML contain the complete objects
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Delete an object from the simulated cluster to simulate an external change
    Delete {
        /// Object to delete: GROUP:KIND:NAMESPACE/NAME
        #[arg(value_parser = super::values::parse_resource_selector)]
        object: tidegate_model::ResourceSelector,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Discard the simulated cluster; the next sync starts with an empty cluster
    Reset {
        #[command(flatten)]
        state: StateArgs,
    },
}
