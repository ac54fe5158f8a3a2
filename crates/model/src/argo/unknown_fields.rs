//! Detection of unknown fields in resources.

use serde_json::Value;

use super::{
    AppProject, AppProjectSpec, Application, ApplicationDestination, ApplicationSource, ApplicationSpec,
    Automated, ClusterResource, DestinationServiceAccount, DirectorySource, HelmFileParameter, HelmParameter,
    HelmSource, KustomizePatch, KustomizeReplicas, KustomizeSelector, KustomizeSource,
    ManagedNamespaceMetadata, NamespaceResource, OperationRequest, ProjectDestination,
    ResourceIgnoreDifferences, Retry, RetryBackoff, SignatureKey, SyncOperation, SyncPolicy, SyncWindow,
    UnknownFields,
    support::{Support, undeclared_fields},
};

impl Application {
    /// Returns the paths of unknown fields in `spec` and in the requested operation. They are preserved but
    /// have no effect.
    pub fn unknown_fields(&self) -> Vec<String> {
        UnknownFieldPaths::collect(self)
    }
}

impl AppProject {
    /// Returns the paths of unknown fields in `spec`. Callers should report them, because a misspelled
    /// restriction has no effect.
    pub fn unknown_fields(&self) -> Vec<String> {
        let mut found = UnknownFieldPaths::default();
        found.visit_nested("spec", &self.spec);
        let is_known = |path: &str| {
            path.strip_prefix("spec.").is_some_and(|field| ignored_fields().any(|ignored| ignored == field))
        };
        found.fields.retain(|path| !is_known(path));
        found.fields
    }

    /// Returns the paths of fields in `spec` that have an effect in Argo CD but not in Tidegate.
    pub fn unsupported_fields(&self) -> Vec<String> {
        let says = |field: &&str| self.spec.rest.get(*field).is_some_and(has_effect);
        ignored_fields().filter(says).map(|field| format!("spec.{field}")).collect()
    }
}

/// Returns Argo CD's project fields that have no effect in Tidegate.
fn ignored_fields() -> impl Iterator<Item = &'static str> {
    undeclared_fields("AppProject", Support::Ignored)
}

/// Returns true if an unsupported field would have an effect in Argo CD because it lists roles or leaves its
/// warning enabled.
fn has_effect(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.get("warn") != Some(&Value::Bool(false)),
        _ => true,
    }
}

/// Part of a resource that preserves unknown fields.
pub(super) trait HasUnknownFields {
    /// Adds the unknown fields of this part and its nested parts.
    fn collect_unknown_fields(&self, found: &mut UnknownFieldPaths);
}

/// Collected unknown fields, and the path of the current part.
#[derive(Debug, Default)]
pub(super) struct UnknownFieldPaths {
    path: String,
    fields: Vec<String>,
}

impl UnknownFieldPaths {
    /// Returns the unknown fields of a resource.
    pub(super) fn collect(resource: &impl HasUnknownFields) -> Vec<String> {
        let mut found = Self::default();
        resource.collect_unknown_fields(&mut found);
        found.fields
    }

    pub(super) fn add_fields(&mut self, rest: &UnknownFields) {
        let at = &self.path;
        let path = |name: &String| if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        self.fields.extend(rest.keys().map(path));
    }

    pub(super) fn visit_nested(&mut self, name: &str, part: &impl HasUnknownFields) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        part.collect_unknown_fields(self);
        self.path.truncate(before);
    }
}

impl<T: HasUnknownFields> HasUnknownFields for Option<T> {
    fn collect_unknown_fields(&self, found: &mut UnknownFieldPaths) {
        self.iter().for_each(|part| part.collect_unknown_fields(found));
    }
}

impl<T: HasUnknownFields> HasUnknownFields for Box<T> {
    fn collect_unknown_fields(&self, found: &mut UnknownFieldPaths) {
        self.as_ref().collect_unknown_fields(found);
    }
}

impl<T: HasUnknownFields> HasUnknownFields for Vec<T> {
    fn collect_unknown_fields(&self, found: &mut UnknownFieldPaths) {
        let before = found.path.len();
        for (index, part) in self.iter().enumerate() {
            found.path.push_str(&format!("[{index}]"));
            part.collect_unknown_fields(found);
            found.path.truncate(before);
        }
    }
}

/// Declares, for each type, the fields that may themselves contain unknown fields.
macro_rules! parts {
    ($($type:ident { $($name:literal: $field:ident),* })*) => {$(
        impl crate::argo::unknown_fields::HasUnknownFields for $type {
            fn collect_unknown_fields(&self, found: &mut crate::argo::unknown_fields::UnknownFieldPaths) {
                found.add_fields(&self.rest);
                $(found.visit_nested($name, &self.$field);)*
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
