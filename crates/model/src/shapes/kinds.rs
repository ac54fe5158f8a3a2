//! The fields of built-in kinds that people write.

use super::{Shape, Type};
use Type::{Base64, Fields, Flag, ListOf, MapOf, Port, Quantity, Text, Whole, WholeOrText};

const TEXTS: Type = ListOf(&Text);
const TEXT_MAP: Type = MapOf(&Text);
const QUANTITIES: Type = MapOf(&Quantity);
const ANY_MAP: Type = Fields(&[]);
const ANY_MAPS: Type = ListOf(&ANY_MAP);

const KEY_REFERENCE: Type = Fields(&[("name", Text), ("key", Text), ("optional", Flag)]);
const LABEL_SELECTOR: Type = Fields(&[
    ("matchLabels", TEXT_MAP),
    ("matchExpressions", ListOf(&Fields(&[("key", Text), ("operator", Text), ("values", TEXTS)]))),
]);
const PROBE: Type = Fields(&[
    ("initialDelaySeconds", Whole),
    ("periodSeconds", Whole),
    ("timeoutSeconds", Whole),
    ("failureThreshold", Whole),
    ("successThreshold", Whole),
    ("exec", Fields(&[("command", TEXTS)])),
    ("httpGet", Fields(&[("path", Text), ("port", WholeOrText), ("host", Text), ("scheme", Text)])),
    ("tcpSocket", Fields(&[("port", WholeOrText), ("host", Text)])),
]);
const ENV: Type = Fields(&[
    ("name", Text),
    ("value", Text),
    ("valueFrom", Fields(&[("configMapKeyRef", KEY_REFERENCE), ("secretKeyRef", KEY_REFERENCE)])),
]);
const SECURITY_CONTEXT: Type = Fields(&[
    ("runAsUser", Whole),
    ("runAsGroup", Whole),
    ("fsGroup", Whole),
    ("runAsNonRoot", Flag),
    ("privileged", Flag),
    ("readOnlyRootFilesystem", Flag),
    ("allowPrivilegeEscalation", Flag),
    ("capabilities", Fields(&[("add", TEXTS), ("drop", TEXTS)])),
]);
const RESOURCES: Type = Fields(&[("limits", QUANTITIES), ("requests", QUANTITIES)]);
const CONTAINERS: Type = ListOf(&Fields(&[
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
        ListOf(&Fields(&[("name", Text), ("mountPath", Text), ("subPath", Text), ("readOnly", Flag)])),
    ),
    ("livenessProbe", PROBE),
    ("readinessProbe", PROBE),
    ("startupProbe", PROBE),
    ("lifecycle", ANY_MAP),
    ("securityContext", SECURITY_CONTEXT),
    ("stdin", Flag),
    ("tty", Flag),
]));
const POD: Type = Fields(&[
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
    ("hostNetwork", Flag),
    ("hostPID", Flag),
    ("hostIPC", Flag),
    ("automountServiceAccountToken", Flag),
    ("enableServiceLinks", Flag),
    ("terminationGracePeriodSeconds", Whole),
    ("activeDeadlineSeconds", Whole),
    ("priorityClassName", Text),
    ("imagePullSecrets", ListOf(&Fields(&[("name", Text)]))),
    ("tolerations", ANY_MAPS),
    ("affinity", ANY_MAP),
    ("securityContext", SECURITY_CONTEXT),
    ("dnsPolicy", Text),
]);
const TEMPLATE: Type =
    Fields(&[("metadata", Fields(&[("labels", TEXT_MAP), ("annotations", TEXT_MAP)])), ("spec", POD)]);
