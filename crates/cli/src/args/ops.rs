//! `ops`, `resume`, `explain` and `sim`.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tidegate_model::OperationPhase;

use super::cluster::ConnectionArgs;
use super::common::{Format, ReasonArgs, StateArgs};
use super::health::CustomizationArgs;
use super::sync::WaitingArgs;
use super::values::{self, Moment};

/// Lists, shows and steers operations.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
ID is an operation's id, the beginning of one, or an application's name for its open operation,
or else its newest in the log.
An operation that another tidegate process works on is steered through that process; one whose
process is gone is steered in the log.

Examples:
  tidegate ops list
  tidegate ops list --since 24h --result failed
  tidegate ops show shop -o json
  tidegate ops export shop -o shop.html
  tidegate ops pause 019a --reason \"waiting for the database team\"")]
pub struct OpsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: OpsCommand,
}

/// One operation, and how to print it.
#[derive(Clone, Debug, Args)]
pub struct OneArgs {
    /// An operation's id, the beginning of one, or an application's name
    pub id: String,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}

/// What can be done with operations.
#[derive(Clone, Debug, Subcommand)]
pub enum OpsCommand {
    /// List operations, oldest first
    List(ListArgs),
    /// Show how an operation stands: waves, resources, warnings
    Show(OneArgs),
    /// Show everything that was recorded about an operation
    Log(OneArgs),
    /// Tell what happened to an operation, in numbered events
    Events(EventsArgs),
    /// Tell what the hooks of an operation write while they run, until it is over
    #[command(after_help = OUTPUT_HELP)]
    Output(OneArgs),
    /// Write all that is known of an operation to one file, for an incident or a change request
    Export(ExportArgs),
    /// End an operation: running hooks are stopped, nothing is rolled back
    Terminate {
        #[command(flatten)]
        one: OneArgs,
        #[command(flatten)]
        why: ReasonArgs,
        #[command(flatten)]
        connection: ConnectionArgs,
    },
    /// Hold an operation at its next safe point; its deadlines stand still
    Pause {
        #[command(flatten)]
        one: OneArgs,
        /// Why, for those who wonder
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Let a held operation go on
    Unpause {
        #[command(flatten)]
        one: OneArgs,
        #[command(flatten)]
        why: ReasonArgs,
    },
    /// Approve prunes that wait for confirmation (Prune=confirm)
    Confirm {
        #[command(flatten)]
        one: OneArgs,
        #[command(flatten)]
        why: ReasonArgs,
    },
    /// Approve a wave that waits at the gate "approval"
    Approve {
        #[command(flatten)]
        one: OneArgs,
        /// Number of the wave, as explain counts them; also one that is not reached yet [default: the one that waits]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        wave: Option<u32>,
        /// Why, for the record
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Go on without an object, or without what is not done of a wave
    Skip(PassOverArgs),
    /// Take an object, or what is not done of a wave, for done
    MarkDone(PassOverArgs),
    /// Try an object, or what has failed of a wave, again at once
    RetryTask(RetryTaskArgs),
}

const OUTPUT_HELP: &str = "\
Hooks that run are told from their last lines on, those that begin later from their first. What failed hooks
wrote last is kept with the operation: `tidegate ops show` has it. With -o json, one document per line.

Examples:
  tidegate ops output shop
  tidegate ops output 019a1b2c -o json";

/// Which part of an operation is meant.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("part").required(true))]
pub struct ScopeArgs {
    /// An object of the plan
    #[arg(long, value_name = "KIND[.GROUP]/NAME", group = "part")]
    pub task: Option<String>,
    /// Namespace of the object, where several have its name
    #[arg(short, long, value_name = "NAME", conflicts_with = "wave")]
    pub namespace: Option<String>,
    /// Phase of the hook, where it runs in several
    #[arg(long, value_name = "PHASE", conflicts_with = "wave")]
    pub phase: Option<String>,
    /// A wave by its phase and number, or by its number in the plan
    #[arg(long, value_name = "PHASE/N|N", group = "part")]
    pub wave: Option<String>,
}

/// What an operation goes on without.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The result, the log and the operation's message name what was passed over, with who and why.

`skip` leaves the object as it is, except that a hook that is at work is stopped first, as at the end of an
operation. `mark-done` says that the work is done: a hook that is at work is let go as if it had succeeded.

Examples:
  tidegate ops skip shop --task Job/smoke-test -n shop --reason \"tested by hand\"
  tidegate ops skip shop --wave Sync/3 --reason \"comes next week\"
  tidegate ops mark-done shop --task Deployment/api --reason \"its probe is broken, it serves\"")]
pub struct PassOverArgs {
    #[command(flatten)]
    pub one: OneArgs,
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", required = true, value_parser = values::said_reason)]
    pub reason: String,
}

/// What is tried again.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A call that waits for its next try is made at once; what has failed while its wave is still at work is done again,
a hook from its beginning. While the operation waits for its next attempt, that begins at once. What was skipped is
done after all, as long as its wave has not passed.

Example:
  tidegate ops retry-task shop --task Job/migrate -n shop --reason \"the database is back\"")]
