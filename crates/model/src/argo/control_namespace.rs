use std::sync::OnceLock;

/// Namespace of the control plane in Argo CD's own manifests.
pub const DEFAULT_CONTROL_NAMESPACE: &str = "argocd";

static CONTROL_NAMESPACE: OnceLock<String> = OnceLock::new();
/// Namespace of the service that this process uses as a client.
static SERVICE_NAMESPACE: OnceLock<String> = OnceLock::new();

/// Returns the namespace of the control plane, which is fixed for the whole process. In a client, this is the
/// namespace adopted from the service ([`adopt_control_namespace`]). Otherwise, it is the namespace set with
/// [`set_control_namespace`], or [`DEFAULT_CONTROL_NAMESPACE`].
///
/// As in Argo CD, Applications in this namespace or without a namespace are identified by their plain name,
/// including in tracking IDs. Applications in other namespaces are identified as `NAMESPACE_NAME`.
pub fn control_namespace() -> &'static str {
    match SERVICE_NAMESPACE.get() {
        Some(namespace) => namespace,
        None => CONTROL_NAMESPACE.get_or_init(|| DEFAULT_CONTROL_NAMESPACE.to_owned()),
    }
}

/// Adopts the control-plane namespace of this client's service, overriding the client's own setting. Only the
/// first call has an effect, because a client uses only one service.
pub fn adopt_control_namespace(namespace: &str) {
    if !namespace.is_empty() {
        let _ = SERVICE_NAMESPACE.set(namespace.to_owned());
    }
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

/// Returns the displayed name of an Application or ApplicationSet: the plain name in the control plane's
/// namespace, otherwise `NAMESPACE/NAME`.
pub fn display_name(namespace: &str, name: &str) -> String {
    if namespace == control_namespace() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Returns the name of an Application in tracking IDs and operations: the plain name in the control plane's
/// namespace, otherwise `NAMESPACE_NAME`.
pub fn instance_name(namespace: &str, name: &str) -> String {
    if namespace == control_namespace() { name.to_owned() } else { format!("{namespace}_{name}") }
}

/// Error returned when the control-plane namespace was already read or set, and so can't change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the control-plane namespace of this process is already {current}; set the namespace before its first use"
)]
pub struct ControlNamespaceInUse {
    /// Namespace already in use.
    pub current: String,
}
