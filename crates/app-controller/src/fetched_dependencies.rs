//! Dependencies outside a manifest's own source: rules for fetching dependencies, and a record of the fetched
//! dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_application::AppKey;
use tidegate_application::credentials::without_credentials;
use tidegate_application::instance_name;
use tidegate_application::project;
use tidegate_application::project::project_name;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::argo::{AppProject, Application};
use tidegate_source::{
    Address, AllowedSources, ClusterCapabilities, DependencyFetcher, RenderTarget, Repositories,
    RequiredKeys, UsedDependency,
};

use super::projects::Projects;

/// Context for rendering an Application's manifests.
#[derive(Clone)]
pub struct RenderContext {
    pub key: AppKey,
    pub purpose: RenderTarget,
    rules: FetchRules,
}

/// A project's rules for fetching (permitted repositories and required signers), or the reason why the
/// project isn't available.
type FetchRules = Result<(Arc<AppProject>, Option<RequiredKeys>), String>;

fn fetch_rules(projects: &Projects, name: &str) -> FetchRules {
    let (project, _) = projects.find(name).map_err(|missing| missing.to_string())?;
    Ok((project, projects.required_keys(name)?))
}

impl RenderContext {
    /// Returns the context for an Application, without data from its cluster. `namespace` is the namespace of
    /// the Application's objects.
    pub fn new(projects: &Projects, application: &Application, namespace: &str) -> Self {
        let project = project_name(application);
        let purpose = RenderTarget {
            name: application.metadata.name.clone(),
            instance: instance_name(application),
            project: project.to_owned(),
            namespace: namespace.to_owned(),
            cluster: ClusterCapabilities::default(),
        };
        Self { key: AppKey::of(application), purpose, rules: fetch_rules(projects, project) }
    }

    /// Returns a copy that contains data from the cluster.
    pub fn with_cluster(&self, cluster: ClusterCapabilities) -> Self {
        let mut made_for = self.clone();
        made_for.purpose.cluster = cluster;
        made_for
    }

    /// Returns a fetcher that may fetch dependencies from these repositories.
    pub fn dependency_fetcher(
        &self,
        repositories: &Arc<Repositories>,
        allowed: &Arc<AllowedSources>,
    ) -> DependencyFetcher {
        let rules = self.rules.clone();
        let signed = rules.as_ref().ok().and_then(|(_, keys)| keys.clone());
        let permits = move |repository: &str| {
            let (project, _) = rules.as_ref().map_err(String::clone)?;
            let checked = project::check_repository(project, &without_credentials(repository));
            checked.map_err(|refused| refused.to_string())
        };
        DependencyFetcher::new(
            Arc::clone(repositories),
            Arc::clone(allowed),
            self.purpose.project.clone(),
            Arc::new(permits),
            signed.map(|keys| (keys, SystemClock.now())),
        )
    }
}

/// Dependencies that were fetched for each Application when its manifests were last read.
#[derive(Default)]
pub(super) struct FetchedDependencies(Mutex<BTreeMap<AppKey, Vec<UsedDependency>>>);

impl FetchedDependencies {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<AppKey, Vec<UsedDependency>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns one Application's dependencies.
    pub fn get(&self, key: &AppKey) -> Vec<UsedDependency> {
        self.lock().get(key).cloned().unwrap_or_default()
    }

    /// Returns the addresses of all dependencies.
    pub fn addresses(&self) -> BTreeSet<Address> {
        self.lock().values().flatten().map(|used| used.address.clone()).collect()
    }

    /// Records the requested dependencies. After a failed fetch (`is_whole` is false) there may be more, so
    /// the previous dependencies are kept as well.
    pub fn record(&self, key: &AppKey, mut used: Vec<UsedDependency>, is_whole: bool) {
        let mut all = self.lock();
        if !is_whole {
            let before = all.remove(key).unwrap_or_default();
            let more = before.into_iter().filter(|one| !used.contains(one)).collect::<Vec<_>>();
            used.extend(more);
        }
        match used.is_empty() {
            true => drop(all.remove(key)),
            false => drop(all.insert(key.clone(), used)),
        }
    }

    /// Removes all Applications that aren't in the set.
    pub fn retain(&self, applications: &BTreeSet<AppKey>) {
        self.lock().retain(|key, _| applications.contains(key));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::path::Path;

    use tidegate_model::argo::ApplicationSource;

    use super::*;

    fn used(url: &str) -> UsedDependency {
        let address = Address::parse(url, Path::new("/")).unwrap();
        UsedDependency {
            address,
            source: ApplicationSource { repo_url: url.to_owned(), ..ApplicationSource::default() },
        }
    }

    /// A dependency that couldn't be fetched is also observed, and so are previous dependencies, which may
    /// still be needed.
    #[test]
    fn fetched_and_failed_dependencies_are_observed() {
        let (fetched, key) = (FetchedDependencies::default(), |name: &str| AppKey {
            namespace: "argocd".into(),
            name: name.into(),
        });
        let (a, b) = (used("https://example.com/x/a"), used("https://example.com/x/b"));
        fetched.record(&key("one"), vec![a.clone()], true);
        fetched.record(&key("one"), vec![b.clone()], false);
        assert_eq!(fetched.get(&key("one")), [b.clone(), a.clone()]);
        fetched.record(&key("two"), vec![a.clone()], true);
        fetched.record(&key("one"), vec![b.clone()], true);
        assert_eq!(fetched.get(&key("one")), [b]);
        fetched.retain(&BTreeSet::from([key("two")]));
        assert_eq!(fetched.addresses(), BTreeSet::from([a.address]));
        fetched.record(&key("two"), Vec::new(), true);
        assert!(fetched.addresses().is_empty() && fetched.lock().is_empty());
    }
}
