//! Project permissions, as in Argo CD, checked for each application and for each object that is written.
//!
//! Invalid patterns and unsupported rules never permit anything.

use tidegate_model::argo::{
    AppProject, AppProjectSpec, Application, ClusterResource, ObjectMeta, ProjectDestination,
};
use tidegate_model::{DeployTarget, Glob, InvalidGlob, ObjectKey, ProjectPolicy};

use crate::control_namespace;
use crate::repository_name::{AddressTooLong, RepositoryName, matches_server};

/// Default project of applications.
pub const DEFAULT_PROJECT: &str = "default";

/// Pattern that matches anything.
const ANY_PATTERN: &str = "*";

/// Returns the name of an application's project.
pub fn project_name(application: &Application) -> &str {
    match application.spec.project.as_str() {
        "" => DEFAULT_PROJECT,
        name => name,
    }
}
/// Problem with a list whose entries all start with `!`.
const NOTHING_PERMITTED: &str = "are negated (!)";
/// Advice for a list whose entries all start with `!`.
const ADD_PERMITTING_ENTRY: &str = "add an entry without !, such as *";

/// Reason why a project doesn't permit an operation or an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermissionError {
    /// The project uses an unsupported rule.
    #[error(
        "project '{project}' sets {field}, which is not supported yet, so the project's applications will \
         not be synced; remove the field, or move the applications to another project"
    )]
    UnsupportedRule {
        /// Name of the project.
        project: String,
        /// Name of the unsupported field.
        field: &'static str,
    },
    /// A rule contains an invalid pattern.
    #[error(
        "project '{project}': {field}: {source}; the project's applications will not be synced until this is \
         fixed"
    )]
    InvalidRule {
        /// Name of the project.
        project: String,
        /// Name of the list with the rule.
        field: &'static str,
        /// Problem with the pattern.
        source: InvalidGlob,
    },
    /// The project can't be used from the application's namespace.
    #[error(
        "application in namespace {namespace} is not permitted to use project '{project}': none of its \
         sourceNamespaces matches; add the namespace to the AppProject, or create the AppProject if it does \
         not exist"
    )]
    Namespace {
        /// Name of the project.
        project: String,
        /// Namespace of the application.
        namespace: String,
    },
    /// The repository is not permitted.
    #[error("application repo {repository} is not permitted in project '{project}': {rule}")]
    Repository {
        /// Name of the project.
        project: String,
        /// URL of the repository.
        repository: String,
        /// Rule that denies the repository.
        rule: String,
    },
    /// The destination is not permitted.
    #[error(
        "application destination server '{server}' and namespace '{namespace}' do not match any of the allowed destinations in project '{project}': {rule}"
    )]
    Destination {
        /// Name of the project.
        project: String,
        /// URL of the cluster.
        server: String,
        /// Destination namespace.
        namespace: String,
        /// Rule that denies the destination.
        rule: String,
    },
    /// The object's kind is not permitted.
    #[error("resource {group}:{kind} is not permitted in project {project}: {rule}")]
    Kind {
        /// Name of the project.
        project: String,
        /// API group.
        group: String,
        /// Kind of the object.
        kind: String,
        /// Rule that denies the kind.
        rule: String,
    },
    /// The object's namespace is not permitted.
    #[error("namespace {namespace} is not permitted in project '{project}': {rule}")]
    ObjectNamespace {
        /// Name of the project.
        project: String,
        /// Namespace of the object.
        namespace: String,
        /// Rule that denies the namespace.
        rule: String,
    },
}

/// Returns the `default` project, for installations that don't declare it. As in Argo CD, it permits
/// everything, but only for applications in the projects' namespace.
pub fn permissive_project() -> AppProject {
    let any = || ANY_PATTERN.to_owned();
    AppProject {
        metadata: ObjectMeta { name: DEFAULT_PROJECT.to_owned(), ..ObjectMeta::default() },
        spec: AppProjectSpec {
            source_repos: vec![any()],
            destinations: vec![ProjectDestination {
                server: any(),
                namespace: any(),
                ..ProjectDestination::default()
            }],
            cluster_resource_whitelist: vec![ClusterResource {
                group: any(),
                kind: any(),
                ..ClusterResource::default()
            }],
            ..AppProjectSpec::default()
        },
        ..AppProject::default()
    }
}

