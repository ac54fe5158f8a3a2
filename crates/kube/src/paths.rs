//! URL paths of objects.

use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::{Gvk, ObjectKey};

use crate::discovery::catalog::Resource;

/// Location of an object, or of all objects of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) gvk: &'a Gvk,
    pub(crate) resource: Arc<Resource>,
    /// Namespace. Empty for cluster-scoped objects and for all namespaces.
    pub(crate) namespace: &'a str,
    /// Name. Empty for all objects of a kind.
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// Returns the location of all objects of a kind, in one namespace or in all namespaces.
    pub(crate) fn for_kind(gvk: &'a Gvk, resource: Arc<Resource>, namespace: Option<&'a str>) -> Self {
        let namespace = namespace.filter(|_| resource.namespaced).unwrap_or_default();
        Self { gvk, resource, namespace, name: "" }
    }

    /// Returns the location of one object. Checks that the name and namespace aren't empty, because an empty
    /// one would change the meaning of the path.
    pub(crate) fn for_object(
        gvk: &'a Gvk,
        resource: Arc<Resource>,
        namespace: &'a str,
        name: &'a str,
    ) -> Result<Self, ClusterError> {
        let this = Self::for_create(gvk, resource, namespace)?;
        let reason = match name {
            "" => "name is required".to_owned(),
            "." | ".." => format!("{name:?} is not a valid name"),
            _ if name.contains(['/', '%']) => format!("{name:?} may not contain '/' or '%'"),
            _ => return Ok(Self { name, ..this }),
        };
        Err(ClusterError::new(ErrorKind::Invalid, format!("{gvk}: metadata.name: {reason}")))
    }

    /// Returns the location for creating an object without a name.
    pub(crate) fn for_create(
        gvk: &'a Gvk,
        resource: Arc<Resource>,
        namespace: &'a str,
    ) -> Result<Self, ClusterError> {
        if resource.namespaced && namespace.is_empty() {
            let reason = format!("{gvk}: metadata.namespace: a namespace is required");
            return Err(ClusterError::new(ErrorKind::Invalid, reason));
        }
        let namespace = if resource.namespaced { namespace } else { "" };
        Ok(Self { gvk, resource, namespace, name: "" })
    }

    /// Returns the path of all objects of the kind in the namespace.
    pub(crate) fn collection_path(&self) -> String {
        let Gvk { group, version, .. } = self.gvk;
        let mut path = String::with_capacity(128);
        if group.is_empty() {
            path.push_str("/api/");
        } else {
            path.push_str("/apis/");
            push_segment(&mut path, group);
            path.push('/');
        }
        push_segment(&mut path, version);
        if !self.namespace.is_empty() {
            path.push_str("/namespaces/");
            push_segment(&mut path, self.namespace);
        }
        path.push('/');
        push_segment(&mut path, &self.resource.plural);
        path
    }

    /// Returns the path of the object.
    pub(crate) fn path(&self) -> String {
        let mut path = self.collection_path();
        path.push('/');
        push_segment(&mut path, self.name);
        path
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.gvk.group, &self.gvk.kind, self.namespace, self.name)
    }
}

/// Appends one path segment, escaping all delimiters in it.
pub(crate) fn push_segment(path: &mut String, segment: &str) {
    push_escaped(path, segment, b"-._~:@!$&'()*+,;=");
}

/// Appends a query value.
pub(crate) fn push_value(query: &mut String, value: &str) {
    push_escaped(query, value, b"-._~:@!$'()*,/");
}

fn push_escaped(text: &mut String, part: &str, plain: &[u8]) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(plural: &str, namespaced: bool) -> Arc<Resource> {
        Arc::new(Resource {
            plural: plural.to_owned(),
            namespaced,
            listable: true,
            has_status_subresource: false,
        })
    }

    #[test]
    fn paths_cover_all_groups_and_scopes() {
        let (pods, roles) =
            (Gvk::new("", "v1", "Pod"), Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRole"));
        let pod = Target::for_object(&pods, resource("pods", true), "shop", "api").unwrap();
        assert_eq!(pod.path(), "/api/v1/namespaces/shop/pods/api");
        assert_eq!(Target::for_kind(&pods, resource("pods", true), None).collection_path(), "/api/v1/pods");
        let role =
            Target::for_object(&roles, resource("clusterroles", false), "shop", "system:a b?#é").unwrap();
        assert_eq!(role.path(), "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3F%23%C3%A9");
        let all = Target::for_kind(&roles, resource("clusterroles", false), Some("shop"));
        assert_eq!(all.collection_path(), "/apis/rbac.authorization.k8s.io/v1/clusterroles");
    }

    #[test]
    fn a_path_without_a_complete_name_is_refused() {
        let gvk = Gvk::new("", "v1", "Pod");
        for (namespace, name) in
            [("", "a"), ("shop", ""), ("shop", ".."), ("shop", "a/status"), ("shop", "%2e")]
        {
            let refused = Target::for_object(&gvk, resource("pods", true), namespace, name).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Invalid, "{namespace:?} {name:?}");
        }
    }
}
