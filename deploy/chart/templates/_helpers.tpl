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
