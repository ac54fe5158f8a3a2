//! What manifests are made with beside their own source: what may be fetched for an application, and what was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_application::credentials::without_credentials;
use tidegate_application::instance_name;
use tidegate_application::project;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::argo::{AppProject, Application};
use tidegate_source::{Address, Allowed, Fetching, Purpose, Repositories, Served, Used, Wanted};

use super::places::Place;
use super::projects::{self, Projects};
use super::shared::Shared;
use super::store::AppKey;

/// What manifests are made for.
#[derive(Clone)]
pub(crate) struct For {
    pub key: AppKey,
    pub purpose: Purpose,
    rules: Rules,
}

/// What its project says of what is fetched: which repositories, and who has to have signed them; or why nobody knows.
type Rules = Result<(Arc<AppProject>, Option<Wanted>), String>;

fn rules(projects: &Projects, name: &str) -> Rules {
    let (project, _) = projects.find(name).map_err(|missing| missing.to_string())?;
    Ok((project, projects.signers(name)?))
}

impl Shared {
    /// What the manifests of an application are made for, in a place whose cluster nobody has asked anything.
    pub(super) fn made_for(&self, application: &Application, place: &Place) -> For {
        let project = projects::name_of(application);
        let purpose = Purpose {
            name: application.metadata.name.clone(),
            instance: instance_name(application),
            project: project.to_owned(),
            namespace: place.namespace.clone(),
            cluster: Served::default(),
        };
        For { key: AppKey::of(application), purpose, rules: rules(&self.projects, project) }
    }
}

impl For {
    /// The same, with what is known of the cluster.
    pub fn in_cluster(&self, cluster: Served) -> Self {
        let mut made_for = self.clone();
        made_for.purpose.cluster = cluster;
        made_for
    }

    /// What may be fetched for it, from these repositories.
    pub fn fetching(&self, repositories: &Arc<Repositories>, allowed: &Arc<Allowed>) -> Fetching {
        let rules = self.rules.clone();
        let signed = rules.as_ref().ok().and_then(|(_, wanted)| wanted.clone());
        let permits = move |repository: &str| {
            let (project, _) = rules.as_ref().map_err(String::clone)?;
            let checked = project::check_repository(project, &without_credentials(repository));
            checked.map_err(|refused| refused.to_string())
        };
        let from = (Arc::clone(repositories), Arc::clone(allowed));
        Fetching::new(
            from,
            (self.purpose.project.clone(), Arc::new(permits)),
            signed.map(|wanted| (wanted, SystemClock.now())),
        )
    }
}

/// What was fetched for each application when its manifests were located last.
#[derive(Default)]
pub(super) struct Fetched(Mutex<BTreeMap<AppKey, Vec<Used>>>);

impl Fetched {
    fn all(&self) -> MutexGuard<'_, BTreeMap<AppKey, Vec<Used>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of one application.
    pub fn of(&self, key: &AppKey) -> Vec<Used> {
        self.all().get(key).cloned().unwrap_or_default()
    }

    /// All addresses.
    pub fn addresses(&self) -> BTreeSet<Address> {
        self.all().values().flatten().map(|used| used.address.clone()).collect()
    }

    /// What was asked for. Where that was not to be had there may be more, and what was asked for before is looked at too.
    pub fn put(&self, key: &AppKey, mut used: Vec<Used>, is_whole: bool) {
        let mut all = self.all();
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

    /// Forgets applications that are not among these.
    pub fn keep_only(&self, applications: &BTreeSet<AppKey>) {
        self.all().retain(|key, _| applications.contains(key));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::path::Path;

    use tidegate_model::argo::ApplicationSource;

    use super::*;

    fn used(url: &str) -> Used {
        let address = Address::parse(url, Path::new("/")).unwrap();
        Used {
            address,
            source: ApplicationSource { repo_url: url.to_owned(), ..ApplicationSource::default() },
        }
    }

    /// What could not be had is looked at again, and so is what there was before: it may be wanted still.
    #[test]
    fn what_is_looked_at_with_an_application() {
        let (fetched, key) =
            (Fetched::default(), |name: &str| AppKey { namespace: "argocd".into(), name: name.into() });
        let (a, b) = (used("https://example.com/x/a"), used("https://example.com/x/b"));
        fetched.put(&key("one"), vec![a.clone()], true);
        fetched.put(&key("one"), vec![b.clone()], false);
        assert_eq!(fetched.of(&key("one")), [b.clone(), a.clone()]);
        fetched.put(&key("two"), vec![a.clone()], true);
        fetched.put(&key("one"), vec![b.clone()], true);
        assert_eq!(fetched.of(&key("one")), [b]);
        fetched.keep_only(&BTreeSet::from([key("two")]));
        assert_eq!(fetched.addresses(), BTreeSet::from([a.address]));
        fetched.put(&key("two"), Vec::new(), true);
        assert!(fetched.addresses().is_empty() && fetched.all().is_empty());
    }
}
