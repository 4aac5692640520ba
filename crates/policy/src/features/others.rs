//! The gates of Kubernetes 1.36 that change nothing here. They are accepted, so that the command line of a kube-apiserver
//! starts, and a name that is in no table is a typo.

/// The values that a gate without effect accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// Both values.
    Open,
    /// `true` alone: Kubernetes locks it.
    Locked,
    /// `true` alone: what it protects from is refused here always.
    Protects,
}

/// Returns what a gate of this name may be set to; none for a name that is not in the tables.
pub(super) fn find(name: &str) -> Option<Other> {
    let is_in = |table: &str| table.split_ascii_whitespace().any(|known| known == name);
    [(OPEN, Other::Open), (LOCKED, Other::Locked), (PROTECTS, Other::Protects)]
        .into_iter()
        .find_map(|(table, other)| is_in(table).then_some(other))
}

const OPEN: &str = "
    AggregatedDiscoveryRemoveBetaType AllowDNSOnlyNodeCSR AllowOverwriteTerminationGracePeriodSeconds
    AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion APIResponseCompression APIServerIdentity
    APIServingWithRoutine AtomicFIFO CBORServingAndStorage ClearingNominatedNodeNameAfterBinding
    ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
    ClusterTrustBundleProjection ConcurrentWatchObjectDecode ContainerCheckpoint ContainerRestartRules
    ContainerStopSignals ContextualLogging ControllerManagerReleaseLeaderElectionLockOnExit
    CoordinatedLeaderElection CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions
    CRDObservedGenerationTracking CRIListStreaming CrossNamespaceVolumeDataSource CSIServiceAccountTokenSecrets
    CSIVolumeHealth CustomCPUCFSQuotaPeriod DeclarativeValidation DeclarativeValidationBeta
    DeclarativeValidationTakeover DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
    DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion DRAAdminAccess DRAConsumableCapacity
    DRADeviceBindingConditions DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices
    DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout EnvFiles EventedPLEG
    ExecProbeTimeout ExtendWebSocketsToKubelet ExternalServiceAccountTokenSigner GangScheduling
    GitRepoVolumeDriver GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HostnameOverride
    HPAConfigurableTolerance HPAScaleToZero ImageMaximumGCAge ImageVolume ImageVolumeWithDigest InOrderInformers
    InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
    InPlacePodVerticalScalingAllocatedStatus InPlacePodVerticalScalingExclusiveCPUs
    InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingInitContainers JobManagedBy KMSv1
    KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletInUserNamespace
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletPodResourcesListUseActivePods KubeletPSI
    KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC LegacySidecarContainers ListFromCacheSnapshot
    LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions LoggingBetaOptions
    ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS
    MutableCSINodeAllocatableCount MutablePodResourcesForSuspendedJobs MutablePVNodeAffinity
    MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy NativeHistograms NodeDeclaredFeatures
    NodeLogQuery NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching
    PersistentVolumeClaimUnusedSinceTime PLEGOnDemandRelist PodAndContainerStatsFromCRI PodDeletionCost
    PodLevelResourceManagers PodLevelResources PodLifecycleSleepAction PodLifecycleSleepActionAllowZero
    PodLogsQuerySplitStreams PodObservedGenerationTracking PodReadyToStartContainersCondition PodsAPI
    PodTopologyLabelsAdmission PortForwardWebsockets PreferSameTrafficDistribution ProcMountType QOSReserved
    ReduceDefaultCrashLoopBackOffDecay RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate RuntimeClassInImageCriApi
    SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ SELinuxMount
    SELinuxMountReadWriteOncePod SeparateCacheWatchRPC ShardedListAndWatch SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageCapacityScoring
    StorageNamespaceIndex StorageVersionHash StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    SupplementalGroupsPolicy SystemdWatchdog TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling
    TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions
    TranslateStreamCloseWebsocketRequests UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
    UserNamespacesHostNetworkSupport UserNamespacesPodSecurityStandards UserNamespacesSupport VolumeLimitScaling
    WatchCacheInitializationPostStartHook WatchList WatchListClient WindowsCPUAndMemoryAffinity
    WindowsGracefulNodeShutdown WindowsHostNetwork WinDSR WinOverlay WorkloadAwarePreemption
";

const LOCKED: &str = "
    AnonymousAuthConfigurableEndpoints AnyVolumeDataSource APIServerTracing BtreeWatchCache ComponentSLIs
    ConsistentListFromCache CPUManagerPolicyOptions CRDValidationRatcheting CronJobsScheduledAnnotation
    CSIMigrationPortworx CustomResourceFieldSelectors DevicePluginCDIDevices DisableAllocatorDualWrite
    HonorPVReclaimPolicy JobBackoffLimitPerIndex JobPodReplacementPolicy JobSuccessPolicy KubeletTracing
    LoadBalancerIPMode LogarithmicScaleDown MatchLabelKeysInPodAffinity MemoryManager NFTablesProxyMode
    NodeInclusionPolicyInPodTopologySpread NodeSwap OrderedNamespaceDeletion PodIndexLabel PodSchedulingReadiness
    RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SeparateTaintEvictionController
    ServiceAccountTokenJTI ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
    ServiceAccountTokenPodNodeInfo ServiceTrafficDistribution SidecarContainers SizeMemoryBackedVolumes
    StatefulSetAutoDeletePVC StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
    StrictCostEnforcementForVAP StrictCostEnforcementForWebhooks StructuredAuthenticationConfiguration
    StructuredAuthorizationConfiguration TopologyAwareHints
";

const PROTECTS: &str = "
    AuthorizePodWebsocketUpgradeCreatePermission ConstrainedImpersonation PreventStaticPodAPIReferences
    TokenRequestServiceAccountUIDValidation UnauthenticatedHTTP2DOSMitigation
";
