//! Search results, shared by all waiting applications.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_cluster::ClusterError;
use tidegate_model::{Object, Tracking};

use crate::singleflight::Singleflight;

/// Objects that may be pruned, grouped by application.
pub(crate) type RootsByApplication = HashMap<String, Vec<FoundObject>>;
/// Running searches, by location and tracking method.
pub(crate) type SearchRequests = Singleflight<(String, Tracking), Arc<SearchResult>>;
/// Result of a search. Errors are shared and reused like successful results.
pub(crate) type SearchResult = Result<RootsByApplication, ClusterError>;

/// Stored part of a found object.
#[derive(Clone, Debug)]
pub(crate) struct FoundObject {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl FoundObject {
    pub(crate) fn from_object(object: &Object) -> Self {
        Self {
            uid: object.uid().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
        }
    }
}
