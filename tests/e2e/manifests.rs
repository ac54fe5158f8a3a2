//! Small manifests that sync quickly.

/// Manifests with every phase, four waves and three hooks. A sync takes about a third of a second.
pub const FAST: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: before
  annotations:
    argocd.argoproj.io/hook: PreSync
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation
    sim.tidegate.dev/ready-after: 60ms
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {mode: fast}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: server
  annotations:
    argocd.argoproj.io/sync-wave: "1"
    sim.tidegate.dev/ready-after: 80ms
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      containers: [{name: main, image: nginx}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: middle
  annotations:
    argocd.argoproj.io/hook: Sync
    argocd.argoproj.io/sync-wave: "2"
    argocd.argoproj.io/hook-delete-policy: HookSucceeded
    sim.tidegate.dev/ready-after: 60ms
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: after
  annotations:
    argocd.argoproj.io/hook: PostSync
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation,HookSucceeded
    sim.tidegate.dev/ready-after: 60ms
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox}]
"#;

/// The hooks of [`FAST`].
pub const FAST_HOOKS: [&str; 3] = ["before", "middle", "after"];

/// A hook, followed by a wave that waits for a user action.
pub const STUCK: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: before
  annotations:
    argocd.argoproj.io/hook: PreSync
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation
    sim.tidegate.dev/ready-after: 20ms
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: server
  annotations:
    tidegate.dev/wave-timeout: 10m
    sim.tidegate.dev/outcome: never-ready
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      containers: [{name: main, image: nginx}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: later
  annotations: {argocd.argoproj.io/sync-wave: "1"}
"#;

/// An object that cannot fail.
pub const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {a: b}\n";

/// A hook that takes some seconds, followed by a ConfigMap.
pub const SLOW: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: slow
  annotations:
    argocd.argoproj.io/hook: PreSync
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation
    sim.tidegate.dev/ready-after: 2s
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
"#;

/// Definition of the custom resource `Gadget`.
pub const GADGET_DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// Returns a Job that is a hook in this phase, with more annotations separated by commas.
pub fn hook(name: &str, phase: &str, annotations: &str) -> String {
    format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{argocd.argoproj.io/hook: {phase}, {annotations}}}
spec:
  backoffLimit: 0
  template:
    spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox}}]}}
"
    )
}