const CLAIM: Type = Fields(&[
    ("accessModes", TEXTS),
    ("resources", RESOURCES),
    ("storageClassName", Text),
    ("volumeName", Text),
    ("volumeMode", Text),
]);
const WORKLOAD: Type = Fields(&[
    ("replicas", Whole),
    ("minReadySeconds", Whole),
    ("revisionHistoryLimit", Whole),
    ("progressDeadlineSeconds", Whole),
    ("paused", Flag),
    ("serviceName", Text),
    ("podManagementPolicy", Text),
    ("selector", LABEL_SELECTOR),
    ("template", TEMPLATE),
    (
        "strategy",
        Fields(&[
            ("type", Text),
            ("rollingUpdate", Fields(&[("maxSurge", WholeOrText), ("maxUnavailable", WholeOrText)])),
        ]),
    ),
    ("updateStrategy", Fields(&[("type", Text), ("rollingUpdate", ANY_MAP)])),
    ("volumeClaimTemplates", ListOf(&Fields(&[("spec", CLAIM)]))),
]);
const JOB: Type = Fields(&[
    ("completions", Whole),
    ("parallelism", Whole),
    ("backoffLimit", Whole),
    ("activeDeadlineSeconds", Whole),
    ("ttlSecondsAfterFinished", Whole),
    ("suspend", Flag),
    ("manualSelector", Flag),
    ("selector", LABEL_SELECTOR),
    ("template", TEMPLATE),
]);
const CRON_JOB: Type = Fields(&[
    ("schedule", Text),
    ("timeZone", Text),
    ("concurrencyPolicy", Text),
    ("suspend", Flag),
    ("startingDeadlineSeconds", Whole),
    ("successfulJobsHistoryLimit", Whole),
    ("failedJobsHistoryLimit", Whole),
    ("jobTemplate", Fields(&[("spec", JOB)])),
]);
const SERVICE: Type = Fields(&[
    (
        "ports",
        ListOf(&Fields(&[
            ("name", Text),
            ("port", Port),
            ("targetPort", WholeOrText),
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
    ("publishNotReadyAddresses", Flag),
]);
const BACKEND: Type =
    Fields(&[("service", Fields(&[("name", Text), ("port", Fields(&[("name", Text), ("number", Port)]))]))]);
const INGRESS: Type = Fields(&[
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
const RULES: Type = ListOf(&Fields(&[
    ("apiGroups", TEXTS),
    ("resources", TEXTS),
    ("resourceNames", TEXTS),
    ("nonResourceURLs", TEXTS),
    ("verbs", TEXTS),
]));
const BINDING: Shape = &[
    ("subjects", ListOf(&Fields(&[("kind", Text), ("name", Text), ("namespace", Text), ("apiGroup", Text)]))),
    ("roleRef", Fields(&[("kind", Text), ("name", Text), ("apiGroup", Text)])),
];

const SOURCE: Type = Fields(&[
    ("repoURL", Text),
    ("path", Text),
    ("targetRevision", Text),
    ("chart", Text),
    ("ref", Text),
    ("name", Text),
    ("tagPrefix", Text),
    ("directory", Fields(&[("recurse", Flag), ("include", Text), ("exclude", Text), ("jsonnet", ANY_MAP)])),
    ("helm", ANY_MAP),
    ("kustomize", ANY_MAP),
    ("plugin", ANY_MAP),
]);
const RETRY: Type = Fields(&[
    ("limit", Whole),
    ("refresh", Flag),
    ("backoff", Fields(&[("duration", Text), ("factor", Whole), ("maxDuration", Text)])),
]);
const SYNC_POLICY: Type = Fields(&[
    ("automated", Fields(&[("enabled", Flag), ("prune", Flag), ("selfHeal", Flag), ("allowEmpty", Flag)])),
    ("syncOptions", TEXTS),
    ("retry", RETRY),
    ("managedNamespaceMetadata", Fields(&[("labels", TEXT_MAP), ("annotations", TEXT_MAP)])),
]);
const INFOS: Type = ListOf(&Fields(&[("name", Text), ("value", Text)]));
/// As the custom resource definition has it.
const APPLICATION: Shape = &[(
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
        ("revisionHistoryLimit", Whole),
    ]),
)];

/// The kinds, whatever their version. `metadata` is checked when an object is made.
pub(super) const KINDS: &[(&str, &str, Shape)] = &[
    ("", "ConfigMap", &[("data", TEXT_MAP), ("binaryData", MapOf(&Base64)), ("immutable", Flag)]),
    (
        "",
        "Secret",
        &[("data", MapOf(&Base64)), ("stringData", TEXT_MAP), ("type", Text), ("immutable", Flag)],
    ),
    ("argoproj.io", "Application", APPLICATION),
    ("", "Service", &[("spec", SERVICE)]),
    (
        "",
        "ServiceAccount",
        &[("secrets", ANY_MAPS), ("imagePullSecrets", ANY_MAPS), ("automountServiceAccountToken", Flag)],
    ),
    ("", "Pod", &[("spec", POD)]),
    (
        "",
        "ReplicationController",
        &[("spec", Fields(&[("replicas", Whole), ("selector", TEXT_MAP), ("template", TEMPLATE)]))],
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
                ("minAvailable", WholeOrText),
                ("maxUnavailable", WholeOrText),
                ("selector", LABEL_SELECTOR),
            ]),
        )],
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        &[("spec", Fields(&[("minReplicas", Whole), ("maxReplicas", Whole), ("scaleTargetRef", ANY_MAP)]))],
    ),
    ("rbac.authorization.k8s.io", "Role", &[("rules", RULES)]),
    ("rbac.authorization.k8s.io", "ClusterRole", &[("rules", RULES), ("aggregationRule", ANY_MAP)]),
    ("rbac.authorization.k8s.io", "RoleBinding", BINDING),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", BINDING),
];
