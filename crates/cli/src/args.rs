//! Command-line arguments, which [`crate::request`] and the commands interpret.

mod api;
mod app;
mod appset;
mod cluster;
mod common;
mod delete;
mod diff;
mod health;
#[cfg(test)]
mod hints;
mod ignore;
mod log;
#[cfg(test)]
mod next_actions;
mod ops;
mod providers;
mod replicas;
mod runs;
mod serve;
mod serve_appsets;
mod sync;
mod tracking;
mod transport;
mod values;

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

pub use api::{ApiArgs, ListenAddress};
pub use app::{
    AppApproveArgs, AppArgs, AppCommand, AppDeleteArgs, AppPlanArgs, AppRollbackArgs, AppSyncArgs,
    AppWaitArgs, ApplicationFilterArgs, EndWaitArgs, RevisionArgs, SingleAppArgs,
};
pub use appset::{
    AppSetArgs, AppSetCommand, AppSetDeleteArgs, AppSetPlanArgs, AppSetRequestArgs, GenerateArgs,
    GeneratorArgs, SingleAppSetArgs,
};
pub use cluster::ConnectionArgs;
pub use common::{Format, ServiceArgs, StateArgs};
pub use delete::DeleteArgs;
pub use diff::DiffArgs;
pub use health::{CustomizationArgs, HealthArgs, Switch};
pub use log::{CopyLogArgs, LogArgs, LogCommand, LogLocation};
pub use ops::{
    EventsArgs, ExplainArgs, ExportArgs, OperationListArgs, OpsArgs, OpsCommand, OverrideArgs, RecordFormat,
    ResumeArgs, RetryTaskArgs, ScopeArgs, SimArgs, SimCommand, SingleOperationArgs,
};
pub use replicas::{DrainReplicaArgs, ListReplicasArgs, ReplicasArgs, ReplicasCommand, SharedLogArgs};
pub use runs::{ExportRunArgs, RunsArgs, ShowRunArgs};
pub use serve::{CONTROL_NAMESPACE_VARIABLE, ExampleArgs, ExampleCommand, ImpersonateArg, ServeArgs};
pub use serve_appsets::ServeAppSetArgs;
pub use sync::{
    ApplicationSourceArgs, ClaimArgs, ComparisonArgs, OptionArgs, PlanArgs, PlanFormat, SelectionArgs,
    SourceArgs, SyncArgs, WaitArg, WaitingArgs,
};
pub use transport::TransportArgs;
pub use values::parse_namespace;

/// Examples at the end of the help text.
const MORE: &str = "\
Examples:
  tidegate plan examples/shop --sim                 show the changes, in order
  tidegate sync examples/shop --app shop --sim      apply them, wave by wave
  tidegate sync examples/shop --app shop            do the same in the kubeconfig's cluster
  tidegate delete --app shop --sim --yes            delete everything, starting with the last wave
  tidegate explain shop                             show what the application is waiting for
  tidegate resume --all                             continue after a crash
  tidegate serve --sim --apps fleet                 keep applications in sync with Git";

const ENVIRONMENT: &str = "\
Environment:
  TIDEGATE_STATE_DIR       directory for the operation log and the simulated cluster
  TIDEGATE_CUSTOMIZATIONS  health rules, as with --customizations
  TIDEGATE_CONTROL_NAMESPACE
                           namespace of Argo CD's control plane, see `serve --control-namespace`
                           [default: argocd]
  TIDEGATE_LOG_KEY         key that encrypts the manifests in the log, 32 bytes as hex or base64
                           [default: created and stored in the state directory]
  KUBECONFIG               kubeconfig files, as for kubectl
  TIDEGATE_LOG             filter for log messages on standard error, such as
                           tidegate_executor=debug
  NO_COLOR                 disables colors";

/// Deploy to Kubernetes in order, as durable operations
///
/// Annotations from Argo CD and Helm sort manifests into phases and waves. A wave starts once the previous
/// wave is healthy. Every step is written to disk before it takes effect, so a killed operation can be
/// resumed: no hook runs twice and nothing is deleted twice.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100, after_help = help_footer())]
pub struct Cli {
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// Print more details to standard error; repeat to print everything
    #[arg(short, long, global = true, display_order = 900, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Subcommands of `tidegate`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the steps of a sync without running it
    Plan(PlanArgs),
    /// Show how the cluster differs from the manifests
    Diff(DiffArgs),
    /// Run a sync and wait for the result
    Sync(SyncArgs),
    /// Delete an application: run its deletion hooks and delete its objects in reverse order
    Delete(DeleteArgs),
    /// Resume unfinished operations
    Resume(ResumeArgs),
    /// Explain the state of an operation
    Explain(ExplainArgs),
    /// List, show and control operations
    Ops(OpsArgs),
    /// Copy the operation log to PostgreSQL and back
    Log(LogArgs),
    /// List and stop the services that share an operation log
    Replicas(ReplicasArgs),
    /// Run the service that continuously compares and syncs Applications
    Serve(Box<ServeArgs>),
    /// List, show and sync managed Applications
    App(AppArgs),
    /// Preview, show and control ApplicationSets
    Appset(AppSetArgs),
    /// Print the CRDs for Applications, ApplicationSets and AppProjects
    #[command(
        after_help = "This command is not needed if Argo CD's CRDs are already installed.\n\nExample:\n  tidegate crds | kubectl apply --server-side -f -"
    )]
    Crds {
        /// Output format
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Yaml)]
        output: Format,
    },
    /// Print the health of objects in files
    Health(HealthArgs),
    /// Inspect and change the simulated cluster
    Sim(SimArgs),
    /// Write example files
    Example(ExampleArgs),
    /// Print a shell completion script
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Shell to print the script for
        #[arg(value_enum)]
        shell: CompletionShell,
    },
    /// Write a man page for each command
    #[command(after_help = "\
Example:
  tidegate man ~/.local/share/man/man1")]
    Man {
        /// Folder for the man pages; existing man pages are overwritten
        #[arg(value_name = "DIR", value_parser = values::path_parser())]
        folder: PathBuf,
    },
    /// Print completions in the format that kubectl expects from its plugins
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        /// Words typed so far; the last word may be incomplete
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// Shell or program that a completion script is generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    Bash,
    Elvish,
    Fish,
    // Completion script that kubectl looks for next to a plugin.
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

fn help_footer() -> String {
    format!("{MORE}\n\n{ENVIRONMENT}\n\n{}", common::EXIT_CODES)
}
