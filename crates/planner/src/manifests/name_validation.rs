//! Name validation, following the API server's rules.

/// A rejected field: its path, its value, and the rule it violates.
pub(super) type InvalidName = (&'static str, String, &'static str);

const SUBDOMAIN_RULE: &str =
    "use at most 253 lower-case letters, digits, '-' and '.', starting and ending with a letter or digit";
const LABEL_RULE: &str =
    "use at most 63 lower-case letters, digits and '-', starting and ending with a letter or digit";
const PREFIX_RULE: &str =
    "use at most 253 lower-case letters, digits, '-' and '.', starting with a letter or digit";
const SEGMENT_RULE: &str =
    "use at most 253 characters, without '/', '%' or control characters; '.' and '..' are not allowed";
const KIND_RULE: &str = "use at most 63 letters, digits and '-', starting with a letter";
const API_VERSION_RULE: &str = "use VERSION or GROUP/VERSION, such as v1 or apps/v1";

const SUBDOMAIN_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;

/// Validates an object's name, name prefix and namespace.
pub(super) fn check_names(
    group: &str,
    kind: &str,
    name: &str,
    prefix: &str,
    namespace: &str,
) -> Vec<InvalidName> {
    let mut refusals = Vec::new();
    if let Some(rule) = name_rule(group, kind, name).filter(|_| !name.is_empty()) {
        refusals.push(("metadata.name", name.to_owned(), rule));
    }
    // The server appends characters to a prefix, so it may end in dashes.
    if !prefix.is_empty()
        && !allows_path_segments(group, kind)
        && !is_subdomain(&format!("{}a", prefix.trim_end_matches('-')))
    {
        refusals.push(("metadata.generateName", prefix.to_owned(), PREFIX_RULE));
    }
    if !prefix.is_empty() && allows_path_segments(group, kind) && !is_segment(prefix) {
        refusals.push(("metadata.generateName", prefix.to_owned(), SEGMENT_RULE));
    }
    if !namespace.is_empty() && !is_label(namespace) {
        refusals.push(("metadata.namespace", namespace.to_owned(), LABEL_RULE));
    }
    refusals
}

/// Validates `apiVersion` and `kind`.
pub(super) fn check_type(api_version: &str, kind: &str) -> Vec<InvalidName> {
    let mut refusals = Vec::new();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let group_is_fine = if api_version.contains('/') { is_subdomain(group) } else { true };
    if !group_is_fine || !is_label(version) {
        refusals.push(("apiVersion", api_version.to_owned(), API_VERSION_RULE));
    }
    let lower = kind.to_ascii_lowercase();
    if !lower.starts_with(|c: char| c.is_ascii_lowercase()) || !is_label(&lower) {
        refusals.push(("kind", kind.to_owned(), KIND_RULE));
    }
    refusals
}

fn name_rule(group: &str, kind: &str, name: &str) -> Option<&'static str> {
    if allows_path_segments(group, kind) {
        (!is_segment(name)).then_some(SEGMENT_RULE)
    } else if group.is_empty() && kind == "Namespace" {
        (!is_label(name)).then_some(LABEL_RULE)
    } else {
        (!is_subdomain(name)).then_some(SUBDOMAIN_RULE)
    }
}

/// Returns true for kinds whose names only need to be valid path segments: RBAC (`system:node`), certificate
/// requests, IP addresses, and OpenShift's own kinds.
fn allows_path_segments(group: &str, kind: &str) -> bool {
    group == "rbac.authorization.k8s.io"
        || group.ends_with(".openshift.io")
        || (group == "certificates.k8s.io" && kind == "CertificateSigningRequest")
        || (group == "networking.k8s.io" && kind == "IPAddress")
}

fn is_segment(text: &str) -> bool {
    text != "."
        && text != ".."
        && text.len() <= SUBDOMAIN_LENGTH_MAX
        && !text.contains(|c: char| matches!(c, '/' | '%') || c.is_control())
}

/// Returns true for a DNS label, such as the name of a namespace.
pub fn is_label(text: &str) -> bool {
    text.len() <= LABEL_LENGTH_MAX && has_label_characters(text)
}

fn has_label_characters(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_LENGTH_MAX && text.split('.').all(has_label_characters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_kind() {
        let long = "a".repeat(254);
        for (group, kind, name, good) in [
            ("apps", "Deployment", "api", true),
            ("apps", "Deployment", "api.v1-2", true),
            ("apps", "Deployment", "Api", false),
            ("apps", "Deployment", "api_x", false),
            ("apps", "Deployment", "-api", false),
            ("apps", "Deployment", "a..b", false),
            ("apps", "Deployment", "api\u{1b}[31m", false),
            ("apps", "Deployment", &long, false),
            ("apps", "Deployment", &long[..253], true),
            ("", "Namespace", "a.b", false),
            ("", "Namespace", &long[..64], false),
            ("rbac.authorization.k8s.io", "ClusterRole", "system:Foo", true),
            ("rbac.authorization.k8s.io", "ClusterRole", "a/b", false),
            ("rbac.authorization.k8s.io", "ClusterRole", "a\n", false),
            ("certificates.k8s.io", "CertificateSigningRequest", "a:b", true),
        ] {
            assert_eq!(check_names(group, kind, name, "", "").is_empty(), good, "{kind} {name:?}");
        }
    }

    #[test]
    fn prefixes_namespaces_and_types() {
        for (prefix, namespace, good) in [
            ("migrate-", "shop", true),
            ("migrate", "", true),
            ("Migrate-", "", false),
            ("-", "", true),
            ("a", "a.b", false),
        ] {
            assert_eq!(
                check_names("batch", "Job", "", prefix, namespace).is_empty(),
                good,
                "{prefix:?} {namespace:?}"
            );
        }
        for (api_version, kind, good) in [
            ("v1", "Pod", true),
            ("apps/v1", "Deployment", true),
            ("a/b/c", "Pod", false),
            ("/v1", "Pod", false),
            ("v1", "Po\u{7}d", false),
            ("v1", "9Pod", false),
        ] {
            assert_eq!(check_type(api_version, kind).is_empty(), good, "{api_version} {kind:?}");
        }
    }
}
