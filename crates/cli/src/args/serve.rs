//! Arguments for `serve` and `example`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tidegate_application::control_namespace;
use tidegate_application::impersonation::ImpersonationMode;
use tidegate_server::{PeerName, parse_peer_name, parse_service_url};
use tidegate_source::Prefix;
use tidegate_stores::applications::ManagedScope;

use super::api::ApiArgs;
use super::cluster::ClusterArgs;
use super::common::StateArgs;
use super::health::CustomizationArgs;
use super::serve_appsets::ServeAppSetArgs;
use super::sync::RetentionArgs;
use super::values;

/// Runs the service.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
With --apps, Applications and AppProjects (argoproj.io/v1alpha1) are read from the YAML and JSON \
files in a folder, but not from its subfolders. Without --apps, they are resources in the cluster; \
`tidegate crds` prints the CRDs. A repoURL can be https://host/path, git@host:path, \
file:///path, an absolute path, or a path relative to the folder, such as ./repo. Removing an \
Application's file does not delete the Application's objects from the cluster. If an Application \
uses an unsupported feature, a condition in its status names the feature.

Examples:
  tidegate serve --sim --apps fleet
  tidegate serve --context staging --apps applications/ --refresh-every 30s
  tidegate serve --apps applications/ --repositories secrets/
  tidegate serve --sim --apps fleet --listen 8480
  tidegate serve --context staging --only-labelled
  tidegate serve --standby --listen 8480")]
pub struct ServeArgs {
    /// Folder with Application files [default: use the Applications in the cluster]
    #[arg(long, value_name = "DIR", value_parser = values::path_parser())]
    pub apps: Option<PathBuf>,
    /// Namespace of Argo CD's control plane, such as openshift-gitops. Applications in this namespace are
    /// named without a namespace prefix. This namespace is also the default for the other namespace options
    /// [default: argocd]
    #[arg(long, value_name = "NS", env = CONTROL_NAMESPACE_VARIABLE, value_parser = values::parse_namespace)]
    pub control_namespace: Option<String>,
    /// Namespace in which to manage Applications, or * for all namespaces (repeatable) [default: the control namespace]
    #[arg(long, value_name = "NS", conflicts_with = "apps")]
    pub app_namespace: Vec<String>,
    /// Namespace of the AppProjects. Applications in this namespace may use any project [default: the control
    /// namespace]
    #[arg(long, value_name = "NS", conflicts_with = "apps")]
    pub project_namespace: Option<String>,
    /// Manage only Applications with the label tidegate.dev/managed=true, and leave all other Applications to
    /// another controller
    #[arg(long, conflicts_with = "apps")]
    pub only_labelled: bool,
    /// Wait while another service manages the same folder or control plane, and take over when that service
    /// stops. Without --standby, the command reports the other service and exits with code 4
    #[arg(long)]
    pub standby: bool,
    /// Name of the Lease, in the namespace of the AppProjects, that prevents two services from managing the
    /// same Applications. Services that manage different Applications can use different Leases
    #[arg(long, value_name = "NAME", default_value = "tidegate", conflicts_with = "apps")]
    pub lease: String,
    /// URL of the PostgreSQL database that stores the operation log, such as postgres://tidegate@db/tidegate.
    /// Standby services on other machines can share the log if they have the same key in TIDEGATE_LOG_KEY
    /// [default: the log in the state directory]
    #[arg(long, value_name = "URL", env = "TIDEGATE_LOG_URL", hide_env_values = true, conflicts_with_all = ["apps", "sim"])]
    pub log: Option<String>,
    /// File with the password for --log
    #[arg(long, value_name = "FILE", value_parser = values::path_parser())]
    pub log_password: Option<PathBuf>,
    /// URL at which the other services of --log reach the API of this service, such as http://10.1.2.3:8480.
    /// While this service is the leader, standbys forward requests to this URL [default: the address in
    /// --listen, unless it is local or a wildcard]
    #[arg(long, value_name = "URL", requires = "log", requires = "listen", value_parser = parse_service_url)]
    pub advertise: Option<String>,
    /// File with the certificate authorities of the other services, in PEM format [default: the authorities
    /// that the system trusts]
    #[arg(long, value_name = "FILE", requires = "log", value_parser = values::path_parser())]
    pub peer_ca: Option<PathBuf>,
    /// Host name in the certificates of the other services [default: the host in their --advertise URL]
    #[arg(long, value_name = "HOST", requires = "log", value_parser = parse_peer_name)]
    pub peer_name: Option<PeerName>,
    /// File or folder with repository Secrets, certificates and known hosts in Argo CD's format
    #[arg(long, value_name = "PATH", value_parser = values::path_parser())]
    pub repositories: Option<PathBuf>,
    /// Namespace with repository Secrets to use in addition to those from --repositories [default: the
    /// control namespace]
    #[arg(long, value_name = "NS", conflicts_with = "apps")]
    pub secrets_namespace: Option<String>,
    /// File or folder with cluster Secrets in Argo CD's format, used instead of the Secrets in the cluster
    #[arg(long, value_name = "PATH", value_parser = values::path_parser())]
    pub clusters: Option<PathBuf>,
    /// Credential programs that cluster Secrets may specify in execProviderConfig, separated by commas and
    /// written exactly as in the Secrets [default: none]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub allow_exec_credentials: Vec<String>,
    /// Path to the program that renders Helm charts [default: helm on the PATH]
    #[arg(long, value_name = "PATH", env = "TIDEGATE_HELM", value_parser = values::path_parser())]
    pub helm: Option<PathBuf>,
    /// Path to kustomize or kubectl, which builds kustomizations [default: kustomize or kubectl on the PATH]
    #[arg(long, value_name = "PATH", env = "TIDEGATE_KUSTOMIZE", value_parser = values::path_parser())]
    pub kustomize: Option<PathBuf>,
    /// URL prefixes from which kustomizations may fetch remote bases and files, such as https://github.com/acme,
    /// separated by commas; * allows all URLs except plain HTTP [default: none]
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub allow_remote_bases: Vec<Prefix>,
    /// URL prefixes of repositories from which Helm may fetch chart dependencies, such as https://charts.example.com or
    /// oci://registry.example.com/charts, separated by commas; * allows all URLs except plain HTTP [default: none]
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub allow_chart_dependencies: Vec<Prefix>,
    /// Interval at which the service reads repositories and compares Applications; 0s disables periodic
    /// comparisons
    #[arg(long, value_name = "D", default_value = "3m", value_parser = values::parse_duration_arg)]
    pub refresh_every: Duration,
    /// Apply method for Applications that do not set the ServerSideApply sync option: `always` uses
    /// server-side apply; `auto` falls back to client-side apply, with a warning, if the server cannot apply
    /// the objects
    #[arg(long, value_enum, value_name = "MODE", default_value = "always", hide_possible_values = true)]
    pub server_side_apply: ServerSideApplyArg,
    /// Impersonate the service accounts in the projects' destinationServiceAccounts when writing to clusters,
    /// instead of using Tidegate's own permissions. If a project does not specify a service account,
    /// `required` refuses to write, and `named` uses Tidegate's permissions. --impersonate without a value
    /// means `required` [default: the setting in the argocd-cm ConfigMap, or never if there is none]
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "required",
        hide_possible_values = true
    )]
    pub impersonate: Option<ImpersonateArg>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// YAML file with gate definitions (sync windows, groups, endpoints, expressions), reloaded whenever an
    /// operation starts
    #[arg(long = "gates", value_name = "FILE", value_parser = values::path_parser())]
    pub definitions: Option<PathBuf>,
    #[command(flatten)]
    pub retention: RetentionArgs,
    #[command(flatten)]
    pub state: StateArgs,
    // Groups with a heading come last, because a heading applies to all arguments after it.
    #[command(flatten)]
    pub appsets: ServeAppSetArgs,
    #[command(flatten)]
    pub api: ApiArgs,
}

