//! Merge rules for built-in kinds: lists with a merge key, and mutually exclusive fields.
//!
//! The table contains only exceptions to the default, which merges maps field by field and replaces
//! everything else as a whole. The source is the Kubernetes API reference ("patch strategy", "patch merge
//! key"). Other kinds get a JSON merge patch, which is correct for any kind, whereas a wrong entry here would
//! leave deleted items in place. The table has no entries for `status`, because Tidegate never patches the
//! status.

use tidegate_model::Gvk;

/// Fields of a type with special merge rules.
#[derive(Debug)]
pub(super) struct TypeSchema(&'static [FieldSchema]);

#[derive(Debug)]
struct FieldSchema {
    name: &'static str,
    merge: Merge,
    of: &'static TypeSchema,
}

/// Merge rule of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Merge {
    /// Maps are merged field by field. Anything else is replaced as a whole.
    Plain,
    /// A map of mutually exclusive fields. Fields outside the manifest are removed.
    Union,
    /// A map replaced as a whole.
    Whole,
    /// A list of strings, treated as a set.
    StringSet,
    /// A list of maps with a key.
    KeyedList(ItemRule),
}

/// Merge rule for the items of a list of maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemRule {
    /// The server's merge key.
    pub(super) key: &'static str,
    /// Second field, if any.
    pub(super) further_field: Option<FurtherField>,
    /// True if each item is a [`Merge::Union`].
    pub(super) is_union: bool,
}

/// Second field that distinguishes items that are valid side by side, such as the same port for TCP and UDP.
#[derive(Clone, Copy, Debug)]
pub(super) struct FurtherField {
    pub(super) name: &'static str,
    /// Value of the field in items without it.
    pub(super) default: &'static str,
}

const PROTOCOL: FurtherField = FurtherField { name: "protocol", default: "TCP" };

impl TypeSchema {
    /// Returns the merge rule of a field, and the type of its value or of its items.
    pub(super) fn merge_rule(&self, name: &str) -> (Merge, &'static TypeSchema) {
        self.0
            .iter()
            .find(|field| field.name == name)
            .map_or((Merge::Plain, &LEAF), |field| (field.merge, field.of))
    }
}

const fn map_field(name: &'static str, of: &'static TypeSchema) -> FieldSchema {
    FieldSchema { name, merge: Merge::Plain, of }
}

const fn item_field(name: &'static str, key: &'static str, of: &'static TypeSchema) -> FieldSchema {
    FieldSchema { name, merge: Merge::KeyedList(ItemRule { key, further_field: None, is_union: false }), of }
}

const fn item_field_with_further_key(
    name: &'static str,
    key: &'static str,
    further: FurtherField,
    of: &'static TypeSchema,
) -> FieldSchema {
    FieldSchema {
        name,
        merge: Merge::KeyedList(ItemRule { key, further_field: Some(further), is_union: false }),
        of,
    }
}

const fn union_field(name: &'static str, key: &'static str) -> FieldSchema {
    FieldSchema {
        name,
        merge: Merge::KeyedList(ItemRule { key, further_field: None, is_union: true }),
        of: &LEAF,
    }
}

const fn field_with_merge(name: &'static str, merge: Merge) -> FieldSchema {
    FieldSchema { name, merge, of: &LEAF }
}

static LEAF: TypeSchema = TypeSchema(&[]);
static METADATA: TypeSchema = TypeSchema(&[
    item_field("ownerReferences", "uid", &LEAF),
    field_with_merge("finalizers", Merge::StringSet),
]);
/// Kind with only metadata.
static PLAIN: TypeSchema = TypeSchema(&[map_field("metadata", &METADATA)]);

static CONTAINER: TypeSchema = TypeSchema(&[
    item_field_with_further_key("ports", "containerPort", PROTOCOL, &LEAF),
    item_field("env", "name", &LEAF),
    item_field("volumeMounts", "mountPath", &LEAF),
    item_field("volumeDevices", "devicePath", &LEAF),
]);
static POD_SPEC: TypeSchema = TypeSchema(&[
    item_field("containers", "name", &CONTAINER),
    item_field("initContainers", "name", &CONTAINER),
    item_field("ephemeralContainers", "name", &CONTAINER),
    union_field("volumes", "name"),
    union_field("resourceClaims", "name"),
    item_field("imagePullSecrets", "name", &LEAF),
    item_field("hostAliases", "ip", &LEAF),
    item_field("schedulingGates", "name", &LEAF),
    item_field_with_further_key(
        "topologySpreadConstraints",
        "topologyKey",
        FurtherField { name: "whenUnsatisfiable", default: "DoNotSchedule" },
        &LEAF,
    ),
]);
static POD: TypeSchema = TypeSchema(&[map_field("metadata", &METADATA), map_field("spec", &POD_SPEC)]);
static TEMPLATE: TypeSchema = TypeSchema(&[map_field("metadata", &METADATA), map_field("template", &POD)]);
static TEMPLATE_SPEC: TypeSchema = TypeSchema(&[map_field("template", &POD)]);
/// Kind that creates pods from a template.
static WORKLOAD: TypeSchema =
    TypeSchema(&[map_field("metadata", &METADATA), map_field("spec", &TEMPLATE_SPEC)]);
static DEPLOYMENT_SPEC: TypeSchema =
    TypeSchema(&[map_field("template", &POD), field_with_merge("strategy", Merge::Union)]);
static DEPLOYMENT: TypeSchema =
    TypeSchema(&[map_field("metadata", &METADATA), map_field("spec", &DEPLOYMENT_SPEC)]);
static CRON_JOB_SPEC: TypeSchema = TypeSchema(&[map_field("jobTemplate", &WORKLOAD)]);
static CRON_JOB: TypeSchema =
    TypeSchema(&[map_field("metadata", &METADATA), map_field("spec", &CRON_JOB_SPEC)]);

static SERVICE_SPEC: TypeSchema =
    TypeSchema(&[item_field_with_further_key("ports", "port", PROTOCOL, &LEAF)]);
static SERVICE: TypeSchema =
    TypeSchema(&[map_field("metadata", &METADATA), map_field("spec", &SERVICE_SPEC)]);
static SERVICE_ACCOUNT: TypeSchema =
    TypeSchema(&[map_field("metadata", &METADATA), item_field("secrets", "name", &LEAF)]);
static NODE_SPEC: TypeSchema = TypeSchema(&[field_with_merge("podCIDRs", Merge::StringSet)]);
static NODE: TypeSchema = TypeSchema(&[map_field("metadata", &METADATA), map_field("spec", &NODE_SPEC)]);
static DISRUPTION_BUDGET_SPEC: TypeSchema = TypeSchema(&[field_with_merge("selector", Merge::Whole)]);
static DISRUPTION_BUDGET: TypeSchema =
    TypeSchema(&[map_field("metadata", &METADATA), map_field("spec", &DISRUPTION_BUDGET_SPEC)]);
static WEBHOOK: TypeSchema = TypeSchema(&[item_field("matchConditions", "name", &LEAF)]);
static WEBHOOKS: TypeSchema =
    TypeSchema(&[map_field("metadata", &METADATA), item_field("webhooks", "name", &WEBHOOK)]);

/// Returns the type of a built-in kind, or `None` for kinds outside the table.
pub(super) fn find_type(gvk: &Gvk) -> Option<&'static TypeSchema> {
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
        // Omit versions before v1, because servers disagree on their merge rule for the selector.
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