/// Checks that a project permits an operation as a whole, before any write. `home` is the projects'
/// namespace.
pub fn check_operation(
    project: &AppProject,
    mandate: &ProjectPolicy,
    home: &str,
) -> Result<(), PermissionError> {
    let rules = ProjectRules { name: &project.metadata.name, spec: &project.spec };
    rules.check_supported()?;
    rules.check_namespace(&mandate.namespace, home)?;
    for repository in &mandate.repositories {
        rules.check_repository(repository)?;
    }
    let target = &mandate.target;
    match rules.check_target(target, &target.namespace)? {
        None => Ok(()),
        Some(rule) => Err(PermissionError::Destination {
            project: rules.project_name(),
            server: target.servers.first().cloned().unwrap_or_default(),
            namespace: target.namespace.clone(),
            rule,
        }),
    }
}

/// Checks that a project permits a repository, including any that manifests use besides their source.
pub fn check_repository(project: &AppProject, repository: &str) -> Result<(), PermissionError> {
    let rules = ProjectRules { name: &project.metadata.name, spec: &project.spec };
    rules.check_supported()?;
    rules.check_repository(repository)
}

/// Checks that a project lets an operation write or delete an object. If the kind's scope is unknown, the
/// object must be permitted both as a namespaced and as a cluster-scoped one.
pub fn check_object(
    project: &AppProject,
    target: &DeployTarget,
    object: &ObjectKey,
    namespaced: Option<bool>,
) -> Result<(), PermissionError> {
    let rules = ProjectRules { name: &project.metadata.name, spec: &project.spec };
    let refused = |rule| PermissionError::Kind {
        project: rules.project_name(),
        group: object.group.clone(),
        kind: object.kind.clone(),
        rule,
    };
    if namespaced != Some(true)
        && let Some(rule) = rules.check_cluster_kind(object)?
    {
        return Err(refused(rule));
    }
    if namespaced != Some(false) {
        if let Some(rule) = rules.check_namespaced_kind(object)? {
            return Err(refused(rule));
        }
        if let Some(rule) = rules.check_target(target, &object.namespace)? {
            let (project, namespace) = (rules.project_name(), object.namespace.clone());
            return Err(PermissionError::ObjectNamespace { project, namespace, rule });
        }
    }
    Ok(())
}

/// Rules of a single project. Each check returns an error with the reason if something is denied.
struct ProjectRules<'p> {
    name: &'p str,
    spec: &'p AppProjectSpec,
}

