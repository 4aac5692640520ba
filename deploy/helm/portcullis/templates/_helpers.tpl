{{/* Metadata of an object: root, name; namespace, labels, annotations. */}}
{{- define "portcullis.metadata" -}}
name: {{ .name | quote }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  app.kubernetes.io/name: {{ .root.Chart.Name }}
  app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  app.kubernetes.io/part-of: portcullis
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The service account of a part: root, part (its values), name, namespace. */}}
{{- define "portcullis.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "portcullis.metadata" (dict "root" .root "name" .name "namespace" .namespace "annotations" .part.serviceAccount.annotations) | nindent 2 }}
{{- end }}

{{/* A binding of a role to a service account: root, kind of the role, name of both, account, its namespace (of); namespace of a Role. */}}
{{- define "portcullis.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  {{- include "portcullis.metadata" (dict "root" .root "name" .name "namespace" .namespace) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ .of | quote }}
{{- end }}

{{/* Metadata of the pods of a part: part, name. */}}
{{- define "portcullis.podMetadata" -}}
labels:
  app: {{ .name }}
  {{- with .part.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .part.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* As whom and where the pods of a part run: root, part, name. */}}
{{- define "portcullis.pod" -}}
serviceAccountName: {{ .name }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the container of a part runs: root, part, command. */}}
{{- define "portcullis.container" -}}
image: {{ .root.Values.image.repository }}
{{- with .root.Values.image.tag }}:{{ . }}{{ end }}
{{- with .root.Values.image.digest }}@{{ . }}{{ end }}
{{- with .root.Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
args:
- {{ .command }}
{{- range concat .part.args .part.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- with .part.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* No root, no capability, nothing to write to. */}}
{{- define "portcullis.restricted" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  runAsUser: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}
