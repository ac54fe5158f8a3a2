//! Which fields of a resource are not known here.

use serde_json::Value;

use super::{
    AppProject, AppProjectSpec, Application, ApplicationDestination, ApplicationSource, ApplicationSpec,
    Automated, ClusterResource, DestinationServiceAccount, DirectorySource, HelmFileParameter, HelmParameter,
    HelmSource, KustomizePatch, KustomizeReplicas, KustomizeSelector, KustomizeSource,
    ManagedNamespaceMetadata, NamespaceResource, OperationRequest, ProjectDestination,
    ResourceIgnoreDifferences, Rest, Retry, RetryBackoff, SignatureKey, SyncOperation, SyncPolicy,
    SyncWindow,
};

impl Application {
    /// The fields of its specification, and of what is asked, that are not known here, as paths: they are kept, and have
    /// no effect.
    pub fn unknown_fields(&self) -> Vec<String> {
        Found::of(self)
    }
}

impl AppProject {
    /// The fields of its specification that are not known here, as paths: a restriction that is misspelt restricts nothing.
    pub fn unknown_fields(&self) -> Vec<String> {
        let mut found = Found::default();
        found.inside("spec", &self.spec);
        let is_known =
            |path: &str| path.strip_prefix("spec.").is_some_and(|field| UNSUPPORTED.contains(&field));
        found.fields.retain(|path| !is_known(path));
        found.fields
    }

    /// The fields of its specification that Argo CD has, that say something there, and that have no effect here, as paths.
    pub fn unsupported_fields(&self) -> Vec<String> {
        let says = |field: &&&str| self.spec.rest.get(**field).is_some_and(says_something);
        UNSUPPORTED.iter().filter(says).map(|field| format!("spec.{field}")).collect()
    }
}

/// Fields of projects that Argo CD has, and that have no effect here: what it warns of, and rights on its own API server.
const UNSUPPORTED: [&str; 2] = ["orphanedResources", "roles"];

/// Whether such a field has an effect in Argo CD: it names somebody, or wants a warning, as it does unless it says otherwise.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.get("warn") != Some(&Value::Bool(false)),
        _ => true,
    }
}

/// A part of a resource that keeps the fields it does not know.
pub(super) trait Unknown {
    /// Adds those of it and of its parts.
    fn find(&self, found: &mut Found);
}

/// The fields that were found, and where the part is that is looked at.
#[derive(Debug, Default)]
pub(super) struct Found {
    at: String,
    fields: Vec<String>,
}

impl Found {
    /// Those of a resource.
    pub(super) fn of(resource: &impl Unknown) -> Vec<String> {
        let mut found = Self::default();
        resource.find(&mut found);
        found.fields
    }

    pub(super) fn add(&mut self, rest: &Rest) {
        let at = &self.at;
        let path = |name: &String| if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        self.fields.extend(rest.keys().map(path));
    }

    pub(super) fn inside(&mut self, name: &str, part: &impl Unknown) {
        let before = self.at.len();
        if before > 0 {
            self.at.push('.');
        }
        self.at.push_str(name);
        part.find(self);
        self.at.truncate(before);
    }
}

impl<T: Unknown> Unknown for Option<T> {
    fn find(&self, found: &mut Found) {
        self.iter().for_each(|part| part.find(found));
    }
}

impl<T: Unknown> Unknown for Box<T> {
    fn find(&self, found: &mut Found) {
        self.as_ref().find(found);
    }
}

impl<T: Unknown> Unknown for Vec<T> {
    fn find(&self, found: &mut Found) {
        let before = found.at.len();
        for (index, part) in self.iter().enumerate() {
            found.at.push_str(&format!("[{index}]"));
            part.find(found);
            found.at.truncate(before);
        }
    }
}

/// Says of types which of their fields are parts that keep what they do not know.
macro_rules! parts {
    ($($type:ident { $($name:literal: $field:ident),* })*) => {$(
        impl crate::argo::unknown::Unknown for $type {
            fn find(&self, found: &mut crate::argo::unknown::Found) {
                found.add(&self.rest);
                $(found.inside($name, &self.$field);)*
            }
        }
    )*};
}

pub(super) use parts;

parts! {
    Application { "spec": spec, "operation": operation }
    ApplicationSpec {
        "destination": destination, "source": source, "sources": sources,
        "ignoreDifferences": ignore_differences, "syncPolicy": sync_policy
    }
    ApplicationDestination {}
    ApplicationSource { "directory": directory, "helm": helm, "kustomize": kustomize }
    DirectorySource {}
    HelmSource { "parameters": parameters, "fileParameters": file_parameters }
    HelmParameter {}
    HelmFileParameter {}
    KustomizeSource { "replicas": replicas, "patches": patches }
    KustomizeReplicas {}
    KustomizePatch { "target": target }
    KustomizeSelector {}
    ResourceIgnoreDifferences {}
    SyncPolicy { "automated": automated, "managedNamespaceMetadata": managed_namespace_metadata, "retry": retry }
    Automated {}
    ManagedNamespaceMetadata {}
    Retry { "backoff": backoff }
    RetryBackoff {}
    OperationRequest { "sync": sync }
    SyncOperation {}
    AppProjectSpec {
        "destinations": destinations, "destinationServiceAccounts": destination_service_accounts,
        "clusterResourceWhitelist": cluster_resource_whitelist, "clusterResourceBlacklist": cluster_resource_blacklist,
        "namespaceResourceWhitelist": namespace_resource_whitelist,
        "namespaceResourceBlacklist": namespace_resource_blacklist,
        "signatureKeys": signature_keys, "syncWindows": sync_windows
    }
    ProjectDestination {}
    DestinationServiceAccount {}
    ClusterResource {}
    NamespaceResource {}
    SignatureKey {}
    SyncWindow {}
}
