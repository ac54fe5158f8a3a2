//! What a plan needs to know of the cluster, in as few requests as may be: objects known by name are asked for one by
//! one or by namespace, and only an application whose places are not known is searched for, no further than it matters.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_cluster::{ClusterError, Detail, ErrorKind, LiveAnswer, LiveQuery, Reach};
use tidegate_model::{Gvk, LiveObject, Object, ObjectKey};

use crate::KubeCluster;
use crate::discovery::catalog::Catalog;
use crate::paths::Target;
use crate::read::PAGE;

/// Up to this many objects of a kind and namespace are asked for one by one.
const NAMES_MAX: usize = 8;
/// Requests waiting for their turn; the server's bound holds as well.
pub(crate) const AT_ONCE: usize = 32;

/// Where objects are wanted, and which.
type Places = BTreeMap<(Gvk, String), BTreeSet<String>>;

impl KubeCluster {
    pub(crate) async fn find_live(&self, query: &LiveQuery) -> Result<LiveAnswer, ClusterError> {
        let catalog = self.kinds().known(self.http()).await?;
        let mut named = HashSet::new();
        let mut places = Places::new();
        for (gvk, namespace, name) in &query.named {
            let Some(place) = self.place(&catalog, gvk, namespace, name).await? else { continue };
            if named.insert(place.key.clone()) {
                places.entry((place.gvk, place.key.namespace)).or_default().insert(place.key.name);
            }
        }
        // Thousands come, a page at a time; none is held as more than its text.
        let take = |object: Object| {
            let is_chosen = named.contains(&object.key()) || query.is_root(&object);
            is_chosen.then(|| LiveObject::pack(object))
        };
        let mut found = Vec::new();
        let (mut searched, mut unsearched) = (BTreeSet::new(), Vec::new());
        if query.reach != Reach::Places {
            if query.tracking.method.labels() {
                // They tell whether the label finds all there is.
                found = self.fetch_all(std::mem::take(&mut places), &take).await?;
            }
            let search = query.search(found.iter().map(LiveObject::unpack));
            (searched, unsearched) = self.search(&catalog, query, &search).await?;
        }
        for (gvk, namespace, name) in query.inventory.union(&searched) {
            let Some(place) = self.place(&catalog, gvk, namespace, name).await? else { continue };
            if !named.contains(&place.key) {
                places.entry((place.gvk, place.key.namespace)).or_default().insert(place.key.name);
            }
        }
        found.extend(self.fetch_all(places, &take).await?);
        Ok(LiveAnswer { objects: chosen(found, &named), unsearched })
    }

    async fn fetch_all(
        &self,
        places: Places,
        take: &(impl Fn(Object) -> Option<LiveObject> + Sync),
    ) -> Result<Vec<LiveObject>, ClusterError> {
        let groups = stream::iter(places)
            .map(|((gvk, namespace), names)| async move { self.fetch(&gvk, &namespace, names, take).await })
            .buffer_unordered(AT_ONCE);
        groups.try_concat().await
    }

    /// Where an object of this name is. `None` when it has no name, or when its kind is not served in any version.
    async fn place(
        &self,
        catalog: &Catalog,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Place>, ClusterError> {
        if name.is_empty() {
            return Ok(None);
        }
        let known = match catalog.get(gvk).map(|resource| (gvk.clone(), resource)) {
            Some(known) => Some(known),
            None => match self.kinds().find(self.http(), gvk).await {
                Ok(resource) => Some((gvk.clone(), resource)),
                // Its version may have been given up while the kind lives on.
                Err(error) if error.kind == ErrorKind::UnknownKind => catalog.newest(&gvk.group_kind()),
                Err(error) => return Err(error),
            },
        };
        Ok(known.and_then(|(gvk, resource)| {
            let namespace = if resource.namespaced { namespace } else { "" };
            let complete = !resource.namespaced || !namespace.is_empty();
            complete.then(|| Place { key: ObjectKey::new(&gvk.group, &gvk.kind, namespace, name), gvk })
        }))
    }

    /// Objects of one kind in one namespace, by their names.
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
                // Whoever may not list may still read what has a name.
                Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::Unsupported) => {}
                Err(error) if absent(&error) => return Ok(found),
                Err(error) => return Err(error),
            }
        }
        let reads = stream::iter(names).map(|name| async move {
            match self.target(gvk, namespace, &name).await {
                Ok(target) => self.read_patiently(&target).await,
                Err(error) => Err(error),
            }
        });
        let mut reads = reads.buffer_unordered(AT_ONCE);
        while let Some(read) = reads.next().await {
            match read {
                Ok(object) => found.extend(object.and_then(take)),
                Err(error) if absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Reads pages for as long as that is less work than asking for each name that is left. Those that remain in
    /// `names` were not looked for everywhere.
    async fn fetch_pages(
        &self,
        gvk: &Gvk,
        namespace: &str,
        names: &mut BTreeSet<String>,
        mut found: impl FnMut(Object) + Send,
    ) -> Result<(), ClusterError> {
        let resource = self.kinds().find(self.http(), gvk).await?;
        let target = Target::all(gvk, resource, Some(namespace));
        let mut next = String::new();
        loop {
            let page = match self.page(&target, Detail::Full, "", PAGE, &next).await {
                // The moment the pages come from is forgotten; the rest is asked for by name.
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

struct Place {
    gvk: Gvk,
    key: ObjectKey,
}

/// Nothing of that name, for whatever reason.
fn absent(error: &ClusterError) -> bool {
    matches!(error.kind, ErrorKind::NotFound | ErrorKind::NamespaceMissing | ErrorKind::UnknownKind)
}

/// What was asked for, in the order of keys. An object that two groups show is taken once, under the name it was
/// asked for.
fn chosen(found: Vec<LiveObject>, named: &HashSet<ObjectKey>) -> Vec<LiveObject> {
    let mut objects = found;
    // Of two answers the later one counts.
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
