//! Access rules as reported by the server.

use std::sync::Arc;

use serde::Deserialize;

use crate::singleflight::Singleflight;

/// Rules by namespace and user.
pub(crate) type RuleRequests = Singleflight<(String, Option<Arc<str>>), Arc<[Rule]>>;

/// Rule that grants verbs on resources.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
}
