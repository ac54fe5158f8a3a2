use std::sync::OnceLock;

/// Namespace of the control plane in Argo CD's own manifests.
pub const DEFAULT_CONTROL_NAMESPACE: &str = "argocd";

static CONTROL_NAMESPACE: OnceLock<String> = OnceLock::new();

/// Returns the namespace of the control plane. It is the same for the whole process:
/// [`DEFAULT_CONTROL_NAMESPACE`] unless [`set_control_namespace`] has set a different one. As in Argo CD,
/// Applications in this namespace, and Applications without a namespace, are identified by their plain name,
/// including in tracking IDs. Applications in other namespaces are identified as `NAMESPACE_NAME`.
pub fn control_namespace() -> &'static str {
    CONTROL_NAMESPACE.get_or_init(|| DEFAULT_CONTROL_NAMESPACE.to_owned())
}

/// Sets the namespace of the control plane. Must be called before any code reads the namespace.
///
/// # Errors
///
/// Returns an error if a different namespace is already in use.
pub fn set_control_namespace(namespace: &str) -> Result<(), ControlNamespaceInUse> {
    match CONTROL_NAMESPACE.get_or_init(|| namespace.to_owned()) {
        current if current == namespace => Ok(()),
        current => Err(ControlNamespaceInUse { current: current.clone() }),
    }
}

/// Error returned when the namespace of the control plane can't change because it was already read or set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the control-plane namespace of this process is already {current}; set it before its first use")]
pub struct ControlNamespaceInUse {
    /// Namespace that is already in use.
    pub current: String,
}
