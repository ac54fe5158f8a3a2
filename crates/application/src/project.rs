//! What may the applications of a project do? Argo CD's rules, for applications and for each object that is written.
//!
//! A pattern that makes no sense permits nothing, and so does a rule that is not supported.

use tidegate_model::argo::{AppProject, AppProjectSpec, ClusterResource, ObjectMeta, ProjectDestination};
use tidegate_model::{DeployTarget, Glob, InvalidGlob, Mandate, ObjectKey};

use crate::CONTROL_NAMESPACE;
use crate::repository_names::{RepositoryName, TooLong};

/// The project of applications that name none.
pub const DEFAULT_PROJECT: &str = "default";
/// Stands for anything.
const ANY: &str = "*";

/// Why something is not permitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPermitted {
    /// The project asks for what is not checked here.
    #[error(
        "project '{project}' has {field}, which is not supported yet: nothing of its applications is synced until that is taken away, or they are moved to another project"
    )]
    Unchecked {
        /// The project.
        project: String,
        /// The field.
        field: &'static str,
    },
    /// One of its rules makes no sense.
    #[error(
        "project '{project}': {field}: {source}; nothing of its applications is synced until that is mended"
    )]
    Rule {
        /// The project.
        project: String,
        /// The list.
        field: &'static str,
        /// What is wrong.
        source: InvalidGlob,
    },
    /// The application is not where it may be.
    #[error(
        "application in namespace {namespace} is not permitted to use project '{project}': none of its sourceNamespaces matches; add the namespace to the AppProject, or write that down if there is none"
    )]
    Namespace {
        /// The project.
        project: String,
        /// Where the application is.
        namespace: String,
    },
    /// Not from there.
    #[error("application repo {repository} is not permitted in project '{project}': {rule}")]
    Repository {
        /// The project.
        project: String,
        /// The repository.
        repository: String,
        /// Why.
        rule: String,
    },
    /// Not to there.
    #[error(
        "application destination server '{server}' and namespace '{namespace}' do not match any of the allowed destinations in project '{project}': {rule}"
    )]
    Destination {
        /// The project.
        project: String,
        /// The cluster.
        server: String,
        /// The namespace.
        namespace: String,
        /// Why.
        rule: String,
    },
    /// Not such an object.
    #[error("resource {group}:{kind} is not permitted in project {project}: {rule}")]
    Kind {
        /// The project.
        project: String,
        /// API group.
        group: String,
        /// Kind.
        kind: String,
        /// Why.
        rule: String,
    },
    /// Not in this namespace.
    #[error("namespace {namespace} is not permitted in project '{project}': {rule}")]
    ObjectNamespace {
        /// The project.
        project: String,
        /// The namespace.
        namespace: String,
        /// Why.
        rule: String,
    },
}

/// The project `default` where nobody has written it down: it forbids nothing to the applications beside the projects, and
/// has no others, as Argo CD's own.
pub fn permissive() -> AppProject {
    let any = || ANY.to_owned();
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

/// Whether a project permits what an operation was begun for, whatever it writes. `home` is the namespace of the projects.
pub fn check(project: &AppProject, mandate: &Mandate, home: &str) -> Result<(), NotPermitted> {
    let rules = Rules { name: &project.metadata.name, spec: &project.spec };
    rules.supported()?;
    rules.namespace(&mandate.namespace, home)?;
    for repository in &mandate.repositories {
        rules.repository(repository)?;
    }
    let target = &mandate.target;
    match rules.target(target, &target.namespace)? {
        None => Ok(()),
        Some(rule) => Err(NotPermitted::Destination {
            project: rules.project(),
            server: target.servers.first().cloned().unwrap_or_default(),
            namespace: target.namespace.clone(),
            rule,
        }),
    }
}

/// Whether a project permits a repository, be it one that manifests name beside their source.
pub fn check_repository(project: &AppProject, repository: &str) -> Result<(), NotPermitted> {
    let rules = Rules { name: &project.metadata.name, spec: &project.spec };
    rules.supported()?;
    rules.repository(repository)
}

/// Whether a project permits an operation to write an object, also to delete it. Where nobody knows whether a kind lives in
/// namespaces, both must be permitted.
pub fn check_object(
    project: &AppProject,
    target: &DeployTarget,
    object: &ObjectKey,
    namespaced: Option<bool>,
) -> Result<(), NotPermitted> {
    let rules = Rules { name: &project.metadata.name, spec: &project.spec };
    let refused = |rule| NotPermitted::Kind {
        project: rules.project(),
        group: object.group.clone(),
        kind: object.kind.clone(),
        rule,
    };
    if namespaced != Some(true)
        && let Some(rule) = rules.cluster_kind(object)?
    {
        return Err(refused(rule));
    }
    if namespaced != Some(false) {
        if let Some(rule) = rules.namespace_kind(object)? {
            return Err(refused(rule));
        }
        if let Some(rule) = rules.target(target, &object.namespace)? {
            let (project, namespace) = (rules.project(), object.namespace.clone());
            return Err(NotPermitted::ObjectNamespace { project, namespace, rule });
        }
    }
    Ok(())
}

/// The rules of one project. Each says why not, where it does not permit.
struct Rules<'p> {
    name: &'p str,
    spec: &'p AppProjectSpec,
}

