//! Types of user-written fields in built-in kinds.

use super::{FieldType, FieldTypes};
use FieldType::{Base64, Bool, Fields, Integer, IntegerOrText, ListOf, MapOf, Port, Quantity, Text};

const TEXTS: FieldType = ListOf(&Text);
const TEXT_MAP: FieldType = MapOf(&Text);
const QUANTITIES: FieldType = MapOf(&Quantity);
const ANY_MAP: FieldType = Fields(&[]);
const ANY_MAPS: FieldType = ListOf(&ANY_MAP);

const KEY_REFERENCE: FieldType = Fields(&[("name", Text), ("key", Text), ("optional", Bool)]);
const LABEL_SELECTOR: FieldType = Fields(&[
    ("matchLabels", TEXT_MAP),
    ("matchExpressions", ListOf(&Fields(&[("key", Text), ("operator", Text), ("values", TEXTS)]))),
]);
const PROBE: FieldType = Fields(&[
    ("initialDelaySeconds", Integer),
    ("periodSeconds", Integer),
    ("timeoutSeconds", Integer),
    ("failureThreshold", Integer),
    ("successThreshold", Integer),
    ("exec", Fields(&[("command", TEXTS)])),
    ("httpGet", Fields(&[("path", Text), ("port", IntegerOrText), ("host", Text), ("scheme", Text)])),
    ("tcpSocket", Fields(&[("port", IntegerOrText), ("host", Text)])),
]);
const ENV: FieldType = Fields(&[
    ("name", Text),
    ("value", Text),
    ("valueFrom", Fields(&[("configMapKeyRef", KEY_REFERENCE), ("secretKeyRef", KEY_REFERENCE)])),
]);
const SECURITY_CONTEXT: FieldType = Fields(&[
    ("runAsUser", Integer),
    ("runAsGroup", Integer),
    ("fsGroup", Integer),
    ("runAsNonRoot", Bool),
    ("privileged", Bool),
    ("readOnlyRootFilesystem", Bool),
    ("allowPrivilegeEscalation", Bool),
    ("capabilities", Fields(&[("add", TEXTS), ("drop", TEXTS)])),
]);
const RESOURCES: FieldType = Fields(&[("limits", QUANTITIES), ("requests", QUANTITIES)]);
const CONTAINERS: FieldType = ListOf(&Fields(&[
    ("name", Text),
    ("image", Text),
    ("imagePullPolicy", Text),
    ("command", TEXTS),
    ("args", TEXTS),
    ("workingDir", Text),
    ("env", ListOf(&ENV)),
    ("envFrom", ANY_MAPS),
    (
        "ports",
        ListOf(&Fields(&[("name", Text), ("containerPort", Port), ("hostPort", Port), ("protocol", Text)])),
    ),
    ("resources", RESOURCES),
    (
        "volumeMounts",
        ListOf(&Fields(&[("name", Text), ("mountPath", Text), ("subPath", Text), ("readOnly", Bool)])),
    ),
    ("livenessProbe", PROBE),
    ("readinessProbe", PROBE),
    ("startupProbe", PROBE),
    ("lifecycle", ANY_MAP),
    ("securityContext", SECURITY_CONTEXT),
    ("stdin", Bool),
    ("tty", Bool),
]));
const POD: FieldType = Fields(&[
    ("containers", CONTAINERS),
    ("initContainers", CONTAINERS),
    (
        "volumes",
        ListOf(&Fields(&[
            ("name", Text),
            ("configMap", ANY_MAP),
            ("secret", ANY_MAP),
            ("emptyDir", ANY_MAP),
        ])),
    ),
    ("restartPolicy", Text),
    ("serviceAccountName", Text),
    ("nodeName", Text),
    ("nodeSelector", TEXT_MAP),
    ("hostNetwork", Bool),
    ("hostPID", Bool),
    ("hostIPC", Bool),
    ("automountServiceAccountToken", Bool),
    ("enableServiceLinks", Bool),
    ("terminationGracePeriodSeconds", Integer),
    ("activeDeadlineSeconds", Integer),
    ("priorityClassName", Text),
    ("imagePullSecrets", ListOf(&Fields(&[("name", Text)]))),
    ("tolerations", ANY_MAPS),
    ("affinity", ANY_MAP),
    ("securityContext", SECURITY_CONTEXT),
    ("dnsPolicy", Text),
]);
const TEMPLATE: FieldType =
    Fields(&[("metadata", Fields(&[("labels", TEXT_MAP), ("annotations", TEXT_MAP)])), ("spec", POD)]);
