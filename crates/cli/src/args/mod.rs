//! The command line as it is written. The second stage, what it means, is in [`crate::request`] and the commands.

mod api;
mod app;
mod appset;
mod cluster;
mod common;
mod delete;
mod diff;
mod health;
mod ignore;
mod ops;
mod providers;
mod runs;
mod serve;
mod sets;
mod sync;
mod tracking;
mod values;
mod way;

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

pub use api::{ApiArgs, Listen};
pub use app::{
    AppApproveArgs, AppArgs, AppCommand, AppDeleteArgs, AppPlanArgs, AppRollbackArgs, AppSyncArgs,
    AppWaitArgs, EndArgs, ListedArgs, OneAppArgs, RevisionArgs,
};
pub use appset::{
    AppsetArgs, AppsetCommand, FoundArgs, GenerateArgs, OneSetArgs, SetDeleteArgs, SetPlanArgs, SetWishArgs,
};
pub use cluster::ConnectionArgs;
pub use common::{Format, ServiceArgs, StateArgs};
pub use delete::DeleteArgs;
pub use diff::DiffArgs;
pub use health::{CustomizationArgs, HealthArgs, Switch};
pub use ops::{
    EventsArgs, ExplainArgs, ExportArgs, ListArgs, OneArgs, OpsArgs, OpsCommand, PassOverArgs, RecordFormat,
    ResumeArgs, RetryTaskArgs, ScopeArgs, SimArgs, SimCommand,
};
pub use runs::{ExportRunArgs, RunsArgs, ShowRunArgs};
pub use serve::{ExampleArgs, ExampleCommand, ImpersonateArg, ServeArgs};
pub use sets::SetsArgs;
pub use sync::{
    ClaimArgs, OptionArgs, PlanArgs, PlanFormat, SelectionArgs, SourceArgs, SyncArgs, WaitArg, WaitingArgs,
};
pub use way::WayArgs;

/// Where to read on.
const MORE: &str = "\
Examples:
  tidegate plan examples/shop --sim                 what would be done, in which order
  tidegate sync examples/shop --app shop --sim      do it, wave by wave
  tidegate sync examples/shop --app shop            the same on the cluster of the kubeconfig
  tidegate delete --app shop --sim --yes            take it all away again, the last wave first
  tidegate explain shop                             why is it waiting, and for what?
  tidegate resume --all                             go on after a crash
  tidegate serve --sim --apps fleet                 keep applications as Git has them";

const ENVIRONMENT: &str = "\
Environment:
  TIDEGATE_STATE_DIR       folder of the operation log and the simulated cluster
  TIDEGATE_CUSTOMIZATIONS  health scripts, as --customizations
  TIDEGATE_LOG_KEY         key the manifests in the log are sealed with, 32 bytes as hex or
                           base64 [default: made and kept in the state directory]
  KUBECONFIG               files that say where the cluster is, as for kubectl
  TIDEGATE_LOG             filter of what is traced to standard error, such as
                           tidegate_executor=debug
  NO_COLOR                 no colours";

/// Deploys to Kubernetes in order, as durable operations.
///
/// Manifests are ordered into phases and waves by the annotations of Argo CD and Helm. A wave begins when the one
/// before it is healthy. Every step is on disk before it has an effect, so a killed operation can be resumed: no hook
/// runs twice and nothing is deleted twice.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100, after_help = help_end())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, display_order = 900, action = ArgAction::Count)]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what a sync would do, in order
    Plan(PlanArgs),
    /// Show how the cluster differs from the manifests
    Diff(DiffArgs),
    /// Run a sync and wait for it
    Sync(SyncArgs),
    /// Delete an application: its hooks for that, and all its objects in reverse order
    Delete(DeleteArgs),
    /// Go on with operations that are not over
    Resume(ResumeArgs),
    /// Say why an operation is where it is
    Explain(ExplainArgs),
    /// List, show and steer operations
    Ops(OpsArgs),
    /// Serve Applications: compare and sync them for as long as the process lives
    Serve(ServeArgs),
    /// List, show and sync the Applications that are served
    App(AppArgs),
    /// Show what ApplicationSets make and in which order, and steer those that are served
    Appset(AppsetArgs),
    /// Print the definitions of Applications, ApplicationSets and AppProjects (CRDs)
    #[command(
        after_help = "A cluster that has those of Argo CD already needs no others.\n\nExample:\n  tidegate crds | kubectl apply --server-side -f -"
    )]
    Crds {
        /// How they are printed
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Yaml)]
        output: Format,
    },
    /// Say how well objects in files do
    Health(HealthArgs),
    /// Look into the simulated cluster
    Sim(SimArgs),
    /// Write something to try things out on
    Example(ExampleArgs),
    /// Print the completion script of a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: CompletionShell,
    },
    /// Write man pages: one for each command
    #[command(after_help = "\
Example:
  tidegate man ~/.local/share/man/man1")]
    Man {
        /// Folder they are written to; those that are there are replaced
        #[arg(value_name = "DIR", value_parser = values::path())]
        folder: PathBuf,
    },
    /// Say what could come next, as kubectl asks its plugins
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        /// The words so far, the last of which is begun
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// What a completion script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    Bash,
    Elvish,
    Fish,
    // The file that kubectl looks for beside a plugin.
    Kubectl,
    Powershell,
    Zsh,
}

const COMPLETIONS: &str = "\
Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish
  tidegate completions powershell >> $PROFILE
  tidegate completions kubectl > ~/.local/bin/kubectl_complete-tidegate; chmod +x ~/.local/bin/kubectl_complete-tidegate";

fn help_end() -> String {
    format!("{MORE}\n\n{ENVIRONMENT}\n\n{}", common::CODES)
}