impl Rules<'_> {
    fn project(&self) -> String {
        self.name.to_owned()
    }

    fn wrong(&self, field: &'static str) -> impl Fn(InvalidGlob) -> NotPermitted {
        let project = self.project();
        move |source| NotPermitted::Rule { project: project.clone(), field, source }
    }

    /// What is written down and not checked would be broken without a word.
    fn supported(&self) -> Result<(), NotPermitted> {
        match self.spec.source_integrity {
            Some(_) => Err(NotPermitted::Unchecked { project: self.project(), field: "sourceIntegrity" }),
            None => Ok(()),
        }
    }

    fn namespace(&self, namespace: &str, home: &str) -> Result<(), NotPermitted> {
        let namespace = if namespace.is_empty() { CONTROL_NAMESPACE } else { namespace };
        if namespace == home {
            return Ok(());
        }
        for pattern in &self.spec.source_namespaces {
            if is_match(pattern, namespace).map_err(self.wrong("sourceNamespaces"))? {
                return Ok(());
            }
        }
        Err(NotPermitted::Namespace { project: self.project(), namespace: namespace.to_owned() })
    }

    fn repository(&self, repository: &str) -> Result<(), NotPermitted> {
        let wrong = self.wrong("sourceRepos");
        let refused = |rule: String| NotPermitted::Repository {
            project: self.project(),
            repository: repository.to_owned(),
            rule,
        };
        let wanted = RepositoryName::of(repository).map_err(|TooLong| refused(TooLong.to_string()))?;
        let mut is_permitted = false;
        for pattern in &self.spec.source_repos {
            match pattern.strip_prefix('!') {
                Some(denied) if wanted.is_denied(denied).map_err(&wrong)? => {
                    return Err(refused(format!("sourceRepos denies {pattern:?}")));
                }
                Some(_) => {}
                None => is_permitted |= wanted.is_permitted(pattern).map_err(&wrong)?,
            }
        }
        if is_permitted { Ok(()) } else { Err(refused("none of its sourceRepos matches".to_owned())) }
    }

    /// An entry that denies goes before all that permit.
    fn target(&self, target: &DeployTarget, namespace: &str) -> Result<Option<String>, NotPermitted> {
        let field = "destinations";
        let wrong = self.wrong(field);
        if self.spec.permit_only_project_scoped_clusters && target.project != self.name {
            return Ok(Some(
                "permitOnlyProjectScopedClusters, and the cluster is not declared for it".to_owned(),
            ));
        }
        let (servers, names): (Vec<&str>, [&str; 1]) =
            (target.servers.iter().map(|server| server.trim_end_matches('/')).collect(), [&target.name]);
        // A cluster that is declared for the project is as good as one of its destinations, as with Argo CD.
        let mut is_permitted = !target.project.is_empty() && target.project == self.name;
        for entry in &self.spec.destinations {
            let is_by_name = entry.server.is_empty();
            let denies = |pattern: &str, texts: &[&str]| denied_by(pattern, texts).map_err(&wrong);
            if denies(&entry.server, &servers)? || denies(&entry.name, &names)? {
                return Ok(Some(format!("{field} denies {}", shown(entry))));
            }
            let of_cluster = if is_by_name {
                !target.name.is_empty() && permits(&entry.name, &names).map_err(&wrong)?
            } else {
                permits(&entry.server, &servers).map_err(&wrong)?
            };
            if !of_cluster {
                continue;
            }
            if denies(&entry.namespace, &[namespace])? {
                return Ok(Some(format!("{field} denies {}", shown(entry))));
            }
            is_permitted |= permits(&entry.namespace, &[namespace]).map_err(&wrong)?;
        }
        Ok((!is_permitted).then(|| format!("none of its {field} matches")))
    }

    fn cluster_kind(&self, object: &ObjectKey) -> Result<Option<String>, NotPermitted> {
        let has = |field, list: &[ClusterResource]| {
            let wrong = self.wrong(field);
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
            return Ok(Some(format!("its {black} has {name}")));
        }
        let is_permitted = has(white, &self.spec.cluster_resource_whitelist)?;
        Ok((!is_permitted).then(|| format!("its {white} does not have {name}")))
    }

    fn namespace_kind(&self, object: &ObjectKey) -> Result<Option<String>, NotPermitted> {
        let has = |field, list: &[tidegate_model::argo::NamespaceResource]| {
            let wrong = self.wrong(field);
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
            return Ok(Some(format!("its {black} has it")));
        }
        let is_permitted = match &self.spec.namespace_resource_whitelist {
            None => true,
            Some(list) => has(white, list)?,
        };
        Ok((!is_permitted).then(|| format!("its {white} does not have it")))
    }
}

/// Whether a pattern matches a whole name.
pub(crate) fn is_match(pattern: &str, text: &str) -> Result<bool, InvalidGlob> {
    Ok(pattern == ANY || Glob::parse(pattern)?.matches(text))
}

/// A pattern with `!` permits what it does not deny.
fn permits(pattern: &str, texts: &[&str]) -> Result<bool, InvalidGlob> {
    if pattern.starts_with('!') {
        return Ok(!denied_by(pattern, texts)?);
    }
    matches_any(pattern, texts)
}

fn denied_by(pattern: &str, texts: &[&str]) -> Result<bool, InvalidGlob> {
    pattern.strip_prefix('!').map_or(Ok(false), |denied| matches_any(denied, texts))
}

/// Whether a pattern matches one of these; a slash at its end is none of it.
pub(crate) fn matches_any(pattern: &str, texts: &[&str]) -> Result<bool, InvalidGlob> {
    if pattern == ANY {
        return Ok(true);
    }
    let glob = Glob::parse(pattern.strip_suffix('/').unwrap_or(pattern))?;
    Ok(texts.iter().any(|text| glob.matches(text)))
}

fn shown(entry: &ProjectDestination) -> String {
    let fields = [("server", &entry.server), ("name", &entry.name), ("namespace", &entry.namespace)];
    let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(field, value)| format!("{field} {value:?}")).collect::<Vec<_>>().join(", ")
}