pub struct RetryTaskArgs {
    #[command(flatten)]
    pub one: OneArgs,
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// Which operations are listed.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
TIME is a moment such as 2026-11-21T09:30:00Z, or how long ago: 90m, 24h.

Examples:
  tidegate ops list --app shop --result failed
  tidegate ops list --since 24h --by ann
  tidegate ops list --revision 4f2a9c -o json")]
pub struct ListArgs {
    /// Only those of this application
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
    /// Only those that stand like this; may be given several times
    #[arg(long, value_enum, value_name = "RESULT", ignore_case = true)]
    pub result: Vec<ResultArg>,
    /// Only those that began then or later
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub since: Option<Moment>,
    /// Only those that began before
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub until: Option<Moment>,
    /// Only those whose revision begins like this
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Only those that this person, or program, has asked for
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Only so many of the newest of these
    #[arg(long, value_name = "N", value_parser = values::count())]
    pub limit: Option<usize>,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}

/// How an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultArg {
    Running,
    Terminating,
    Succeeded,
    Failed,
    Error,
}

impl From<ResultArg> for OperationPhase {
    fn from(result: ResultArg) -> Self {
        match result {
            ResultArg::Running => Self::Running,
            ResultArg::Terminating => Self::Terminating,
            ResultArg::Succeeded => Self::Succeeded,
            ResultArg::Failed => Self::Failed,
            ResultArg::Error => Self::Error,
        }
    }
}

/// Which operation is written, and where to.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file needs nothing else, and asks nobody for anything: no scripts, no links, no pictures from elsewhere. Values of
Secrets are masked in it, as they are in the log.

Examples:
  tidegate ops export shop -o shop.html
  tidegate ops export 019a1b2c --format json > operation.json")]
pub struct ExportArgs {
    /// An operation's id, the beginning of one, or an application's name
    pub id: String,
    /// For programs, or for people [default: what the name of FILE ends in, or json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RecordFormat>,
    /// File that is written; one that is there is replaced; `-` is standard output [default: -]
    #[arg(short, long, value_name = "FILE", value_parser = values::path())]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub state: StateArgs,
}

impl ExportArgs {
    /// How it is written.
    pub fn format(&self) -> RecordFormat {
        record_format(self.format, self.output.as_deref())
    }
}

/// How a record is written: as it is asked for, or else as the name of its file says.
pub(super) fn record_format(asked: Option<RecordFormat>, file: Option<&Path>) -> RecordFormat {
    let ending = file.and_then(Path::extension);
    let is_page = ending.is_some_and(|is| is.eq_ignore_ascii_case("html") || is.eq_ignore_ascii_case("htm"));
    asked.unwrap_or(if is_page { RecordFormat::Html } else { RecordFormat::Json })
}

/// How the record of an operation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    // For programs.
    Json,
    // For people.
    Html,
}

/// Which events are told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Each event has the number of its record in the log; numbers grow, and not every record is an event.
With --follow, -o json prints one document per line, as soon as it is durable, until the operation is
over; where no process works on it, the command ends with exit code 3.

Examples:
  tidegate ops events shop
  tidegate ops events shop --after 120 --follow -o json")]
pub struct EventsArgs {
    #[command(flatten)]
    pub one: OneArgs,
    /// Only those after this number: the last one that was seen
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u64,
    /// Go on with what happens, until the operation is over
    #[arg(long)]
    pub follow: bool,
}

/// Goes on with operations.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without an ID, the only operation that is not over. An operation goes on in the cluster it was begun on, as
the user it was begun as: both are recorded with it. The options of a cluster are needed only where the way
there has changed; an operation never goes on in another cluster. Health scripts are kept with the operation
too; --customizations puts others in their place.

Examples:
  tidegate resume --all
  tidegate resume 019a1b2c --timeout 5m")]
pub struct ResumeArgs {
    /// An operation's id, the beginning of one, or an application's name
    #[arg(conflicts_with = "all")]
    pub id: Option<String>,
    /// All operations that are not over
    #[arg(long)]
    pub all: bool,
    /// Only operations of the simulated cluster, as --context is for only those of that cluster
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

/// Says why an operation is where it is.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Works on operations at work, on killed ones and on finished ones.

Examples:
  tidegate explain shop
  tidegate explain 019a1b2c -o json")]
pub struct ExplainArgs {
    /// An operation's id, the beginning of one, or an application's name for its open operation, or else its newest
    #[arg(value_name = "ID|APP")]
    pub id: String,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Looks into the simulated cluster.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate sim audit -o json
  tidegate sim objects
  tidegate sim delete apps:Deployment:fleet/frontend")]
pub struct SimArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SimCommand,
}

/// What can be done with the simulated cluster.
#[derive(Clone, Debug, Subcommand)]
pub enum SimCommand {
    /// List every write the cluster has received, also while it is at work
    Audit {
        /// How the result is printed
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        state: StateArgs,
    },
    /// List the objects in the cluster with their health
    Objects {
        /// How the result is printed; JSON and YAML hold the whole objects
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Delete an object, as somebody else would: to see what happens then
    Delete {
        /// GROUP:KIND:NAMESPACE/NAME
        #[arg(value_parser = super::values::selector)]
        object: tidegate_model::ResourceSelector,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Throw the cluster away; the next sync begins with an empty one
    Reset {
        #[command(flatten)]
        state: StateArgs,
    },
}
