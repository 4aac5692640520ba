//! The values of fields that have a fixed set of them: the types that the Go sources of the API mark `+enum`.
//!
//! The OpenAPI documents and validation share these lists. A list has the order in which Kubernetes names the values in
//! an error; the documents sort them. Where validation accepts less than the type has, it has a list of its own.

/// `AddressType` of an EndpointSlice.
pub const ADDRESS_TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
/// `AzureDataDiskCachingMode` of a volume.
pub const AZURE_CACHING_MODES: &[&str] = &["None", "ReadOnly", "ReadWrite"];
/// `AzureDataDiskKind` of a volume.
pub const AZURE_DISK_KINDS: &[&str] = &["Dedicated", "Managed", "Shared"];
/// `PersistentVolumeClaimPhase`.
pub const CLAIM_PHASES: &[&str] = &["Bound", "Lost", "Pending"];
/// `ClaimResourceStatus`: how far the resizing of a claim is.
pub const CLAIM_RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];
/// `CompletionMode` of a Job.
pub const COMPLETION_MODES: &[&str] = &["Indexed", "NonIndexed"];
/// `ConcurrencyPolicy` of a CronJob.
pub const CONCURRENCY_POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];
/// `DaemonSetUpdateStrategyType`.
pub const DAEMON_SET_STRATEGIES: &[&str] = &["OnDelete", "RollingUpdate"];
/// `DeploymentStrategyType`.
pub const DEPLOYMENT_STRATEGIES: &[&str] = &["Recreate", "RollingUpdate"];
/// `DeviceTaintEffect`.
pub const DEVICE_TAINT_EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
/// `DeviceTolerationOperator`.
pub const DEVICE_TOLERATION_OPERATORS: &[&str] = &["Equal", "Exists"];
/// `DNSPolicy` of a pod.
pub const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
/// `UnhealthyPodEvictionPolicyType` of a PodDisruptionBudget.
pub const EVICTION_POLICIES: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];
/// `FailurePolicyType` of webhooks and policies.
pub const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
/// `PodFSGroupChangePolicy`.
pub const FS_GROUP_CHANGE_POLICIES: &[&str] = &["Always", "OnRootMismatch"];
/// `HostPathType`. The empty one is not checked.
pub const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// `IPFamily` of a service. The empty one is that of an address of neither family.
pub const IP_FAMILIES: &[&str] = &["", "IPv4", "IPv6"];
/// `IPFamilyPolicy` of a service.
pub const IP_FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
/// `PodFailurePolicyAction` of a Job.
pub const JOB_FAILURE_ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
/// `KeyUsage` of a certificate request (CS-12).
pub const KEY_USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// `MatchPolicyType` of webhooks and policies.
pub const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
/// `PersistentVolumeClaimModifyVolumeStatus`.
pub const MODIFY_VOLUME_STATUSES: &[&str] = &["InProgress", "Infeasible", "Pending"];
/// `MountPropagationMode`.
pub const MOUNT_PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
/// `NamespacePhase`.
pub const NAMESPACE_PHASES: &[&str] = &["Active", "Terminating"];
/// `PolicyType` of a NetworkPolicy.
pub const NETWORK_POLICY_TYPES: &[&str] = &["Egress", "Ingress"];
/// `NodeInclusionPolicy` of a spread constraint.
pub const NODE_INCLUSION_POLICIES: &[&str] = &["Honor", "Ignore"];
/// `NodePhase`.
pub const NODE_PHASES: &[&str] = &["Pending", "Running", "Terminated"];
/// `NodeSelectorOperator`.
pub const NODE_SELECTOR_OPERATORS: &[&str] = &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"];
/// `OperationType` of a rule.
pub const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// `ParameterNotFoundActionType` of the binding of a policy.
pub const PARAMETER_NOT_FOUND_ACTIONS: &[&str] = &["Allow", "Deny"];
/// `PatchType` of a mutation.
pub const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
/// `PathType` of an Ingress.
pub const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
/// `PodManagementPolicyType` of a StatefulSet.
pub const POD_MANAGEMENT_POLICIES: &[&str] = &["OrderedReady", "Parallel"];
/// `PodPhase`.
pub const POD_PHASES: &[&str] = &["Failed", "Pending", "Running", "Succeeded", "Unknown"];
/// `PodReplacementPolicy` of a Job.
pub const POD_REPLACEMENT_POLICIES: &[&str] = &["Failed", "TerminatingOrFailed"];
/// `PreemptionPolicy` of pods and priority classes.
pub const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];
/// `ProcMountType` of a container.
pub const PROC_MOUNTS: &[&str] = &["Default", "Unmasked"];
/// `SeccompProfileType` and `AppArmorProfileType`.
pub const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
/// `Protocol` of a port.
pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
/// `PullPolicy` of an image.
pub const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
/// `PodQOSClass`.
pub const QOS_CLASSES: &[&str] = &["BestEffort", "Burstable", "Guaranteed"];
/// `ResourceQuotaScope`.
pub const QUOTA_SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// `PersistentVolumeReclaimPolicy`.
pub const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
/// `ReinvocationPolicyType` of webhooks and policies.
pub const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
/// `RestartPolicy` of a pod.
pub const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
/// `ScopeType` of a rule.
pub const RULE_SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
/// `ScopeSelectorOperator` of a ResourceQuota.
pub const SCOPE_OPERATORS: &[&str] = &["DoesNotExist", "Exists", "In", "NotIn"];
/// `ServiceAffinity`.
pub const SESSION_AFFINITIES: &[&str] = &["ClientIP", "None"];
/// `ServiceType`.
pub const SERVICE_TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
/// `PodFailurePolicyOnExitCodesOperator` of a Job.
pub const SET_OPERATORS: &[&str] = &["In", "NotIn"];
/// `SideEffectClass` of a webhook.
pub const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
/// `StatefulSetUpdateStrategyType`.
pub const STATEFUL_SET_STRATEGIES: &[&str] = &["OnDelete", "RollingUpdate"];
/// `SupplementalGroupsPolicy` of a pod.
pub const SUPPLEMENTAL_GROUPS_POLICIES: &[&str] = &["Merge", "Strict"];
/// `TaintEffect`.
pub const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// `TerminationMessagePolicy` of a container.
pub const TERMINATION_MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
/// `TolerationOperator`. `Gt` and `Lt` need a feature gate.
pub const TOLERATION_OPERATORS: &[&str] = &["Equal", "Exists", "Gt", "Lt"];
/// `ServiceInternalTrafficPolicy` and `ServiceExternalTrafficPolicy`.
pub const TRAFFIC_POLICIES: &[&str] = &["Cluster", "Local"];
/// `UnsatisfiableConstraintAction` of a spread constraint.
pub const UNSATISFIABLE_ACTIONS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
/// `URIScheme` of a probe.
pub const URI_SCHEMES: &[&str] = &["HTTP", "HTTPS"];
/// `ValidationAction` of the binding of a policy.
pub const VALIDATION_ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
/// `PersistentVolumeAccessMode`.
pub const VOLUME_ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// `VolumeBindingMode` of a StorageClass.
pub const VOLUME_BINDING_MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];
/// `PersistentVolumeMode`.
pub const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
/// `PersistentVolumePhase`.
pub const VOLUME_PHASES: &[&str] = &["Available", "Bound", "Failed", "Pending", "Released"];
