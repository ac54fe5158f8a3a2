//! Live state for a plan, read with as few requests as possible. Objects with known names are read one by one
//! or by namespace. A search is needed only if the locations of an application's objects are unknown, and it
//! covers no more than necessary.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_cluster::{ClusterError, Detail, ErrorKind, LiveQuery, LiveResult, SearchScope};
use tidegate_model::{Gvk, LiveObject, Object, ObjectKey};

use crate::KubeCluster;
use crate::discovery::catalog::Catalog;
use crate::paths::Target;
use crate::read::PAGE_SIZE;

/// Maximum number of objects of one kind and namespace to read one by one.
const NAMES_MAX: usize = 8;
/// Maximum number of requests waiting for a permit. The server's own limit also applies.
pub(crate) const REQUESTS_IN_FLIGHT_MAX: usize = 32;

/// Names of the requested objects, grouped by location.
type NamesByLocation = BTreeMap<(Gvk, String), BTreeSet<String>>;

impl KubeCluster {
    pub(crate) async fn find_live(&self, query: &LiveQuery) -> Result<LiveResult, ClusterError> {
        let catalog = self.kinds().catalog(self.api_server()).await?;
        let mut named = HashSet::new();
        let mut places = NamesByLocation::new();
        for (gvk, namespace, name) in &query.named {
            let Some(place) = self.find_location(&catalog, gvk, namespace, name).await? else { continue };
            if named.insert(place.key.clone()) {
                places.entry((place.gvk, place.key.namespace)).or_default().insert(place.key.name);
            }
        }
        // There may be thousands of objects, so pack each into text right after reading its page.
        let take = |object: Object| {
            let is_chosen = named.contains(&object.key()) || query.is_root(&object);
            is_chosen.then(|| LiveObject::pack(object))
        };
        let mut found = Vec::new();
        let (mut searched, mut incomplete_searches) = (BTreeSet::new(), Vec::new());
        if query.search_scope != SearchScope::KnownObjects {
            if query.tracking.method.uses_label() {
                // Read the named objects first: they show whether a search by label finds everything.
                found = self.fetch_objects(std::mem::take(&mut places), &take).await?;
            }
            let search = query.tracking_selector(found.iter().map(LiveObject::unpack));
            (searched, incomplete_searches) = self.search_cluster(&catalog, query, &search).await?;
        }
        for (gvk, namespace, name) in query.inventory.union(&searched) {
            let Some(place) = self.find_location(&catalog, gvk, namespace, name).await? else { continue };
            if !named.contains(&place.key) {
                places.entry((place.gvk, place.key.namespace)).or_default().insert(place.key.name);
            }
        }
        found.extend(self.fetch_objects(places, &take).await?);
        Ok(LiveResult { objects: select_requested(found, &named), incomplete_searches })
    }

    async fn fetch_objects(
        &self,
        places: NamesByLocation,
        take: &(impl Fn(Object) -> Option<LiveObject> + Sync),
    ) -> Result<Vec<LiveObject>, ClusterError> {
        let groups = stream::iter(places)
            .map(|((gvk, namespace), names)| async move { self.fetch(&gvk, &namespace, names, take).await })
            .buffer_unordered(REQUESTS_IN_FLIGHT_MAX);
        groups.try_concat().await
    }

    /// Returns the location of the named object. `None` if the name is empty or no version of the kind is
    /// served.
    async fn find_location(
        &self,
        catalog: &Catalog,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectLocation>, ClusterError> {
        if name.is_empty() {
            return Ok(None);
        }
        let known = match catalog.get(gvk).map(|resource| (gvk.clone(), resource)) {
            Some(known) => Some(known),
            None => match self.kinds().find(self.api_server(), gvk).await {
                Ok(resource) => Some((gvk.clone(), resource)),
                // The server may have dropped this version, so try the preferred one.
                Err(error) if error.kind == ErrorKind::UnknownKind => {
                    catalog.find_preferred(&gvk.group_kind())
                }
                Err(error) => return Err(error),
            },
        };
        Ok(known.and_then(|(gvk, resource)| {
            let namespace = if resource.namespaced { namespace } else { "" };
            let complete = !resource.namespaced || !namespace.is_empty();
            complete
                .then(|| ObjectLocation { key: ObjectKey::new(&gvk.group, &gvk.kind, namespace, name), gvk })
        }))
    }

    /// Reads objects of one kind in one namespace by name.
    async fn fetch(
        &self,
        gvk: &Gvk,
        namespace: &str,
        mut names: BTreeSet<String>,
        take: &(impl Fn(Object) -> Option<LiveObject> + Sync),
    ) -> Result<Vec<LiveObject>, ClusterError> {
        let mut found = Vec::new();
        if names.len() > NAMES_MAX {
            match self.fetch_pages(gvk, namespace, &mut names, |object| found.extend(take(object))).await {
                Ok(()) => {}
                // A user without permission to list objects may still read them by name.
                Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::Unsupported) => {}
                Err(error) if is_absent(&error) => return Ok(found),
                Err(error) => return Err(error),
            }
        }
        let reads = stream::iter(names).map(|name| async move {
            match self.find_target(gvk, namespace, &name).await {
                Ok(target) => self.read_with_retry(&target).await,
                Err(error) => Err(error),
            }
        });
        let mut reads = reads.buffer_unordered(REQUESTS_IN_FLIGHT_MAX);
        while let Some(read) = reads.next().await {
            match read {
                Ok(object) => found.extend(object.and_then(take)),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Reads pages while that takes fewer requests than reading each remaining object by name. The caller
    /// handles the names left in `names`.
    async fn fetch_pages(
        &self,
        gvk: &Gvk,
        namespace: &str,
        names: &mut BTreeSet<String>,
        mut found: impl FnMut(Object) + Send,
    ) -> Result<(), ClusterError> {
        let resource = self.kinds().find(self.api_server(), gvk).await?;
        let target = Target::for_kind(gvk, resource, Some(namespace));
        let mut next = String::new();
        loop {
            let page = match self.read_page(&target, Detail::Full, "", PAGE_SIZE, &next).await {
                // The snapshot behind the pages has expired, so read the rest by name.
                Err(error) if error.kind == ErrorKind::Gone => return Ok(()),
                other => other?,
            };
            page.objects.into_iter().filter(|object| names.remove(object.name())).for_each(&mut found);
            next = page.next;
            if next.is_empty() {
                names.clear();
            }
            if names.len() <= NAMES_MAX || page.remaining > names.len().saturating_mul(50) {
                return Ok(());
            }
        }
    }
}

struct ObjectLocation {
    gvk: Gvk,
    key: ObjectKey,
}

/// Returns true if the error means that the object doesn't exist.
fn is_absent(error: &ClusterError) -> bool {
    matches!(error.kind, ErrorKind::NotFound | ErrorKind::NamespaceMissing | ErrorKind::UnknownKind)
}

/// Returns the requested objects, sorted by key. An object served in two groups is returned once, under the
/// requested group.
fn select_requested(found: Vec<LiveObject>, named: &HashSet<ObjectKey>) -> Vec<LiveObject> {
    let mut objects = found;
    // If an object was returned twice, keep the later one.
    objects.reverse();
    objects.sort_by(|one, other| one.key().cmp(other.key()));
    objects.dedup_by(|one, other| one.key() == other.key());
    let mut seen: HashSet<String> = objects
        .iter()
        .filter(|object| named.contains(object.key()))
        .map(|object| object.uid().to_owned())
        .collect();
    objects.retain(|object| named.contains(object.key()) || seen.insert(object.uid().to_owned()));
    objects
}
