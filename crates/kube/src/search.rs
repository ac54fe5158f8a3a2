//! Search for an application's objects in a cluster: kind by kind, limited by permissions, and shared by all
//! waiting applications.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_cluster::{ClusterError, Detail, ErrorKind, IncompleteSearch, LiveQuery, MissingRight};
use tidegate_model::{Gvk, Object, Tracking, TrackingSelector};

use crate::KubeCluster;
use crate::discovery::catalog::Catalog;
use crate::live::REQUESTS_IN_FLIGHT_MAX;
use crate::paths::{Target, push_value};
use crate::search_result::{FoundObject, RootsByApplication, SearchResult};

/// Kinds that change constantly, are created by the cluster itself, and never come from a manifest.
const EXCLUDED_KINDS: [(&str, &str); 7] = [
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("", "Endpoints"),
    ("", "ComponentStatus"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("coordination.k8s.io", "Lease"),
    ("apps", "ControllerRevision"),
];
/// Group that serves measurements rather than stored objects.
const METRICS_GROUP: &str = "metrics.k8s.io";
/// Group that duplicates objects of other groups.
const DUPLICATE_GROUP: &str = "extensions";

/// Maximum age of search results shared by applications. Stale results do no harm: an application's own
/// writes are recorded with its operations, and any other write might as well have come a moment later.
const RESULT_AGE_MAX: Duration = Duration::from_secs(3);

/// Search result for one kind.
#[derive(Default)]
struct KindSearch {
    found: Vec<FoundObject>,
    unsearched: Option<IncompleteSearch>,
}

impl KubeCluster {
    /// Searches the cluster for the application's objects, within the scope of the query. Reads only
    /// metadata, and filters by label if the tracking method uses one.
    pub(crate) async fn search_cluster(
        &self,
        catalog: &Catalog,
        query: &LiveQuery,
        search: &TrackingSelector,
    ) -> Result<(BTreeSet<(Gvk, String, String)>, Vec<IncompleteSearch>), ClusterError> {
        let wanted = query.searched_kinds();
        let is_wanted = |gvk: &Gvk| wanted.as_ref().is_none_or(|kinds| kinds.contains(&gvk.group_kind()));
        let mut kinds: Vec<_> = catalog
            .preferred_kinds()
            .filter(|(gvk, resource)| {
                let group = gvk.group.as_str();
                resource.listable
                    && group != METRICS_GROUP
                    && !EXCLUDED_KINDS.contains(&(group, gvk.kind.as_str()))
            })
            .map(|(gvk, _)| gvk)
            .filter(is_wanted)
            .collect();
        kinds.sort_by_key(|gvk| gvk.group == DUPLICATE_GROUP);
        let namespaces = query.searched_namespaces();
        let mut conditions = String::new();
        if let TrackingSelector::Labeled { key, value } = search {
            conditions.push_str("&labelSelector=");
            push_value(&mut conditions, &format!("{key}={value}"));
        }
        let searches = stream::iter(kinds.clone())
            .map(|gvk| {
                let (namespaces, conditions) = (&namespaces, conditions.as_str());
                async move { self.search_kind(&gvk, query, conditions, namespaces).await }
            })
            .buffered(REQUESTS_IN_FLIGHT_MAX);
        let results: Vec<KindSearch> = searches.try_collect().await?;
        self.report_unsearched(&kinds, &results);
        let mut seen = HashSet::new();
        let found = kinds.iter().zip(&results).flat_map(|(gvk, result)| {
            result.found.iter().map(move |FoundObject { uid, namespace, name }| (gvk, uid, namespace, name))
        });
        let once = found.filter(|(_, uid, _, _)| seen.insert(*uid));
        let places = once.map(|(gvk, _, namespace, name)| (gvk.clone(), namespace.clone(), name.clone()));
        let places = places.collect();
        Ok((places, results.into_iter().filter_map(|result| result.unsearched).collect()))
    }

    /// Logs kinds that can't be searched, once until their next successful search.
    fn report_unsearched(&self, kinds: &[Gvk], results: &[KindSearch]) {
        let is_unsearched =
            |result: &KindSearch| result.unsearched.as_ref().is_some_and(|one| !one.has_searched_namespaces);
        let unsearched = kinds.iter().zip(results).filter(|(_, result)| is_unsearched(result));
        let new = self.record_unsearched(kinds, &unsearched.map(|(gvk, _)| gvk.clone()).collect());
        if !new.is_empty() {
            let names: Vec<String> = new.iter().map(|gvk| gvk.group_kind().to_string()).collect();
            tracing::warn!(
                context = self.context(),
                kinds = names.join(", "),
                "cannot list some kinds while searching for an application's objects; grant the list \
                 permission, or exclude the kinds"
            );
        }
    }

    async fn search_kind(
        &self,
        gvk: &Gvk,
        query: &LiveQuery,
        conditions: &str,
        namespaces: &BTreeSet<&str>,
    ) -> Result<KindSearch, ClusterError> {
        let error = match self.search_scope(gvk, None, query, conditions).await {
            Ok(found) => return Ok(KindSearch { found, unsearched: None }),
            Err(error) => error,
        };
        match error.kind {
            ErrorKind::Forbidden => {
                self.search_namespaces(gvk, query, conditions, namespaces, error.message).await
            }
            // A kind that isn't served has no objects.
            ErrorKind::UnknownKind | ErrorKind::NotFound | ErrorKind::Unsupported => {
                Ok(KindSearch::default())
            }
            ErrorKind::Server => {
                let (kind, missing_rights, message) = (gvk.group_kind(), BTreeSet::new(), error.message);
                let unsearched =
                    IncompleteSearch { kind, has_searched_namespaces: false, missing_rights, message };
                Ok(KindSearch { found: Vec::new(), unsearched: Some(unsearched) })
            }
            _ => Err(error),
        }
    }

    /// Searches only the relevant namespaces, in case the permissions cover only those. `message` is the error
    /// of the search in all namespaces.
    async fn search_namespaces(
        &self,
        gvk: &Gvk,
        query: &LiveQuery,
        conditions: &str,
        namespaces: &BTreeSet<&str>,
        mut message: String,
    ) -> Result<KindSearch, ClusterError> {
        let resource = self.kinds().find(self.api_server(), gvk).await?;
        let name = match gvk.group.as_str() {
            "" => resource.plural.clone(),
            group => format!("{}.{group}", resource.plural),
        };
        let right = |namespace: &str| MissingRight {
            namespace: namespace.to_owned(),
            resource: name.clone(),
            verb: "list",
        };
        let (mut found, mut missing_rights) = (Vec::new(), BTreeSet::new());
        for namespace in namespaces.iter().filter(|_| resource.namespaced) {
            match self.search_scope(gvk, Some(namespace), query, conditions).await {
                Ok(objects) => found.extend(objects),
                Err(error) if error.kind == ErrorKind::Forbidden => {
                    missing_rights.insert(right(namespace));
                    message = error.message;
                }
                Err(error) => return Err(error),
            }
        }
        let has_searched_namespaces =
            resource.namespaced && missing_rights.is_empty() && !namespaces.is_empty();
        if missing_rights.is_empty() {
            missing_rights.insert(right(""));
        }
        let unsearched =
            IncompleteSearch { kind: gvk.group_kind(), has_searched_namespaces, missing_rights, message };
        Ok(KindSearch { found, unsearched: Some(unsearched) })
    }

    /// Returns the application's own objects of a kind. Many applications search for the same kinds, so all
    /// waiting callers share one result.
    async fn search_scope(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        query: &LiveQuery,
        conditions: &str,
    ) -> Result<Vec<FoundObject>, ClusterError> {
        let resource = self.kinds().find(self.api_server(), gvk).await?;
        if namespace.is_some() && !resource.namespaced {
            return Ok(Vec::new());
        }
        let target = Target::for_kind(gvk, resource, namespace);
        let about = (format!("{}?{conditions}", target.collection_path()), query.tracking.clone());
        let good_for = if self.has_shared_searches() { RESULT_AGE_MAX } else { Duration::ZERO };
        let roots = self.find_roots(&target, conditions, &query.tracking);
        let roots = self.searches().run_recent(about, good_for, roots).await?;
        match roots.as_ref() {
            Ok(roots) => Ok(roots.get(&query.application).cloned().unwrap_or_default()),
            Err(forbidden) => Err(forbidden.clone()),
        }
    }

    /// Returns the objects that may be pruned, grouped by application.
    async fn find_roots(
        &self,
        target: &Target<'_>,
        conditions: &str,
        tracking: &Tracking,
    ) -> Result<Arc<SearchResult>, ClusterError> {
        let take = |object: Object| {
            let owner = tracking.prune_owner(&object)?.to_owned();
            Some((owner, FoundObject::from_object(&object)))
        };
        let found = match self.list_filtered(target, Detail::Metadata, conditions, take).await {
            Ok((found, _)) => found,
            Err(error) if error.kind == ErrorKind::Forbidden => return Ok(Arc::new(Err(error))),
            Err(error) => return Err(error),
        };
        let mut roots = RootsByApplication::new();
        for (owner, object) in found {
            roots.entry(owner).or_default().push(object);
        }
        Ok(Arc::new(Ok(roots)))
    }
}
