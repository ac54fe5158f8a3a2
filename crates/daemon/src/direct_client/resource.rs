//! Application resources, printed without credentials.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tidegate_application::credentials::{self, hide_credentials, without_credentials};
use tidegate_model::Object;
use tidegate_model::argo::{Application, ApplicationSource};

use tidegate_application::AppKey;
use tidegate_stores::applications::kubernetes::parse_application;

/// Field for a repository URL, which may have credentials.
const REPO_URL_FIELD: &str = "repoURL";

/// An Application and its resource. Printed as stored in the cluster, but without credentials and managed
/// fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Parsed Application without credentials.
    pub application: Application,
    /// Problem with an invalid field, if part of the Application couldn't be parsed.
    pub problem: Option<String>,
    pub(super) object: Object,
}

impl From<Object> for Resource {
    fn from(mut object: Object) -> Self {
        object.metadata_mut().remove("managedFields");
        let (application, problem) = parse_application(&object);
        Self { application: credentials::application_without_credentials(&application), problem, object }
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.redacted_value().serialize(serializer)
    }
}

impl Resource {
    /// Returns the Application's key.
    pub fn key(&self) -> AppKey {
        AppKey::of_object(&self.object)
    }

    /// Returns `NAMESPACE/NAME`, which is unique in the cluster.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.object.namespace(), self.object.name())
    }

    /// Returns the syncs in the Application's history as an array for printing.
    pub fn history(&self) -> Value {
        let history = self.redacted_value().pointer("/status/history").cloned();
        history.unwrap_or_else(|| Value::Array(Vec::new()))
    }

    fn redacted_value(&self) -> Value {
        let mut value = self.object.as_value().clone();
        let (application, _) = parse_application(&self.object);
        let sync = application.operation.as_ref().and_then(|requested| requested.sync.as_ref());
        let requested = sync.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        let spec = &application.spec;
        let sources: Vec<&ApplicationSource> =
            spec.source.iter().chain(&spec.sources).chain(requested).collect();
        let addresses = sources.iter().map(|source| source.repo_url.as_str());
        let secret: Vec<&str> = addresses.filter(|url| without_credentials(url) != **url).collect();
        redact_credentials(&mut value, &secret);
        value
    }
}

/// Removes credentials from all repository URLs, and those in `secret` from all other text, because `kubectl
/// apply` keeps a copy of the desired state in an annotation.
fn redact_credentials(value: &mut Value, secret: &[&str]) {
    match value {
        Value::String(text) => {
            *text = secret.iter().fold(std::mem::take(text), |text, url| hide_credentials(&text, url));
        }
        Value::Array(all) => all.iter_mut().for_each(|one| redact_credentials(one, secret)),
        Value::Object(fields) => redact_field_credentials(fields, secret),
        _ => {}
    }
}

fn redact_field_credentials(fields: &mut Map<String, Value>, secret: &[&str]) {
    for (name, value) in fields {
        if let (REPO_URL_FIELD, Value::String(url)) = (name.as_str(), &mut *value) {
            *url = without_credentials(url);
        }
        redact_credentials(value, secret);
    }
}
