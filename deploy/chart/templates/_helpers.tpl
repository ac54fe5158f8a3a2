{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidegate.name" -}}
{{- if contains "tidegate" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-tidegate" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tidegate.secretsNamespace" -}}
{{- if kindIs "invalid" .Values.secretsNamespace }}{{ .Values.controlNamespace }}{{ else }}{{ .Values.secretsNamespace }}{{ end }}
{{- end }}

{{- define "tidegate.tokens" -}}
{{- if .Values.tokens.lines }}{{ include "tidegate.name" . }}-tokens{{ else }}{{ required "set tokens.existingSecret or tokens.lines: the service doesn't start without tokens" .Values.tokens.existingSecret }}{{ end }}
{{- end }}

{{- define "tidegate.isReplicated" -}}
{{- if gt (int .Values.replicas) 1 }}true{{ end }}
{{- end }}

{{- define "tidegate.sharedLog" -}}
{{- if include "tidegate.isReplicated" . }}{{ required "set sharedLog.existingSecret: with replicas > 1, the services share an operation log in PostgreSQL" .Values.sharedLog.existingSecret }}{{ else }}{{ .Values.sharedLog.existingSecret }}{{ end }}
{{- end }}

{{- define "tidegate.pod" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (not (empty .Values.tls.existingSecret)) -}}
{{- $sharedLog := include "tidegate.sharedLog" . -}}
metadata:
  labels:
    {{- include "tidegate.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "tidegate.name" . }}
  terminationGracePeriodSeconds: {{ ternary 60 30 (not (empty $sharedLog)) }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    # Prevents Kubernetes from changing the permissions of the state directory, which only its owner can read.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: tidegate
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        {{- range .Values.appNamespaces }}
        - {{ printf "--app-namespace=%s" . | quote }}
        {{- end }}
        {{- if or .Values.standby $sharedLog }}
        - --standby
        {{- end }}
        {{- if $sharedLog }}
        - --log-password=/etc/tidegate-log/password
        - {{ printf "--advertise=%s://%s:8480" (lower $scheme) (ternary "[$(POD_IP)]" "$(POD_IP)" .Values.ipv6) | quote }}
        {{- end }}
        {{- with .Values.secretsNamespace }}
        - {{ printf "--secrets-namespace=%s" . | quote }}
        {{- end }}
        {{- if .Values.onlyLabelled }}
        - --only-labelled
        {{- end }}
        {{- if .Values.impersonation.enabled }}
        - --impersonate
        {{- end }}
        {{- range .Values.execCredentials.allow }}
        - {{ printf "--allow-exec-credentials=%s" . | quote }}
        {{- end }}
        {{- range .Values.remoteBases.allow }}
        - {{ printf "--allow-remote-bases=%s" . | quote }}
        {{- end }}
        {{- range .Values.chartDependencies.allow }}
        - {{ printf "--allow-chart-dependencies=%s" . | quote }}
        {{- end }}
        - {{ printf "--listen=%s:8480" (ternary "[::]" "0.0.0.0" .Values.ipv6) | quote }}
        - --tokens=/etc/tidegate/tokens
        {{- if .Values.oidc.existingSecret }}
        - --oidc=/etc/tidegate-oidc/oidc.yaml
        {{- end }}
        {{- if .Values.webhooks.existingSecret }}
        - --webhook-secrets=/etc/tidegate-webhooks
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - --tls-cert=/etc/tidegate-tls/tls.crt
        - --tls-key=/etc/tidegate-tls/tls.key
        {{- if $sharedLog }}
        - {{ printf "--peer-name=%s" (required "set tls.serverName: services that share a log verify this name in each other's certificates" .Values.tls.serverName) | quote }}
        {{- if .Values.tls.privateAuthority }}
        - --peer-ca=/etc/tidegate-tls/ca.crt
        {{- end }}
        {{- end }}
        {{- end }}
        {{- with .Values.tracing.endpoint }}
        - {{ printf "--otlp=%s" . | quote }}
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        # The state directory is a subfolder, because Kubernetes gives the group access to the root of the volume.
        - name: TIDEGATE_STATE_DIR
          value: /var/lib/tidegate/state
        # The control namespace applies to all commands in the pod.
        - name: TIDEGATE_CONTROL_NAMESPACE
          value: {{ .Values.controlNamespace | quote }}
        {{- with $sharedLog }}
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        # URL and key of the shared log. Commands in the pod use them as well.
        - name: TIDEGATE_LOG_URL
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: url
        - name: TIDEGATE_LOG_KEY
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: key
        {{- end }}
        {{- with .Values.tracing.existingSecret }}
        - name: OTEL_EXPORTER_OTLP_HEADERS
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: headers
        {{- end }}
      ports:
        - name: http
          containerPort: 8480
      startupProbe:
        httpGet:
          path: /healthz
          port: http
          scheme: {{ $scheme }}
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet:
          path: /healthz
          port: http
          scheme: {{ $scheme }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /readyz
          port: http
          scheme: {{ $scheme }}
        periodSeconds: 5
      {{- if and (include "tidegate.isReplicated" .) (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}
      # Gives proxies time to stop sending requests to the pod. Earlier versions of Kubernetes can sleep only with a program in the
      # image, which has none.
      lifecycle:
        preStop:
          sleep:
            seconds: 5
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: state
          mountPath: /var/lib/tidegate
        - name: tokens
          mountPath: /etc/tidegate
          readOnly: true
        {{- if $sharedLog }}
        - name: log
          mountPath: /etc/tidegate-log
          readOnly: true
        {{- end }}
        {{- if .Values.oidc.existingSecret }}
        - name: oidc
          mountPath: /etc/tidegate-oidc
          readOnly: true
        {{- end }}
        {{- if .Values.webhooks.existingSecret }}
        - name: webhooks
          mountPath: /etc/tidegate-webhooks
          readOnly: true
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /etc/tidegate-tls
          readOnly: true
        {{- end }}
        - name: tmp
          mountPath: /tmp
  volumes:
    - name: tokens
      secret:
        secretName: {{ include "tidegate.tokens" . }}
        defaultMode: 0440
    {{- with $sharedLog }}
    - name: log
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.oidc.existingSecret }}
    - name: oidc
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.webhooks.existingSecret }}
    - name: webhooks
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    - name: tmp
      emptyDir: {}
    {{- if include "tidegate.isReplicated" . }}
    # The shared log contains everything that must outlive the pod.
    - name: state
      emptyDir: {}
    {{- end }}
  {{- if include "tidegate.isReplicated" . }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- toYaml . | nindent 6 }}
      {{- if not .labelSelector }}
      labelSelector:
        matchLabels:
          {{- include "tidegate.selector" $ | nindent 10 }}
      {{- end }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