/// Environment variable with the namespace of the control plane, for all commands.
pub const CONTROL_NAMESPACE_VARIABLE: &str = "TIDEGATE_CONTROL_NAMESPACE";
/// Value for all namespaces.
const ALL_NAMESPACES: &str = "*";

impl ServeArgs {
    /// Returns the namespaces of managed Applications. An empty set means all namespaces.
    pub fn app_namespaces(&self) -> BTreeSet<String> {
        if self.app_namespace.iter().any(|one| one == ALL_NAMESPACES) {
            return BTreeSet::new();
        }
        match self.app_namespace.as_slice() {
            [] => BTreeSet::from([control_namespace().to_owned()]),
            named => named.iter().cloned().collect(),
        }
    }

    /// Returns the namespace of the AppProjects.
    pub fn project_namespace(&self) -> &str {
        self.project_namespace.as_deref().unwrap_or_else(|| control_namespace())
    }

    /// Returns the namespace of the repository and cluster Secrets.
    pub fn secrets_namespace(&self) -> &str {
        self.secrets_namespace.as_deref().unwrap_or_else(|| control_namespace())
    }

    /// Returns the scope that the service manages: the selected Applications in the cluster.
    pub fn managed_scope(&self) -> ManagedScope {
        ManagedScope {
            namespaces: self.app_namespaces(),
            is_label_required: self.only_labelled,
            project_namespace: self.project_namespace().to_owned(),
        }
    }
}

/// Mode of server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServerSideApplyArg {
    Always,
    Auto,
}

impl ServerSideApplyArg {
    /// Returns the corresponding sync options.
    pub fn sync_options(self) -> &'static [&'static str] {
        match self {
            Self::Always => &[],
            Self::Auto => &["ServerSideApply=auto"],
        }
    }
}

/// Mode of impersonating the service accounts that projects specify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImpersonateArg {
    Never,
    Named,
    Required,
}

impl ImpersonateArg {
    /// Returns the setting for the service.
    pub fn impersonation_mode(self) -> ImpersonationMode {
        match self {
            Self::Never => ImpersonationMode::Ignored,
            Self::Named => ImpersonationMode::WhereNamed,
            Self::Required => ImpersonationMode::Required,
        }
    }
}

/// Writes examples.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate example fleet
  tidegate example commit fleet/repo --message \"Change the greeting\"")]
pub struct ExampleArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: ExampleCommand,
}

/// Subcommands of `example`.
#[derive(Clone, Debug, Subcommand)]
pub enum ExampleCommand {
    /// Write the manifests of a small example shop with hooks and waves
    Shop {
        /// Folder to write to; it must be empty or not exist yet
        #[arg(default_value = "shop", value_name = "DIR")]
        folder: PathBuf,
    },
    /// Write three example Applications, an ApplicationSet, and the Git repository that they are deployed from
    Fleet {
        /// Folder to write to; it must be empty or not exist yet
        #[arg(default_value = "fleet", value_name = "DIR")]
        folder: PathBuf,
    },
    /// Commit all files in a folder to its Git repository; does not require git
    Commit {
        /// Folder that contains the Git repository
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Commit message
        #[arg(short, long, value_name = "TEXT", default_value = "Change the example")]
        message: String,
    },
}
