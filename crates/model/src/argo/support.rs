//! Custom resource fields that Tidegate ignores or refuses. All other declared fields are supported.

/// Support level of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The field has the documented effect.
    Supported,
    /// The field is preserved and has no effect.
    Ignored,
    /// Tidegate doesn't manage a resource with this field, or the requested operation fails.
    Refused,
}

impl Support {
    /// Returns the term used in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
        }
    }
}

/// Field that is ignored or refused.
#[derive(Clone, Copy, Debug)]
pub struct UnsupportedField {
    /// Kind of the resource.
    pub kind: &'static str,
    /// Path of the field, such as `spec.source.plugin`. `[]` represents list items.
    pub path: &'static str,
    /// Support level of the field.
    pub support: Support,
    /// Type and description of a field that the Rust types don't declare.
    pub undeclared: Option<(&'static str, &'static str)>,
    /// Effect of ignoring or refusing the field, as a sentence.
    pub effect: &'static str,
}

/// Effect of refusing a source.
const NO_MANIFESTS: &str = "The Application has the `ComparisonError` condition and is not synced.";

/// All fields that are ignored or refused.
pub const UNSUPPORTED_FIELDS: &[UnsupportedField] = &[
    refused("Application", "spec.source.plugin", NO_MANIFESTS),
    refused("Application", "spec.source.tagPrefix", NO_MANIFESTS),
    refused("Application", "spec.source.directory.jsonnet", NO_MANIFESTS),
    ignored("Application", "spec.info", "Tidegate keeps the entries but does not use them."),
    UnsupportedField {
        undeclared: Some((
            "object",
            "Argo CD's source hydrator, which writes rendered manifests to a branch.",
        )),
        ..refused(
            "Application",
            "spec.sourceHydrator",
            "The Application has the `InvalidSpecError` condition and is not synced.",
        )
    },
    refused("Application", "operation.sync.manifests", "The operation ends in `Error`."),
    ignored(
        "ApplicationSet",
        "spec.applyNestedSelectors",
        "Tidegate always applies the selectors of nested generators.",
    ),
    ignored(
        "ApplicationSet",
        "spec.template.metadata.namespace",
        "Applications are always created in the ApplicationSet's namespace.",
    ),
    refused(
        "ApplicationSet",
        "spec.generators[].scmProvider.awsCodeCommit",
        "The ApplicationSet has the `ErrorOccurred` condition, and no Application is deleted.",
    ),
    refused(
        "AppProject",
        "spec.sourceIntegrity",
        "The project's Applications have the `InvalidSpecError` condition and are not synced.",
    ),
    UnsupportedField {
        undeclared: Some((
            "object",
            "Warnings about objects that are in the permitted namespaces but do not belong to an Application.",
        )),
        ..ignored(
            "AppProject",
            "spec.orphanedResources",
            "The project's Applications have the `UnknownFieldWarning` condition unless `warn` is `false`.",
        )
    },
    UnsupportedField {
        undeclared: Some(("list of objects", "User permissions in Argo CD's API server.")),
        ..ignored(
            "AppProject",
            "spec.roles",
            "The project's Applications have the `UnknownFieldWarning` condition unless the list is empty.",
        )
    },
];

const fn refused(kind: &'static str, path: &'static str, effect: &'static str) -> UnsupportedField {
    UnsupportedField { kind, path, support: Support::Refused, undeclared: None, effect }
}

const fn ignored(kind: &'static str, path: &'static str, effect: &'static str) -> UnsupportedField {
    UnsupportedField { kind, path, support: Support::Ignored, undeclared: None, effect }
}

/// Returns the support level of a declared field.
pub fn support_of(kind: &str, path: &str) -> Support {
    let found = UNSUPPORTED_FIELDS.iter().find(|field| field.kind == kind && field.path == path);
    found.map_or(Support::Supported, |field| field.support)
}

/// Returns the undeclared fields in a kind's `spec` with the given support level.
pub fn undeclared_fields(kind: &str, support: Support) -> impl Iterator<Item = &'static str> {
    let is_wanted = move |field: &&UnsupportedField| {
        field.kind == kind && field.support == support && field.undeclared.is_some()
    };
    UNSUPPORTED_FIELDS.iter().filter(is_wanted).filter_map(|field| field.path.strip_prefix("spec."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argo::all_crds;

    /// Every path in the table refers to a field in the schema, unless the table marks the field as
    /// undeclared.
    #[test]
    fn unsupported_fields_exist() {
        for definition in all_crds() {
            let kind = definition.pointer("/spec/names/kind").unwrap().as_str().unwrap();
            let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
            for field in UNSUPPORTED_FIELDS.iter().filter(|field| field.kind == kind) {
                let pointer = format!(
                    "/properties/{}",
                    field.path.replace("[]", "/items").replace('.', "/properties/")
                );
                let is_declared = schema.pointer(&pointer).is_some();
                assert_eq!(is_declared, field.undeclared.is_none(), "{kind}: {}", field.path);
            }
        }
    }

    #[test]
    fn undeclared_fields_are_named_without_spec() {
        let of = |kind, support| undeclared_fields(kind, support).collect::<Vec<_>>();
        assert_eq!(of("AppProject", Support::Ignored), ["orphanedResources", "roles"]);
        assert_eq!(of("Application", Support::Refused), ["sourceHydrator"]);
        assert_eq!(support_of("Application", "spec.source.plugin"), Support::Refused);
        assert_eq!(support_of("Application", "spec.source.helm"), Support::Supported);
    }
}
