//! `serve` and `example`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tidegate_application::CONTROL_NAMESPACE;
use tidegate_application::accounts::Accounts;
use tidegate_source::Prefix;

use super::api::ApiArgs;
use super::cluster::ClusterArgs;
use super::common::StateArgs;
use super::health::CustomizationArgs;
use super::sets::SetsArgs;
use super::sync::KeepArgs;
use super::values;

/// Serves Applications.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
With --apps, a folder holds Applications and AppProjects (argoproj.io/v1alpha1) as YAML or JSON;
folders in it are not read. Without it they are resources of the cluster, whose definitions `tidegate crds` prints.
A repoURL is https://host/path, git@host:path, file:///path, an absolute path, or one relative to
the folder: ./repo. Of an application whose file disappears the objects stay. What is not supported
yet is a condition of the application that asks for it.

Examples:
  tidegate serve --sim --apps fleet
  tidegate serve --context staging --apps applications/ --refresh-every 30s
  tidegate serve --apps applications/ --repositories secrets/
  tidegate serve --sim --apps fleet --listen 8480
  tidegate serve --context staging --only-labelled")]
pub struct ServeArgs {
    /// Folder of the Applications; without it, those of the cluster are served
    #[arg(long, value_name = "DIR", value_parser = values::path())]
    pub apps: Option<PathBuf>,
    /// Namespace whose Applications are served, or * for all; may be given several times
    #[arg(long, value_name = "NS", default_value = CONTROL_NAMESPACE, conflicts_with = "apps")]
    pub app_namespace: Vec<String>,
    /// Namespace of the AppProjects; applications in it need no permission to use them
    #[arg(long, value_name = "NS", default_value = CONTROL_NAMESPACE, conflicts_with = "apps")]
    pub project_namespace: String,
    /// Serve only Applications labelled tidegate.dev/managed=true, beside another that serves the rest
    #[arg(long, conflicts_with = "apps")]
    pub only_labelled: bool,
    /// Repository Secrets (and certificates and known hosts) as Argo CD has them: a file, or a folder of files
    #[arg(long, value_name = "PATH", value_parser = values::path())]
    pub repositories: Option<PathBuf>,
    /// Namespace whose repository Secrets are used, beside those of --repositories
    #[arg(long, value_name = "NS", default_value = CONTROL_NAMESPACE, conflicts_with = "apps")]
    pub secrets_namespace: String,
    /// Cluster Secrets as Argo CD has them: a file, or a folder of files, instead of those of the cluster
    #[arg(long, value_name = "PATH", value_parser = values::path())]
    pub clusters: Option<PathBuf>,
    /// Programs that cluster Secrets may have run to give credentials (execProviderConfig), as they name them;
    /// separated by commas. Without it they may have none run
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub allow_exec_credentials: Vec<String>,
    /// Program for Helm charts [default: helm on the PATH]
    #[arg(long, value_name = "PATH", env = "TIDEGATE_HELM", value_parser = values::path())]
    pub helm: Option<PathBuf>,
    /// Program for kustomizations: kustomize, or kubectl [default: either of them on the PATH]
    #[arg(long, value_name = "PATH", env = "TIDEGATE_KUSTOMIZE", value_parser = values::path())]
    pub kustomize: Option<PathBuf>,
    /// Beginnings of addresses from which remote bases and files of kustomizations are fetched, such as
    /// https://github.com/acme, separated by commas; * for all that are not plain HTTP. Without it none are
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub allow_remote_bases: Vec<Prefix>,
    /// Beginnings of addresses of repositories from which charts are fetched that charts need, such as
    /// https://charts.example.com or oci://registry.example.com/charts, separated by commas; * for all that are not
    /// plain HTTP. Without it none are
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub allow_chart_dependencies: Vec<Prefix>,
    /// How often repositories are looked at, and applications compared anyway; 0s for never
    #[arg(long, value_name = "D", default_value = "3m", value_parser = values::duration)]
    pub refresh_every: Duration,
    /// Write as the service accounts that projects name in destinationServiceAccounts, instead of with rights of
    /// our own: `required` writes nothing where a project names none, `named` does so with our own rights; `required`
    /// if no value is given [default: what the ConfigMap argocd-cm says, or never]
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "required",
        hide_possible_values = true
    )]
    pub impersonate: Option<ImpersonateArg>,
    #[command(flatten)]
    pub sets: SetsArgs,
    #[command(flatten)]
    pub api: ApiArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// What the names of gates stand for: a YAML file with windows, groups, endpoints and expressions, read again
    /// when an operation begins
    #[arg(long = "gates", value_name = "FILE", value_parser = values::path())]
    pub definitions: Option<PathBuf>,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

/// When service accounts of projects are acted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImpersonateArg {
    Never,
    Named,
    Required,
}

impl ImpersonateArg {
    /// What it means.
    pub fn accounts(self) -> Accounts {
        match self {
            Self::Never => Accounts::Ignored,
            Self::Named => Accounts::WhereNamed,
            Self::Required => Accounts::Required,
        }
    }
}

/// Writes examples.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate example fleet
  tidegate example commit fleet/repo --message \"Greet in another way\"")]
pub struct ExampleArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ExampleCommand,
}

/// What there is to try.
#[derive(Clone, Debug, Subcommand)]
pub enum ExampleCommand {
    /// Write three Applications, an ApplicationSet, and the Git repository they are deployed from
    Fleet {
        /// A folder that is empty, or not there
        #[arg(default_value = "fleet", value_name = "DIR")]
        folder: PathBuf,
    },
    /// Commit all files of a folder to the Git repository in it; no git program is needed
    Commit {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// What the commit says
        #[arg(short, long, value_name = "TEXT", default_value = "Change the example")]
        message: String,
    },
}
