{{- /* What the names of objects have behind that of the release. */}}
{{- define "desched.app" -}}
{{- .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- /* The name of what the release has, unlike that of any other release or alias in the namespace. */}}
{{- define "desched.name" -}}
{{- $app := include "desched.app" . }}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name $app) (contains $app .Release.Name) }}
{{- $name = .Values.fullnameOverride | default $name }}
{{- if gt (len $name) 52 }}{{ printf "%s-%s" ($name | trunc 43 | trimSuffix "-") (sha256sum $name | trunc 8) }}
{{- else }}{{ $name }}{{ end }}
{{- end }}

{{- define "desched.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "desched.name" .) }}
{{- else }}{{ .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- /* The label app.kubernetes.io/name. Selectors have it, which cannot be changed, so no value is in it. Charts that
include this one twice give each an alias, which is .Chart.Name. */}}
{{- define "desched.label" -}}
{{- .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The labels that the pods of this release have, and no other pod of the namespace. */}}
{{- define "desched.selector" -}}
app.kubernetes.io/name: "{{ include "desched.label" . }}"
app.kubernetes.io/instance: "{{ .Release.Name }}"
app.kubernetes.io/component: {{ include "desched.component" . }}
{{- end }}

{{- define "desched.component" -}}
{{- if eq .Values.kind "Deployment" }}controller{{ else }}{{ lower .Values.kind }}{{ end }}
{{- end }}

{{- /* The labels of every object. */}}
{{- define "desched.labels" -}}
{{- $own := include "desched.selector" . | fromYaml }}
{{- $_ := set $own "app.kubernetes.io/part-of" "reactive-desched" }}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- merge dict (.Values.commonLabels | default dict) $own | toYaml }}
{{- end }}