impl ProjectRules<'_> {
    fn project_name(&self) -> String {
        self.name.to_owned()
    }

    fn invalid_rule(&self, field: &'static str) -> impl Fn(InvalidGlob) -> PermissionError {
        let project = self.project_name();
        move |source| PermissionError::InvalidRule { project: project.clone(), field, source }
    }

    /// Rejects projects with rules that Tidegate doesn't enforce, since violations would go unnoticed.
    fn check_supported(&self) -> Result<(), PermissionError> {
        match self.spec.source_integrity {
            Some(_) => Err(PermissionError::UnsupportedRule {
                project: self.project_name(),
                field: "sourceIntegrity",
            }),
            None => Ok(()),
        }
    }

    fn check_namespace(&self, namespace: &str, home: &str) -> Result<(), PermissionError> {
        let namespace = if namespace.is_empty() { control_namespace() } else { namespace };
        if namespace == home {
            return Ok(());
        }
        for pattern in &self.spec.source_namespaces {
            if is_match(pattern, namespace).map_err(self.invalid_rule("sourceNamespaces"))? {
                return Ok(());
            }
        }
        Err(PermissionError::Namespace { project: self.project_name(), namespace: namespace.to_owned() })
    }

    fn check_repository(&self, repository: &str) -> Result<(), PermissionError> {
        let wrong = self.invalid_rule("sourceRepos");
        let refused = |rule: String| PermissionError::Repository {
            project: self.project_name(),
            repository: repository.to_owned(),
            rule,
        };
        let wanted = RepositoryName::from_address(repository)
            .map_err(|AddressTooLong| refused(AddressTooLong.to_string()))?;
        let mut is_permitted = false;
        for pattern in &self.spec.source_repos {
            match pattern.strip_prefix('!') {
                Some(denied) if wanted.is_denied(denied).map_err(&wrong)? => {
                    return Err(refused(format!("denied by the sourceRepos entry {pattern:?}")));
                }
                Some(_) => {}
                None => is_permitted |= wanted.is_permitted(pattern).map_err(&wrong)?,
            }
        }
        if is_permitted { Ok(()) } else { Err(refused("none of its sourceRepos match".to_owned())) }
    }

    /// Checks a destination against the `destinations` list. Returns the reason if the destination is denied.
    ///
    /// Denying entries take precedence over permitting ones. An entry with a `!` in any field never permits
    /// anything: it denies whatever follows the `!`. A namespace with a `!` is denied on the clusters that
    /// match the entry's server or name or, if the entry has neither, on all clusters.
    fn check_target(
        &self,
        target: &DeployTarget,
        namespace: &str,
    ) -> Result<Option<String>, PermissionError> {
        let field = "destinations";
        let wrong = self.invalid_rule(field);
        if self.spec.permit_only_project_scoped_clusters && target.project != self.name {
            return Ok(Some(
                "permitOnlyProjectScopedClusters is set, and the cluster does not belong to the project"
                    .to_owned(),
            ));
        }
        let servers: Vec<&str> = target.servers.iter().map(String::as_str).collect();
        let of_server = |pattern: &str| matches_server(pattern, &servers).map_err(&wrong);
        let is_named = !target.name.is_empty();
        let of_name =
            |pattern: &str| is_match(pattern, &target.name).map(|is_it| is_it && is_named).map_err(&wrong);
        let of_namespace = |pattern: &str| is_match(pattern, namespace).map_err(&wrong);
        // As in Argo CD, a cluster declared for the project is one of its destinations.
        let mut is_permitted = !target.project.is_empty() && target.project == self.name;
        for entry in &self.spec.destinations {
            let denied_server = denied_pattern(&entry.server);
            let denied_name = denied_pattern(&entry.name);
            let denied_namespace = denied_pattern(&entry.namespace);
            // Evaluate all three patterns, so that an invalid one is always reported.
            let is_server = of_server(denied_server.unwrap_or(&entry.server))?;
            let is_name = of_name(denied_name.unwrap_or(&entry.name))?;
            let is_namespace = of_namespace(denied_namespace.unwrap_or(&entry.namespace))?;
            // A cluster without a name might be the denied one. Argo CD denies it too.
            let is_cluster_denied =
                (denied_server.is_some() && is_server) || (denied_name.is_some() && (is_name || !is_named));
            // A server or name with a `!` matches every cluster but those it denies.
            let is_everywhere = denied_server.is_some()
                || denied_name.is_some()
                || (entry.server.is_empty() && entry.name.is_empty());
            let is_namespace_denied =
                denied_namespace.is_some() && is_namespace && (is_everywhere || is_server || is_name);
            if is_cluster_denied || is_namespace_denied {
                return Ok(Some(format!("denied by the {field} entry with {}", entry_text(entry))));
            }
            if !is_denying_entry(entry) {
                let is_cluster = if entry.server.is_empty() { is_name } else { is_server };
                is_permitted |= is_cluster && is_namespace;
            }
        }
        Ok((!is_permitted).then(|| match self.has_only_denying_destinations() {
            true => format!("all entries in its {field} {NOTHING_PERMITTED}; {ADD_PERMITTING_ENTRY}"),
            false => format!("none of its {field} match"),
        }))
    }

    fn has_only_denying_destinations(&self) -> bool {
        !self.spec.destinations.is_empty() && self.spec.destinations.iter().all(is_denying_entry)
    }

    fn check_cluster_kind(&self, object: &ObjectKey) -> Result<Option<String>, PermissionError> {
        let has = |field, list: &[ClusterResource]| {
            let wrong = self.invalid_rule(field);
            for one in list {
                let is_it = is_match(&one.group, &object.group).map_err(&wrong)?
                    && is_match(&one.kind, &object.kind).map_err(&wrong)?
                    && (one.name.is_empty() || is_match(&one.name, &object.name).map_err(&wrong)?);
                if is_it {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let (white, black) = ("clusterResourceWhitelist", "clusterResourceBlacklist");
        let name = &object.name;
        if has(black, &self.spec.cluster_resource_blacklist)? {
            return Ok(Some(format!("an entry in its {black} matches {name}")));
        }
        let is_permitted = has(white, &self.spec.cluster_resource_whitelist)?;
        Ok((!is_permitted).then(|| format!("no entry in its {white} matches {name}")))
    }

    fn check_namespaced_kind(&self, object: &ObjectKey) -> Result<Option<String>, PermissionError> {
        let has = |field, list: &[tidegate_model::argo::NamespaceResource]| {
            let wrong = self.invalid_rule(field);
            for one in list {
                let is_it = is_match(&one.group, &object.group).map_err(&wrong)?
                    && is_match(&one.kind, &object.kind).map_err(&wrong)?;
                if is_it {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let (white, black) = ("namespaceResourceWhitelist", "namespaceResourceBlacklist");
        if has(black, &self.spec.namespace_resource_blacklist)? {
            return Ok(Some(format!("its {black} contains the kind")));
        }
        let is_permitted = match &self.spec.namespace_resource_whitelist {
            None => true,
            Some(list) => has(white, list)?,
        };
        Ok((!is_permitted).then(|| format!("its {white} does not contain the kind")))
    }
}

/// Returns true if a pattern matches the whole name.
pub(crate) fn is_match(pattern: &str, text: &str) -> Result<bool, InvalidGlob> {
    Ok(pattern == ANY_PATTERN || Glob::parse(pattern)?.matches(text))
}

/// Returns the pattern after the `!` of a denying entry, or `None` for any other entry.
fn denied_pattern(pattern: &str) -> Option<&str> {
    pattern.strip_prefix('!')
}

/// Returns true if an entry denies something and therefore doesn't permit anything.
fn is_denying_entry(entry: &ProjectDestination) -> bool {
    [&entry.server, &entry.name, &entry.namespace].into_iter().any(|field| denied_pattern(field).is_some())
}

/// Returns warnings about a project's lists that permit nothing because all their entries are negated.
pub fn only_denying_warnings(project: &AppProject) -> Vec<String> {
    let (name, spec) = (&project.metadata.name, &project.spec);
    let repositories = &spec.source_repos;
    let repositories =
        !repositories.is_empty() && repositories.iter().all(|one| denied_pattern(one).is_some());
    let destinations = ProjectRules { name, spec }.has_only_denying_destinations();
    let warning = |field: &str| {
        format!(
            "project '{name}' permits nothing: all entries in its {field} {NOTHING_PERMITTED}; \
             {ADD_PERMITTING_ENTRY}"
        )
    };
    let both = [(repositories, "sourceRepos"), (destinations, "destinations")];
    both.into_iter().filter(|(is_so, _)| *is_so).map(|(_, field)| warning(field)).collect()
}

fn entry_text(entry: &ProjectDestination) -> String {
    let fields = [("server", &entry.server), ("name", &entry.name), ("namespace", &entry.namespace)];
    let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(field, value)| format!("{field} {value:?}")).collect::<Vec<_>>().join(", ")
}
