{{/* The begin of all names: a StatefulSet may have 52 characters. */}}
{{- define "cairn.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "cairn.agent" -}}{{ include "cairn.fullname" . }}-agent{{- end -}}
{{- define "cairn.collector" -}}{{ include "cairn.fullname" . }}-collector{{- end -}}

{{/* Labels of an object: (list $ NAME). The last three are Helm's own. */}}
{{- define "cairn.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/part-of: cairn
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* What NetworkPolicies and PodMonitors select: all agents, also those of nodes with GPUs. (list $ COMPONENT) */}}
{{- define "cairn.component" -}}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end -}}

{{/* (list $ IMAGE) */}}
{{- define "cairn.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* "": none. */}}
{{- define "cairn.agentPriorityClass" -}}
{{- if .Values.agent.priorityClass.create -}}
{{ .Values.agent.priorityClass.name | default (include "cairn.agent" .) }}
{{- else -}}
{{ .Values.agent.priorityClass.name }}
{{- end -}}
{{- end -}}

{{/* Annotations of a pod: (list ANNOTATIONS DEFAULTS) */}}
{{- define "cairn.podAnnotations" -}}
{{- merge (deepCopy (index . 0)) (index . 1) | toYaml -}}
{{- end -}}

{{- define "cairn.collectorAddress" -}}
{{- if .Values.collector.enabled -}}
{{ include "cairn.collector" . }}.{{ .Release.Namespace }}.svc:7171
{{- else -}}
{{ required "agent.collector: with collector.enabled: false it must name a collector, HOST:PORT" .Values.agent.collector }}
{{- end -}}
{{- end -}}

{{/* Browsers send no other names. */}}
{{- define "cairn.httpHosts" -}}
{{- $name := include "cairn.collector" . -}}
{{- $inside := printf "%s.%s" $name .Release.Namespace -}}
{{- list $name $inside (printf "%s.svc" $inside) (printf "%s.svc.%s" $inside .Values.clusterDomain) | concat .Values.collector.httpHosts | uniq | join "," -}}
{{- end -}}

{{/* The agent's affinity: not to nodes with GPUs, which have a DaemonSet of their own. (list $ IS_GPU) */}}
{{- define "cairn.agentAffinity" -}}
{{- $values := (index . 0).Values -}}
{{- $affinity := $values.agent.affinity -}}
{{- if and $values.gpuNodes.enabled (not (index . 1)) -}}
{{- if $affinity.nodeAffinity -}}
{{- fail "agent.affinity.nodeAffinity cannot be set with gpuNodes.enabled: agent.nodeSelector can" -}}
{{- end -}}
{{- $expression := dict "key" $values.gpuNodes.label "operator" "NotIn" "values" (list "true") -}}
{{- $terms := list (dict "matchExpressions" (list $expression)) -}}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $affinity = merge (dict "nodeAffinity" $required) $affinity -}}
{{- end -}}
{{- if $affinity -}}
{{- toYaml $affinity -}}
{{- end -}}
{{- end -}}