{{- /* The metadata of the object `name` of the release `of`; of the whole cluster, if `clusterScoped`. */}}
{{- define "desched.metadata" -}}
name: "{{ .name }}"
{{- if not .clusterScoped }}
namespace: {{ .namespace | default .of.Release.Namespace | quote }}
{{- end }}
labels: {{- merge dict (.labels | default dict) (include "desched.labels" .of | fromYaml) | toYaml | nindent 2 }}
{{- with merge dict (.annotations | default dict) (.of.Values.commonAnnotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The name of what belongs to the whole cluster, where each namespace may have a release of this name. */}}
{{- define "desched.clusterName" -}}
{{- $name := include "desched.name" . }}
{{- if eq $name .Release.Namespace }}{{ $name }}{{ else }}{{ .Release.Namespace }}:{{ $name }}{{ end }}
{{- end }}

{{- define "desched.tls" -}}
{{- if ((.Values.settings.server).tls).certFile }}true{{ end }}
{{- end }}

{{- define "desched.requiresToken" -}}
{{- if (.Values.settings.server).requireToken }}true{{ end }}
{{- end }}

{{- /* Of several replicas the journal is on a volume that they share. Modes cannot be changed, so it is another claim. */}}
{{- define "desched.claim" -}}
{{- $name := include "desched.name" . }}
{{- if .Values.persistence.existingClaim }}{{ .Values.persistence.existingClaim }}
{{- else if ne .Values.kind "Deployment" }}{{ $name }}-{{ lower .Values.kind }}-journal
{{- else if and (include "desched.elects" .) (not .Values.persistence.accessModes) }}{{ $name }}-journal-shared
{{- else }}{{ $name }}-journal{{ end }}
{{- end }}

{{- /* What the cluster has of the chart's claim: one that was kept, or of the revision before; empty in `helm template`. */}}
{{- define "desched.claimThere" -}}
{{- if and .Values.persistence.enabled (not .Values.persistence.existingClaim) }}
{{- lookup "v1" "PersistentVolumeClaim" .Release.Namespace (include "desched.claim" .) | toYaml }}
{{- else }}{}{{ end }}
{{- end }}

{{- define "desched.elects" -}}
{{- if and (eq .Values.kind "Deployment") (gt (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{- /* The pod template of every kind. */}}
{{- define "desched.pod" -}}
{{- $labels := set (include "desched.selector" . | fromYaml) "app.kubernetes.io/part-of" "reactive-desched" }}
metadata:
  labels: {{- merge dict (.Values.podLabels | default dict) (.Values.commonLabels | default dict) $labels | toYaml | nindent 4 }}
  {{- $annotations := .Values.podAnnotations | default dict }}
  {{- if eq .Values.kind "Deployment" }}
  {{- /* A change of them restarts the pod: a reload would keep the old ones. */}}
  {{- $read := include "desched.readAtStart" . | sha256sum }}
  {{- $annotations = merge (dict "reactive-desched/read-at-start" $read) $annotations }}
  {{- end }}
  {{- with $annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if ne .Values.kind "Deployment" }}
  restartPolicy: Never
  {{- end }}
  serviceAccountName: "{{ include "desched.account" . }}"
  {{- if eq (toString .Values.automountServiceAccountToken) "false" }}
  automountServiceAccountToken: false
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ if kindIs "map" . }}{{ .name | quote }}{{ else }}{{ quote . }}{{ end }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: "{{ . }}"
  {{- end }}
  # Evictions that were begun are written down to their end before the process leaves.
  terminationGracePeriodSeconds: 30
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.dnsPolicy }}
  dnsPolicy: "{{ . }}"
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
  {{- else if include "desched.elects" . }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: DoNotSchedule
      labelSelector:
        matchLabels: {{- include "desched.selector" . | nindent 10 }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "desched.selector" . | nindent 10 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: reactive-desched
      {{- with .Values.image }}
      image: {{ if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
      imagePullPolicy: {{ .pullPolicy }}
      {{- end }}
      args:
        - run
        {{- if ne .Values.kind "Deployment" }}
        - --once
        {{- end }}
        - --policy
        - /etc/reactive-desched/policy.yaml
        {{- if eq .Values.kind "Deployment" }}
        - --listen
        - 0.0.0.0:10258
        - --health-probe-bind-address
        - 0.0.0.0:8081
        {{- end }}
        - --log-format
        - json
        {{- if .Values.dryRun }}
        - --dry-run
        {{- end }}
        {{- if include "desched.elects" . }}
        - --leader-elect
        - --leader-elect-resource-namespace={{ .Release.Namespace }}
        - --leader-elect-resource-name={{ include "desched.name" . }}
        {{- end }}
        {{- with .Values.extraArgs }}{{ toYaml . | nindent 8 }}{{ end }}
      env:
        # Every command in this container finds the journal here, in the folder `journal`.
        - name: STATE_DIRECTORY
          value: /var/lib/reactive-desched
        {{- if eq .Values.kind "Deployment" }}
        # The controller writes Events about its policy on this pod.
        {{- range $name, $path := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" "POD_UID" "metadata.uid" }}
        - name: "{{ $name }}"
          valueFrom:
            fieldRef:
              fieldPath: {{ $path }}
        {{- end }}
        {{- end }}
        {{- with concat (.Values.env | default list) (.Values.extraEnv | default list) }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with .Values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if eq .Values.kind "Deployment" }}
      ports:
        - name: http
          containerPort: 10258
        - name: probes
          containerPort: 8081
      # A long journal is read before the first answer.
      startupProbe:
        httpGet:
          path: /livez
          port: probes
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet:
          path: /livez
          port: probes
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /readyz
          port: probes
        periodSeconds: 5
      {{- end }}
      {{- with .Values.resources }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.securityContext }}
      securityContext: {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: policy
          mountPath: /etc/reactive-desched
          readOnly: true
        - name: journal
          mountPath: /var/lib/reactive-desched/journal
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
    {{- with .Values.extraContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
    - name: policy
      configMap:
        name: "{{ include "desched.name" . }}"
    - name: journal
      {{- if .Values.persistence.enabled }}
      persistentVolumeClaim:
        claimName: "{{ include "desched.claim" . }}"
      {{- else }}
      emptyDir:
        sizeLimit: {{ .Values.persistence.size }}
      {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{- /* How migration jobs are carried out, by the settings or by a profile's MigrationController; empty without jobs. */}}
{{- define "desched.migration" -}}
{{- $found := get .Values.settings "migration" }}
{{- range .Values.policy.profiles }}
{{- if has "MigrationController" (((.).plugins).evict).enabled }}
{{- $args := dict }}
{{- range .pluginConfig }}
{{- if eq .name "MigrationController" }}{{ $args = .args | default dict }}{{ end }}
{{- end }}
{{- $found = merge (ternary $found dict (kindIs "map" $found) | deepCopy) $args }}
{{- end }}
{{- end }}
{{- if kindIs "map" $found }}{{ $found | toJson }}{{ end }}
{{- end }}

{{- /* The settings that the controller reads at its start only, as they are written. */}}
{{- define "desched.readAtStart" -}}
{{- $found := dict }}
{{- range $path := .Files.Get "files/restart-settings.yaml" | fromYamlArray }}
{{- $value := $.Values.settings }}
{{- range splitList "." $path }}
{{- if kindIs "map" $value }}{{ $value = get $value . }}{{ else }}{{ $value = "" }}{{ end }}
{{- end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}{{ $_ := set $found $path $value }}{{ end }}
{{- end }}
{{- with include "desched.migration" . }}{{ $_ := set $found "migration" . }}{{ end }}
{{- $found | toJson }}
{{- end }}

{{- define "desched.job" -}}
# Status 2 means that the policy, the settings or a flag is wrong: trying again cannot help.
# A pod that was itself evicted tries again without being counted.
backoffLimit: 2
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes:
        operator: In
        values: [2]
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
activeDeadlineSeconds: {{ int .Values.activeDeadlineSeconds }}
template: {{- include "desched.pod" . | nindent 2 }}
{{- end }}

{{- /* The ports of the addresses in `settings`, `policy` and variables: URLs, and brokers as host:port. */}}
{{- define "desched.servicePorts" -}}
{{- $text := tuple .Values.settings .Values.policy .Values.env .Values.extraEnv | toJson }}
{{- $ports := .Values.networkPolicy.egress.services.ports }}
{{- range regexFindAll `https?://[^"/?#]+` $text -1 }}
  {{- $named := regexFind `:[0-9]+$` . }}
  {{- $usual := hasPrefix "https:" . | ternary ":443" ":80" }}
  {{- $ports = append $ports (trimPrefix ":" ($named | default $usual) | int) }}
{{- end }}
{{- range regexFindAll `"brokers":(\[("[^"]*",?)*\]|"[^"]*")` $text -1 }}
  {{- range regexFindAll `:[0-9]+[",]` . -1 }}
    {{- $ports = append $ports (regexFind `[0-9]+` . | int) }}
  {{- end }}
{{- end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{- /* Sets each default of the second map that the first has no value for, sections within too. */}}
{{- define "desched.fill" -}}
{{- $values := index . 0 }}
{{- range $key, $default := index . 1 }}
{{- if not (hasKey $values $key) }}
{{- $_ := set $values $key $default }}
{{- else if and (kindIs "map" $default) (kindIs "map" (get $values $key)) }}
{{- include "desched.fill" (tuple (get $values $key) $default) }}
{{- end }}
{{- end }}
{{- end }}