const CLAIM: FieldType = Fields(&[
    ("accessModes", TEXTS),
    ("resources", RESOURCES),
    ("storageClassName", Text),
    ("volumeName", Text),
    ("volumeMode", Text),
]);
const WORKLOAD: FieldType = Fields(&[
    ("replicas", Integer),
    ("minReadySeconds", Integer),
    ("revisionHistoryLimit", Integer),
    ("progressDeadlineSeconds", Integer),
    ("paused", Bool),
    ("serviceName", Text),
    ("podManagementPolicy", Text),
    ("selector", LABEL_SELECTOR),
    ("template", TEMPLATE),
    (
        "strategy",
        Fields(&[
            ("type", Text),
            ("rollingUpdate", Fields(&[("maxSurge", IntegerOrText), ("maxUnavailable", IntegerOrText)])),
        ]),
    ),
    ("updateStrategy", Fields(&[("type", Text), ("rollingUpdate", ANY_MAP)])),
    ("volumeClaimTemplates", ListOf(&Fields(&[("spec", CLAIM)]))),
]);
const JOB: FieldType = Fields(&[
    ("completions", Integer),
    ("parallelism", Integer),
    ("backoffLimit", Integer),
    ("activeDeadlineSeconds", Integer),
    ("ttlSecondsAfterFinished", Integer),
    ("suspend", Bool),
    ("manualSelector", Bool),
    ("selector", LABEL_SELECTOR),
    ("template", TEMPLATE),
]);
const CRON_JOB: FieldType = Fields(&[
    ("schedule", Text),
    ("timeZone", Text),
    ("concurrencyPolicy", Text),
    ("suspend", Bool),
    ("startingDeadlineSeconds", Integer),
    ("successfulJobsHistoryLimit", Integer),
    ("failedJobsHistoryLimit", Integer),
    ("jobTemplate", Fields(&[("spec", JOB)])),
]);
const SERVICE: FieldType = Fields(&[
    (
        "ports",
        ListOf(&Fields(&[
            ("name", Text),
            ("port", Port),
            ("targetPort", IntegerOrText),
            ("nodePort", Port),
            ("protocol", Text),
        ])),
    ),
    ("selector", TEXT_MAP),
    ("type", Text),
    ("clusterIP", Text),
    ("externalName", Text),
    ("externalIPs", TEXTS),
    ("sessionAffinity", Text),
    ("publishNotReadyAddresses", Bool),
]);
const BACKEND: FieldType =
    Fields(&[("service", Fields(&[("name", Text), ("port", Fields(&[("name", Text), ("number", Port)]))]))]);
const INGRESS: FieldType = Fields(&[
    ("ingressClassName", Text),
    ("defaultBackend", BACKEND),
    ("tls", ListOf(&Fields(&[("hosts", TEXTS), ("secretName", Text)]))),
    (
        "rules",
        ListOf(&Fields(&[
            ("host", Text),
            (
                "http",
                Fields(&[(
                    "paths",
                    ListOf(&Fields(&[("path", Text), ("pathType", Text), ("backend", BACKEND)])),
                )]),
            ),
        ])),
    ),
]);
const RULES: FieldType = ListOf(&Fields(&[
    ("apiGroups", TEXTS),
    ("resources", TEXTS),
    ("resourceNames", TEXTS),
    ("nonResourceURLs", TEXTS),
    ("verbs", TEXTS),
]));
const BINDING: FieldTypes = &[
    ("subjects", ListOf(&Fields(&[("kind", Text), ("name", Text), ("namespace", Text), ("apiGroup", Text)]))),
    ("roleRef", Fields(&[("kind", Text), ("name", Text), ("apiGroup", Text)])),
];

