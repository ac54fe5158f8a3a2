//! Reads of a single object, or of a whole scope page by page.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_cluster::{ClusterError, Detail, ErrorKind, Listing, Scope};
use tidegate_model::{Gvk, Object};

use crate::KubeCluster;
use crate::call::{Call, JSON};
use crate::compact::CompactObject;
use crate::paths::{Target, push_value};
use crate::response::{ApiResponse, CallSubject};

/// Number of objects per page.
pub(crate) const PAGE_SIZE: usize = 500;
/// Maximum number of pages per list, more than any real cluster has. Stops servers that never send a last
/// page.
const PAGES_MAX: usize = 10_000;
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<CompactObject>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<usize>,
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<Object>,
    pub(crate) resource_version: String,
    /// Token for the next page. Empty on the last page.
    pub(crate) next: String,
    /// Number of remaining objects, if the server reports it.
    pub(crate) remaining: usize,
}

impl KubeCluster {
    /// Reads one object, with a single attempt.
    pub(crate) async fn read_object(&self, target: &Target<'_>) -> Result<Option<Object>, ClusterError> {
        let answer = self.api_server().call(&Call::get(target.path())).await?;
        self.decode_found(target, &answer).await
    }

    /// Reads one of many objects, with retries if the server is overloaded.
    pub(crate) async fn read_with_retry(&self, target: &Target<'_>) -> Result<Option<Object>, ClusterError> {
        let answer = self.api_server().call_with_retry(&Call::get(target.path())).await?;
        self.decode_found(target, &answer).await
    }

    async fn decode_found(
        &self,
        target: &Target<'_>,
        answer: &ApiResponse,
    ) -> Result<Option<Object>, ClusterError> {
        match answer.decode_object(CallSubject::from(target)) {
            Ok(object) => Ok(Some(object)),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::NamespaceMissing) => Ok(None),
            Err(error) => Err(self.forget_unserved_kind(target.gvk, error).await),
        }
    }

    pub(crate) async fn list_scope(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        let resource = self.kinds().find(self.api_server(), &scope.gvk).await?;
        let target = Target::for_kind(&scope.gvk, resource, scope.namespace.as_deref());
        self.list_all(&target, scope.detail, "").await
    }

    /// Lists all objects of a kind at a location. `conditions` contains additional query parameters
    /// (`&labelSelector=…`).
    pub(crate) async fn list_all(
        &self,
        target: &Target<'_>,
        detail: Detail,
        conditions: &str,
    ) -> Result<Listing, ClusterError> {
        let (objects, resource_version) = self.list_filtered(target, detail, conditions, Some).await?;
        Ok(Listing { objects, resource_version })
    }

    /// Lists objects and keeps only the results of `take`, so that at most one page is in memory. Returns
    /// these results and the list's resource version.
    pub(crate) async fn list_filtered<T>(
        &self,
        target: &Target<'_>,
        detail: Detail,
        conditions: &str,
        take: impl Fn(Object) -> Option<T> + Copy + Send,
    ) -> Result<(Vec<T>, String), ClusterError> {
        let paged = self.collect_pages(target, detail, conditions, PAGE_SIZE, take).await;
        match paged {
            // The snapshot behind the pages has expired, so read the whole list in one request.
            Err(error) if error.kind == ErrorKind::Gone => {
                self.collect_pages(target, detail, conditions, 0, take).await
            }
            other => other,
        }
    }

    async fn collect_pages<T>(
        &self,
        target: &Target<'_>,
        detail: Detail,
        conditions: &str,
        limit: usize,
        take: impl Fn(Object) -> Option<T>,
    ) -> Result<(Vec<T>, String), ClusterError> {
        let mut taken = Vec::new();
        let mut next = String::new();
        for _ in 0..PAGES_MAX {
            let page = self.read_page(target, detail, conditions, limit, &next).await?;
            taken.extend(page.objects.into_iter().filter_map(&take));
            next = page.next;
            if next.is_empty() {
                return Ok((taken, page.resource_version));
            }
        }
        let text = format!("the list of {} did not end after {PAGES_MAX} pages", target.gvk);
        Err(ClusterError::new(ErrorKind::Server, text))
    }

    /// Reads one page: the one at the `next` token, or the first.
    pub(crate) async fn read_page(
        &self,
        target: &Target<'_>,
        detail: Detail,
        conditions: &str,
        limit: usize,
        next: &str,
    ) -> Result<Page, ClusterError> {
        let accept = if detail == Detail::Metadata { METADATA_LIST } else { JSON };
        let mut path = format!("{}?limit={limit}{conditions}", target.collection_path());
        if !next.is_empty() {
            path.push_str("&continue=");
            push_value(&mut path, next);
        }
        let answer = self.api_server().call_with_retry(&Call::get(path).with_accept(accept)).await?;
        let list: List = match answer.decode(CallSubject::from(target)) {
            Ok(list) => list,
            Err(error) => return Err(self.forget_unserved_kind(target.gvk, error).await),
        };
        let items = list.items.unwrap_or_default().into_iter();
        let objects = items
            .map(|CompactObject(item)| complete_item(item, target.gvk, detail))
            .collect::<Result<_, _>>()?;
        let ListMetadata { resource_version, next, remaining_item_count } = list.metadata;
        Ok(Page {
            objects,
            resource_version: resource_version.unwrap_or_default(),
            next: next.unwrap_or_default(),
            remaining: remaining_item_count.unwrap_or_default(),
        })
    }
}

/// Adds `apiVersion` and `kind` to a list item. Servers include them only in partial metadata.
pub(crate) fn complete_item(
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
        let text = format!("the server sent a {gvk} that is not an object: {error}");
        ClusterError::new(ErrorKind::Server, text)
    })
}
