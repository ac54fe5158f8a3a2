//! An application as its resource has it, and what of that is shown.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tidegate_application::credentials::{self, hide_credentials, without_credentials};
use tidegate_model::Object;
use tidegate_model::argo::{Application, ApplicationSource};

use crate::applications::store::AppKey;
use crate::applications::store::kubernetes::read;

/// Where addresses of repositories are that may have credentials.
const ADDRESS: &str = "repoURL";

/// An application, and its resource. It is printed as the resource is in the cluster, without credentials, and without who
/// manages each field.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What of it can be read, without credentials.
    pub application: Application,
    /// Why that is not all: which field is wrong.
    pub problem: Option<String>,
    pub(super) object: Object,
}

impl From<Object> for Resource {
    fn from(mut object: Object) -> Self {
        object.metadata_mut().remove("managedFields");
        let (application, problem) = read(&object);
        Self { application: credentials::shown(&application), problem, object }
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

impl Resource {
    /// Which one it is.
    pub fn key(&self) -> AppKey {
        AppKey::of_object(&self.object)
    }

    /// `NAMESPACE/NAME`, which names it wherever it is.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.object.namespace(), self.object.name())
    }

    /// The syncs of its history, as they are printed: an array.
    pub fn history(&self) -> Value {
        let history = self.shown().pointer("/status/history").cloned();
        history.unwrap_or_else(|| Value::Array(Vec::new()))
    }

    fn shown(&self) -> Value {
        let mut value = self.object.as_value().clone();
        let (application, _) = read(&self.object);
        let sync = application.operation.as_ref().and_then(|asked| asked.sync.as_ref());
        let asked = sync.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        let spec = &application.spec;
        let sources: Vec<&ApplicationSource> = spec.source.iter().chain(&spec.sources).chain(asked).collect();
        let addresses = sources.iter().map(|source| source.repo_url.as_str());
        let secret: Vec<&str> = addresses.filter(|url| without_credentials(url) != **url).collect();
        hide(&mut value, &secret);
        value
    }
}

/// Takes the credentials away from all addresses of repositories; those of `secret` from all texts, since `kubectl apply` keeps a
/// copy of what is wanted.
fn hide(value: &mut Value, secret: &[&str]) {
    match value {
        Value::String(text) => {
            *text = secret.iter().fold(std::mem::take(text), |text, url| hide_credentials(&text, url));
        }
        Value::Array(all) => all.iter_mut().for_each(|one| hide(one, secret)),
        Value::Object(fields) => hide_fields(fields, secret),
        _ => {}
    }
}

fn hide_fields(fields: &mut Map<String, Value>, secret: &[&str]) {
    for (name, value) in fields {
        if let (ADDRESS, Value::String(url)) = (name.as_str(), &mut *value) {
            *url = without_credentials(url);
        }
        hide(value, secret);
    }
}