const SOURCE: FieldType = Fields(&[
    ("repoURL", Text),
    ("path", Text),
    ("targetRevision", Text),
    ("chart", Text),
    ("ref", Text),
    ("name", Text),
    ("tagPrefix", Text),
    ("directory", Fields(&[("recurse", Bool), ("include", Text), ("exclude", Text), ("jsonnet", ANY_MAP)])),
    ("helm", ANY_MAP),
    ("kustomize", ANY_MAP),
    ("plugin", ANY_MAP),
]);
const RETRY: FieldType = Fields(&[
    ("limit", Integer),
    ("refresh", Bool),
    ("backoff", Fields(&[("duration", Text), ("factor", Integer), ("maxDuration", Text)])),
]);
const SYNC_POLICY: FieldType = Fields(&[
    ("automated", Fields(&[("enabled", Bool), ("prune", Bool), ("selfHeal", Bool), ("allowEmpty", Bool)])),
    ("syncOptions", TEXTS),
    ("retry", RETRY),
    ("managedNamespaceMetadata", Fields(&[("labels", TEXT_MAP), ("annotations", TEXT_MAP)])),
]);
const INFOS: FieldType = ListOf(&Fields(&[("name", Text), ("value", Text)]));
/// Matches the custom resource definition.
const APPLICATION: FieldTypes = &[(
    "spec",
    Fields(&[
        ("project", Text),
        ("destination", Fields(&[("server", Text), ("name", Text), ("namespace", Text)])),
        ("source", SOURCE),
        ("sources", ListOf(&SOURCE)),
        ("syncPolicy", SYNC_POLICY),
        (
            "ignoreDifferences",
            ListOf(&Fields(&[
                ("group", Text),
                ("kind", Text),
                ("name", Text),
                ("namespace", Text),
                ("jsonPointers", TEXTS),
                ("jqPathExpressions", TEXTS),
                ("managedFieldsManagers", TEXTS),
            ])),
        ),
        ("info", INFOS),
        ("revisionHistoryLimit", Integer),
    ]),
)];

/// Kinds to check, in any version. Creating an [`Object`](crate::Object) already checks `metadata`.
pub(super) const KINDS: &[(&str, &str, FieldTypes)] = &[
    ("", "ConfigMap", &[("data", TEXT_MAP), ("binaryData", MapOf(&Base64)), ("immutable", Bool)]),
    (
        "",
        "Secret",
        &[("data", MapOf(&Base64)), ("stringData", TEXT_MAP), ("type", Text), ("immutable", Bool)],
    ),
    ("argoproj.io", "Application", APPLICATION),
    ("", "Service", &[("spec", SERVICE)]),
    (
        "",
        "ServiceAccount",
        &[("secrets", ANY_MAPS), ("imagePullSecrets", ANY_MAPS), ("automountServiceAccountToken", Bool)],
    ),
    ("", "Pod", &[("spec", POD)]),
    (
        "",
        "ReplicationController",
        &[("spec", Fields(&[("replicas", Integer), ("selector", TEXT_MAP), ("template", TEMPLATE)]))],
    ),
    ("", "PersistentVolumeClaim", &[("spec", CLAIM)]),
    ("", "ResourceQuota", &[("spec", Fields(&[("hard", QUANTITIES)]))]),
    ("", "Namespace", &[("spec", ANY_MAP)]),
    ("apps", "Deployment", &[("spec", WORKLOAD)]),
    ("apps", "StatefulSet", &[("spec", WORKLOAD)]),
    ("apps", "DaemonSet", &[("spec", WORKLOAD)]),
    ("apps", "ReplicaSet", &[("spec", WORKLOAD)]),
    ("batch", "Job", &[("spec", JOB)]),
    ("batch", "CronJob", &[("spec", CRON_JOB)]),
    ("networking.k8s.io", "Ingress", &[("spec", INGRESS)]),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        &[(
            "spec",
            Fields(&[
                ("podSelector", LABEL_SELECTOR),
                ("policyTypes", TEXTS),
                ("ingress", ANY_MAPS),
                ("egress", ANY_MAPS),
            ]),
        )],
    ),
    (
        "policy",
        "PodDisruptionBudget",
        &[(
            "spec",
            Fields(&[
                ("minAvailable", IntegerOrText),
                ("maxUnavailable", IntegerOrText),
                ("selector", LABEL_SELECTOR),
            ]),
        )],
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        &[(
            "spec",
            Fields(&[("minReplicas", Integer), ("maxReplicas", Integer), ("scaleTargetRef", ANY_MAP)]),
        )],
    ),
    ("rbac.authorization.k8s.io", "Role", &[("rules", RULES)]),
    ("rbac.authorization.k8s.io", "ClusterRole", &[("rules", RULES), ("aggregationRule", ANY_MAP)]),
    ("rbac.authorization.k8s.io", "RoleBinding", BINDING),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", BINDING),
];
