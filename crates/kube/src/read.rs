//! One object, or all of a scope page by page.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_cluster::{ClusterError, Detail, ErrorKind, Listing, Scope};
use tidegate_model::{Gvk, Object};

use crate::KubeCluster;
use crate::answer::{About, Answer};
use crate::lean::Lean;
use crate::paths::{Target, push_value};
use crate::server::{Call, JSON};

/// Objects of one page.
pub(crate) const PAGE: usize = 500;
/// Pages of one list; more than any cluster stores, so that a server that never ends its list cannot hold us.
const PAGES_MAX: usize = 10_000;
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<Lean>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<usize>,
}

/// Some of the objects of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<Object>,
    pub(crate) resource_version: String,
    /// Names the next page; empty after the last.
    pub(crate) next: String,
    /// How many objects are left, as far as the server says so.
    pub(crate) remaining: usize,
}

impl KubeCluster {
    /// One object, in one attempt.
    pub(crate) async fn read(&self, target: &Target<'_>) -> Result<Option<Object>, ClusterError> {
        let answer = self.http().call(&Call::get(target.path())).await?;
        self.found(target, &answer).await
    }

    /// One object of many that are read for one purpose: an overloaded server is asked again.
    pub(crate) async fn read_patiently(&self, target: &Target<'_>) -> Result<Option<Object>, ClusterError> {
        let answer = self.http().call_patiently(&Call::get(target.path())).await?;
        self.found(target, &answer).await
    }

    async fn found(&self, target: &Target<'_>, answer: &Answer) -> Result<Option<Object>, ClusterError> {
        match answer.object(About::from(target)) {
            Ok(object) => Ok(Some(object)),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::NamespaceMissing) => Ok(None),
            Err(error) => Err(self.noted(target.gvk, error).await),
        }
    }

    pub(crate) async fn list_scope(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        let resource = self.kinds().find(self.http(), &scope.gvk).await?;
        let target = Target::all(&scope.gvk, resource, scope.namespace.as_deref());
        self.list_all(&target, scope.detail, "").await
    }

    /// All objects of a kind in their place, with further conditions as a query (`&labelSelector=…`).
    pub(crate) async fn list_all(
        &self,
        target: &Target<'_>,
        detail: Detail,
        conditions: &str,
    ) -> Result<Listing, ClusterError> {
        let (objects, resource_version) = self.list_those(target, detail, conditions, Some).await?;
        Ok(Listing { objects, resource_version })
    }

    /// The same, of which only that is kept which `take` gives: of the others there is never more than a page. With the
    /// version of the list.
    pub(crate) async fn list_those<T>(
        &self,
        target: &Target<'_>,
        detail: Detail,
        conditions: &str,
        take: impl Fn(Object) -> Option<T> + Copy + Send,
    ) -> Result<(Vec<T>, String), ClusterError> {
        let paged = self.pages(target, detail, (conditions, PAGE), take).await;
        match paged {
            // The pages come from one moment, and the server does not remember it any more: take all in one.
            Err(error) if error.kind == ErrorKind::Gone => {
                self.pages(target, detail, (conditions, 0), take).await
            }
            other => other,
        }
    }

    async fn pages<T>(
        &self,
        target: &Target<'_>,
        detail: Detail,
        (conditions, limit): (&str, usize),
        take: impl Fn(Object) -> Option<T>,
    ) -> Result<(Vec<T>, String), ClusterError> {
        let mut taken = Vec::new();
        let mut next = String::new();
        for _ in 0..PAGES_MAX {
            let page = self.page(target, detail, conditions, limit, &next).await?;
            taken.extend(page.objects.into_iter().filter_map(&take));
            next = page.next;
            if next.is_empty() {
                return Ok((taken, page.resource_version));
            }
        }
        let words = format!("the list of {} did not end after {PAGES_MAX} pages", target.gvk);
        Err(ClusterError::new(ErrorKind::Server, words))
    }

    /// One page, the first one or the one that `next` names.
    pub(crate) async fn page(
        &self,
        target: &Target<'_>,
        detail: Detail,
        conditions: &str,
        limit: usize,
        next: &str,
    ) -> Result<Page, ClusterError> {
        let accept = if detail == Detail::Metadata { METADATA_LIST } else { JSON };
        let mut path = format!("{}?limit={limit}{conditions}", target.collection());
        if !next.is_empty() {
            path.push_str("&continue=");
            push_value(&mut path, next);
        }
        let answer = self.http().call_patiently(&Call::get(path).accept(accept)).await?;
        let list: List = match answer.decode(About::from(target)) {
            Ok(list) => list,
            Err(error) => return Err(self.noted(target.gvk, error).await),
        };
        let items = list.items.unwrap_or_default().into_iter();
        let objects = items.map(|Lean(item)| complete(item, target.gvk, detail)).collect::<Result<_, _>>()?;
        let ListMetadata { resource_version, next, remaining_item_count } = list.metadata;
        Ok(Page {
            objects,
            resource_version: resource_version.unwrap_or_default(),
            next: next.unwrap_or_default(),
            remaining: remaining_item_count.unwrap_or_default(),
        })
    }
}

/// The items of a list do not say what they are, and metadata alone says that it is metadata.
pub(crate) fn complete(
    mut fields: Map<String, Value>,
    gvk: &Gvk,
    detail: Detail,
) -> Result<Object, ClusterError> {
    if detail == Detail::Metadata {
        fields.retain(|name, _| name == "metadata");
    }
    fields.insert("apiVersion".to_owned(), gvk.api_version().into());
    fields.insert("kind".to_owned(), gvk.kind.as_str().into());
    Object::try_from(Value::Object(fields)).map_err(|error| {
        let words = format!("the server sent a {gvk} that is not an object: {error}");
        ClusterError::new(ErrorKind::Server, words)
    })
}
