//! Looking through a cluster for what belongs to an application: kind by kind, no further than one may look, and once for
//! all applications that wait for it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_cluster::{ClusterError, Detail, ErrorKind, LiveQuery, MissingRight, Unsearched};
use tidegate_model::{Gvk, Object, Search, Tracking};

use crate::KubeCluster;
use crate::discovery::catalog::Catalog;
use crate::live::AT_ONCE;
use crate::paths::{Target, push_value};
use crate::rounds::Rounds;

/// Kinds that change all the time, are made by the cluster, and are nobody's manifest.
const NOT_SEARCHED: [(&str, &str); 7] = [
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("", "Endpoints"),
    ("", "ComponentStatus"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("coordination.k8s.io", "Lease"),
    ("apps", "ControllerRevision"),
];
/// A group that is served from measurements, not from stored objects.
const METRICS: &str = "metrics.k8s.io";
/// A group that shows objects of other groups once more.
const OLD_GROUP: &str = "extensions";

/// Each application that has objects, with those that it may prune.
type Roots = HashMap<String, Vec<Sighted>>;
/// The searches under way, each by the objects that are looked through and the marks that are looked for.
pub(crate) type Searches = Rounds<(String, Tracking), Arc<Looked>>;
/// What a search has found, or that it is forbidden, which is an answer as good as another for a while.
type Looked = Result<Roots, ClusterError>;

/// Where there are many applications, what was found so short a time ago will do: what an application writes itself is recorded
/// with its operations, and what somebody else writes at that very moment may as well be written a moment later.
const RECENTLY: Duration = Duration::from_secs(3);

/// What is remembered of an object that a search has come across.
#[derive(Clone, Debug)]
pub(crate) struct Sighted {
    uid: String,
    namespace: String,
    name: String,
}

impl Sighted {
    fn of(object: &Object) -> Self {
        Self {
            uid: object.uid().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
        }
    }
}

/// What looking through the objects of one kind has found.
#[derive(Default)]
struct Searched {
    found: Vec<Sighted>,
    unsearched: Option<Unsearched>,
}

impl KubeCluster {
    /// Looks through the cluster for what belongs to the application, as far as the query reaches. Only metadata is read,
    /// and where a label tells, only that of the objects with the label.
    pub(crate) async fn search(
        &self,
        catalog: &Catalog,
        query: &LiveQuery,
        search: &Search,
    ) -> Result<(BTreeSet<(Gvk, String, String)>, Vec<Unsearched>), ClusterError> {
        let wanted = query.searched_kinds();
        let is_wanted = |gvk: &Gvk| wanted.as_ref().is_none_or(|kinds| kinds.contains(&gvk.group_kind()));
        let mut kinds: Vec<_> = catalog
            .preferred()
            .filter(|(gvk, resource)| {
                let group = gvk.group.as_str();
                resource.listable && group != METRICS && !NOT_SEARCHED.contains(&(group, gvk.kind.as_str()))
            })
            .map(|(gvk, _)| gvk)
            .filter(is_wanted)
            .collect();
        kinds.sort_by_key(|gvk| gvk.group == OLD_GROUP);
        let namespaces = query.searched_namespaces();
        let mut conditions = String::new();
        if let Search::Labelled { key, value } = search {
            conditions.push_str("&labelSelector=");
            push_value(&mut conditions, &format!("{key}={value}"));
        }
        let searches = stream::iter(kinds.clone())
            .map(|gvk| {
                let (namespaces, conditions) = (&namespaces, conditions.as_str());
                async move { self.search_kind(&gvk, (query, conditions), namespaces).await }
            })
            .buffered(AT_ONCE);
        let results: Vec<Searched> = searches.try_collect().await?;
        self.tell_of_unsearched(&kinds, &results);
        let mut seen = HashSet::new();
        let found = kinds.iter().zip(&results).flat_map(|(gvk, result)| {
            result.found.iter().map(move |Sighted { uid, namespace, name }| (gvk, uid, namespace, name))
        });
        let once = found.filter(|(_, uid, _, _)| seen.insert(*uid));
        let places = once.map(|(gvk, _, namespace, name)| (gvk.clone(), namespace.clone(), name.clone()));
        let places = places.collect();
        Ok((places, results.into_iter().filter_map(|result| result.unsearched).collect()))
    }

    /// Says which kinds cannot be searched: once, until they can be.
    fn tell_of_unsearched(&self, kinds: &[Gvk], results: &[Searched]) {
        let is_unsearched = |result: &Searched| result.unsearched.as_ref().is_some_and(|one| !one.is_beyond);
        let unsearched = kinds.iter().zip(results).filter(|(_, result)| is_unsearched(result));
        let new = self.newly_unsearched(kinds, &unsearched.map(|(gvk, _)| gvk.clone()).collect());
        if !new.is_empty() {
            let names: Vec<String> = new.iter().map(|gvk| gvk.group_kind().to_string()).collect();
            tracing::warn!(
                context = self.context(),
                kinds = names.join(", "),
                "objects of some kinds cannot be searched for those of an application; grant list of them, or leave them to others"
            );
        }
    }

    async fn search_kind(
        &self,
        gvk: &Gvk,
        what: (&LiveQuery, &str),
        namespaces: &BTreeSet<&str>,
    ) -> Result<Searched, ClusterError> {
        let error = match self.search_in(gvk, None, what).await {
            Ok(found) => return Ok(Searched { found, unsearched: None }),
            Err(error) => error,
        };
        match error.kind {
            ErrorKind::Forbidden => self.search_namespaces(gvk, (what, &error), namespaces).await,
            // There is nothing of a kind that is not served.
            ErrorKind::UnknownKind | ErrorKind::NotFound | ErrorKind::Unsupported => Ok(Searched::default()),
            ErrorKind::Server => {
                let (kind, missing, message) = (gvk.group_kind(), BTreeSet::new(), error.message);
                let unsearched = Unsearched { kind, is_beyond: false, missing, message };
                Ok(Searched { found: Vec::new(), unsearched: Some(unsearched) })
            }
            _ => Err(error),
        }
    }

    /// Rights may end at a few namespaces: those in which the application may have something are the ones that matter.
    async fn search_namespaces(
        &self,
        gvk: &Gvk,
        (what, everywhere): ((&LiveQuery, &str), &ClusterError),
        namespaces: &BTreeSet<&str>,
    ) -> Result<Searched, ClusterError> {
        let resource = self.kinds().find(self.http(), gvk).await?;
        let name = match gvk.group.as_str() {
            "" => resource.plural.clone(),
            group => format!("{}.{group}", resource.plural),
        };
        let right = |namespace: &str| MissingRight {
            namespace: namespace.to_owned(),
            resource: name.clone(),
            verb: "list",
        };
        let (mut found, mut missing) = (Vec::new(), BTreeSet::new());
        let mut message = everywhere.message.clone();
        for namespace in namespaces.iter().filter(|_| resource.namespaced) {
            match self.search_in(gvk, Some(namespace), what).await {
                Ok(objects) => found.extend(objects),
                Err(error) if error.kind == ErrorKind::Forbidden => {
                    missing.insert(right(namespace));
                    message = error.message;
                }
                Err(error) => return Err(error),
            }
        }
        let is_beyond = resource.namespaced && missing.is_empty() && !namespaces.is_empty();
        if missing.is_empty() {
            missing.insert(right(""));
        }
        let unsearched = Unsearched { kind: gvk.group_kind(), is_beyond, missing, message };
        Ok(Searched { found, unsearched: Some(unsearched) })
    }

    /// The application's own objects of a kind. Many applications look through the same objects: that is done once for all
    /// who wait for it.
    async fn search_in(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        (query, conditions): (&LiveQuery, &str),
    ) -> Result<Vec<Sighted>, ClusterError> {
        let resource = self.kinds().find(self.http(), gvk).await?;
        if namespace.is_some() && !resource.namespaced {
            return Ok(Vec::new());
        }
        let target = Target::all(gvk, resource, namespace);
        let about = (format!("{}?{conditions}", target.collection()), query.tracking.clone());
        let good_for = if self.is_for_many() { RECENTLY } else { Duration::ZERO };
        let roots = self.roots(&target, conditions, &query.tracking);
        let roots = self.searches().ask_recent(about, good_for, roots).await?;
        match roots.as_ref() {
            Ok(roots) => Ok(roots.get(&query.application).cloned().unwrap_or_default()),
            Err(forbidden) => Err(forbidden.clone()),
        }
    }

    /// Each application that has objects among these, with those that it may prune.
    async fn roots(
        &self,
        target: &Target<'_>,
        conditions: &str,
        tracking: &Tracking,
    ) -> Result<Arc<Looked>, ClusterError> {
        let take = |object: Object| {
            let owner = tracking.root_owner(&object)?.to_owned();
            Some((owner, Sighted::of(&object)))
        };
        let found = match self.list_those(target, Detail::Metadata, conditions, take).await {
            Ok((found, _)) => found,
            Err(error) if error.kind == ErrorKind::Forbidden => return Ok(Arc::new(Err(error))),
            Err(error) => return Err(error),
        };
        let mut roots = Roots::new();
        for (owner, object) in found {
            roots.entry(owner).or_default().push(object);
        }
        Ok(Arc::new(Ok(roots)))
    }
}
