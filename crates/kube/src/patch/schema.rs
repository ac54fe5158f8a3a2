//! How the fields of built-in kinds merge: which lists are maps by some key, and which fields exclude each other.
//!
//! Only what differs from the rule is listed: maps merge field by field, everything else is replaced as a whole. The
//! facts are those of the Kubernetes API reference ("patch strategy", "patch merge key"). A kind that is not listed
//! gets a JSON merge patch, which is right for any kind; a wrong entry here would leave deleted items in place. For
//! the same reason `status` has no entries: it is not ours to write.

use tidegate_model::Gvk;

/// The fields of one type that merge in a way of their own.
#[derive(Debug)]
pub(super) struct Type(&'static [Field]);

#[derive(Debug)]
struct Field {
    name: &'static str,
    merge: Merge,
    of: &'static Type,
}

/// How one field merges.
#[derive(Clone, Copy, Debug)]
pub(super) enum Merge {
    /// Maps field by field; anything else as a whole.
    Plain,
    /// A map whose fields exclude each other: those that the manifest does not name go.
    Union,
    /// A map that is replaced as a whole.
    Whole,
    /// A list of texts that is a set.
    Values,
    /// A list of maps that is a map by key.
    Items(Items),
}

/// A list of maps that is a map by key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items {
    /// The field that the server tells items apart by.
    pub(super) key: &'static str,
    /// A further field, and its default, without which items that are valid together look the same: a port may be
    /// there for TCP and for UDP.
    pub(super) also: Option<(&'static str, &'static str)>,
    /// Whether each item is a [`Merge::Union`].
    pub(super) union: bool,
}

impl Type {
    /// How a field merges, and what type its value, or each of its items, has.
    pub(super) fn field(&self, name: &str) -> (Merge, &'static Type) {
        self.0
            .iter()
            .find(|field| field.name == name)
            .map_or((Merge::Plain, &LEAF), |field| (field.merge, field.of))
    }
}

const fn map(name: &'static str, of: &'static Type) -> Field {
    Field { name, merge: Merge::Plain, of }
}

const fn items(name: &'static str, key: &'static str, of: &'static Type) -> Field {
    Field { name, merge: Merge::Items(Items { key, also: None, union: false }), of }
}

const fn items_and(
    name: &'static str,
    key: &'static str,
    also: (&'static str, &'static str),
    of: &'static Type,
) -> Field {
    Field { name, merge: Merge::Items(Items { key, also: Some(also), union: false }), of }
}

const fn unions(name: &'static str, key: &'static str) -> Field {
    Field { name, merge: Merge::Items(Items { key, also: None, union: true }), of: &LEAF }
}

const fn other(name: &'static str, merge: Merge) -> Field {
    Field { name, merge, of: &LEAF }
}

static LEAF: Type = Type(&[]);
static METADATA: Type = Type(&[items("ownerReferences", "uid", &LEAF), other("finalizers", Merge::Values)]);
/// Any kind with nothing but metadata to know of.
static PLAIN: Type = Type(&[map("metadata", &METADATA)]);

static CONTAINER: Type = Type(&[
    items_and("ports", "containerPort", ("protocol", "TCP"), &LEAF),
    items("env", "name", &LEAF),
    items("volumeMounts", "mountPath", &LEAF),
    items("volumeDevices", "devicePath", &LEAF),
]);
static POD_SPEC: Type = Type(&[
    items("containers", "name", &CONTAINER),
    items("initContainers", "name", &CONTAINER),
    items("ephemeralContainers", "name", &CONTAINER),
    unions("volumes", "name"),
    unions("resourceClaims", "name"),
    items("imagePullSecrets", "name", &LEAF),
    items("hostAliases", "ip", &LEAF),
    items("schedulingGates", "name", &LEAF),
    items_and("topologySpreadConstraints", "topologyKey", ("whenUnsatisfiable", "DoNotSchedule"), &LEAF),
]);
static POD: Type = Type(&[map("metadata", &METADATA), map("spec", &POD_SPEC)]);
static TEMPLATE: Type = Type(&[map("metadata", &METADATA), map("template", &POD)]);
static TEMPLATE_SPEC: Type = Type(&[map("template", &POD)]);
/// A kind that makes pods of a template.
static WORKLOAD: Type = Type(&[map("metadata", &METADATA), map("spec", &TEMPLATE_SPEC)]);
static DEPLOYMENT_SPEC: Type = Type(&[map("template", &POD), other("strategy", Merge::Union)]);
static DEPLOYMENT: Type = Type(&[map("metadata", &METADATA), map("spec", &DEPLOYMENT_SPEC)]);
static CRON_JOB_SPEC: Type = Type(&[map("jobTemplate", &WORKLOAD)]);
static CRON_JOB: Type = Type(&[map("metadata", &METADATA), map("spec", &CRON_JOB_SPEC)]);

static SERVICE_SPEC: Type = Type(&[items_and("ports", "port", ("protocol", "TCP"), &LEAF)]);
static SERVICE: Type = Type(&[map("metadata", &METADATA), map("spec", &SERVICE_SPEC)]);
static SERVICE_ACCOUNT: Type = Type(&[map("metadata", &METADATA), items("secrets", "name", &LEAF)]);
static NODE_SPEC: Type = Type(&[other("podCIDRs", Merge::Values)]);
static NODE: Type = Type(&[map("metadata", &METADATA), map("spec", &NODE_SPEC)]);
static DISRUPTION_BUDGET_SPEC: Type = Type(&[other("selector", Merge::Whole)]);
static DISRUPTION_BUDGET: Type = Type(&[map("metadata", &METADATA), map("spec", &DISRUPTION_BUDGET_SPEC)]);
static WEBHOOK: Type = Type(&[items("matchConditions", "name", &LEAF)]);
static WEBHOOKS: Type = Type(&[map("metadata", &METADATA), items("webhooks", "name", &WEBHOOK)]);

/// The type of a built-in kind. `None`: not a kind we know the lists of.
pub(super) fn of(gvk: &Gvk) -> Option<&'static Type> {
    Some(match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => &POD,
        ("", "PodTemplate") => &TEMPLATE,
        ("", "ReplicationController") => &WORKLOAD,
        ("", "Service") => &SERVICE,
        ("", "ServiceAccount") => &SERVICE_ACCOUNT,
        ("", "Node") => &NODE,
        (
            "",
            "ConfigMap"
            | "Secret"
            | "Namespace"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "Endpoints"
            | "Event"
            | "LimitRange"
            | "ResourceQuota",
        ) => &PLAIN,
        ("apps", "Deployment") => &DEPLOYMENT,
        ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => &WORKLOAD,
        ("batch", "CronJob") => &CRON_JOB,
        // Before v1 servers disagree about the selector.
        ("policy", "PodDisruptionBudget") if gvk.version == "v1" => &DISRUPTION_BUDGET,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &WEBHOOKS,
        ("apps", "ControllerRevision")
        | ("autoscaling", "HorizontalPodAutoscaler")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("extensions", "Ingress")
        | ("rbac.authorization.k8s.io", "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding")
        | ("storage.k8s.io", "StorageClass" | "CSIDriver")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("coordination.k8s.io", "Lease")
        | ("node.k8s.io", "RuntimeClass")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("events.k8s.io", "Event") => &PLAIN,
        _ => return None,
    })
}
