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

{{- define "tidegate.pod" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (not (empty .Values.tls.existingSecret)) -}}
metadata:
  labels:
    {{- include "tidegate.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "tidegate.name" . }}
  terminationGracePeriodSeconds: 30
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
        {{- if .Values.standby }}
        - --standby
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
        - --listen=0.0.0.0:8480
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
