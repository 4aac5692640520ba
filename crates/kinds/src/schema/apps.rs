//! Schemas of workloads: deployments, their replica sets, stateful sets, daemon sets and revisions.

use crate::schema::Shape::{Any, Bool, Int32, Int64, IntOrString, List, Object, Text, Time};
use crate::schema::core::claim::PERSISTENT_VOLUME_CLAIM;
use crate::schema::core::pod::POD_TEMPLATE_SPEC;
use crate::schema::meta::LABEL_SELECTOR;
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "apps/v1";
    ControllerRevision CONTROLLER_REVISION object {
        always("data", 2, Any),
        always("revision", 3, Int64),
    }
    DaemonSet DAEMON_SET object {
        always("spec", 2, Object(&DAEMON_SET_SPEC)),
        always("status", 3, Object(&DAEMON_SET_STATUS)),
    }
    Deployment DEPLOYMENT object {
        always("spec", 2, Object(&DEPLOYMENT_SPEC)),
        always("status", 3, Object(&DEPLOYMENT_STATUS)),
    }
    ReplicaSet REPLICA_SET object {
        always("spec", 2, Object(&REPLICA_SET_SPEC)),
        always("status", 3, Object(&REPLICA_SET_STATUS)),
    }
    StatefulSet STATEFUL_SET object {
        always("spec", 2, Object(&STATEFUL_SET_SPEC)),
        always("status", 3, Object(&STATEFUL_SET_STATUS)),
    }
    DaemonSetSpec DAEMON_SET_SPEC {
        or_null("selector", 1, Object(&LABEL_SELECTOR)).required(),
        always("template", 2, Object(&POD_TEMPLATE_SPEC)).required(),
        always("updateStrategy", 3, Object(&DAEMON_SET_UPDATE_STRATEGY)),
        unless_zero("minReadySeconds", 4, Int32),
        when_set("revisionHistoryLimit", 6, Int32),
    }
    DaemonSetStatus DAEMON_SET_STATUS {
        always("currentNumberScheduled", 1, Int32),
        always("numberMisscheduled", 2, Int32),
        always("desiredNumberScheduled", 3, Int32),
        always("numberReady", 4, Int32),
        unless_zero("observedGeneration", 5, Int64),
        unless_zero("updatedNumberScheduled", 6, Int32),
        unless_zero("numberAvailable", 7, Int32),
        unless_zero("numberUnavailable", 8, Int32),
        when_set("collisionCount", 9, Int32),
        unless_zero("conditions", 10, List(&Object(&DAEMON_SET_CONDITION))).by_key("type"),
    }
    DeploymentSpec DEPLOYMENT_SPEC {
        when_set("replicas", 1, Int32),
        or_null("selector", 2, Object(&LABEL_SELECTOR)).required(),
        always("template", 3, Object(&POD_TEMPLATE_SPEC)).required(),
        always("strategy", 4, Object(&DEPLOYMENT_STRATEGY)).retaining(),
        unless_zero("minReadySeconds", 5, Int32),
        when_set("revisionHistoryLimit", 6, Int32),
        unless_zero("paused", 7, Bool),
        when_set("progressDeadlineSeconds", 9, Int32),
    }
    DeploymentStatus DEPLOYMENT_STATUS {
        unless_zero("observedGeneration", 1, Int64),
        unless_zero("replicas", 2, Int32),
        unless_zero("updatedReplicas", 3, Int32),
        unless_zero("readyReplicas", 7, Int32),
        unless_zero("availableReplicas", 4, Int32),
        unless_zero("unavailableReplicas", 5, Int32),
        when_set("terminatingReplicas", 9, Int32),
        unless_zero("conditions", 6, List(&Object(&DEPLOYMENT_CONDITION))).by_key("type"),
        when_set("collisionCount", 8, Int32),
    }
    ReplicaSetSpec REPLICA_SET_SPEC {
        when_set("replicas", 1, Int32),
        unless_zero("minReadySeconds", 4, Int32),
        or_null("selector", 2, Object(&LABEL_SELECTOR)).required(),
        always("template", 3, Object(&POD_TEMPLATE_SPEC)),
    }
    ReplicaSetStatus REPLICA_SET_STATUS {
        always("replicas", 1, Int32),
        unless_zero("fullyLabeledReplicas", 2, Int32),
        unless_zero("readyReplicas", 4, Int32),
        unless_zero("availableReplicas", 5, Int32),
        when_set("terminatingReplicas", 7, Int32),
        unless_zero("observedGeneration", 3, Int64),
        unless_zero("conditions", 6, List(&Object(&REPLICA_SET_CONDITION))).by_key("type"),
    }
    StatefulSetSpec STATEFUL_SET_SPEC {
        when_set("replicas", 1, Int32),
        or_null("selector", 2, Object(&LABEL_SELECTOR)).required(),
        always("template", 3, Object(&POD_TEMPLATE_SPEC)).required(),
        unless_zero("volumeClaimTemplates", 4, List(&Object(&PERSISTENT_VOLUME_CLAIM))),
        always("serviceName", 5, Text).optional(),
        unless_zero("podManagementPolicy", 6, Text).one_of(values::POD_MANAGEMENT_POLICIES),
        always("updateStrategy", 7, Object(&STATEFUL_SET_UPDATE_STRATEGY)),
        when_set("revisionHistoryLimit", 8, Int32),
        unless_zero("minReadySeconds", 9, Int32),
        when_set("persistentVolumeClaimRetentionPolicy", 10, Object(&CLAIM_RETENTION_POLICY)),
        when_set("ordinals", 11, Object(&STATEFUL_SET_ORDINALS)),
    }
    StatefulSetStatus STATEFUL_SET_STATUS {
        unless_zero("observedGeneration", 1, Int64),
        always("replicas", 2, Int32),
        unless_zero("readyReplicas", 3, Int32),
        unless_zero("currentReplicas", 4, Int32),
        unless_zero("updatedReplicas", 5, Int32),
        unless_zero("currentRevision", 6, Text),
        unless_zero("updateRevision", 7, Text),
        when_set("collisionCount", 9, Int32),
        unless_zero("conditions", 10, List(&Object(&STATEFUL_SET_CONDITION))).by_key("type"),
        always("availableReplicas", 11, Int32).optional(),
    }
    DaemonSetUpdateStrategy DAEMON_SET_UPDATE_STRATEGY {
        unless_zero("type", 1, Text).one_of(values::DAEMON_SET_STRATEGIES),
        when_set("rollingUpdate", 2, Object(&ROLLING_UPDATE_DAEMON_SET)),
    }
    DeploymentStrategy DEPLOYMENT_STRATEGY {
        unless_zero("type", 1, Text).one_of(values::DEPLOYMENT_STRATEGIES),
        when_set("rollingUpdate", 2, Object(&ROLLING_UPDATE_DEPLOYMENT)),
    }
    StatefulSetUpdateStrategy STATEFUL_SET_UPDATE_STRATEGY {
        unless_zero("type", 1, Text).one_of(values::STATEFUL_SET_STRATEGIES),
        when_set("rollingUpdate", 2, Object(&ROLLING_UPDATE_STATEFUL_SET_STRATEGY)),
    }
    RollingUpdateDaemonSet ROLLING_UPDATE_DAEMON_SET {
        when_set("maxUnavailable", 1, IntOrString),
        when_set("maxSurge", 2, IntOrString),
    }
    RollingUpdateDeployment ROLLING_UPDATE_DEPLOYMENT {
        when_set("maxUnavailable", 1, IntOrString),
        when_set("maxSurge", 2, IntOrString),
    }
    RollingUpdateStatefulSetStrategy ROLLING_UPDATE_STATEFUL_SET_STRATEGY {
        when_set("partition", 1, Int32),
        when_set("maxUnavailable", 2, IntOrString),
    }
    StatefulSetPersistentVolumeClaimRetentionPolicy CLAIM_RETENTION_POLICY {
        unless_zero("whenDeleted", 1, Text),
        unless_zero("whenScaled", 2, Text),
    }
    StatefulSetOrdinals STATEFUL_SET_ORDINALS {
        always("start", 1, Int32).optional(),
    }
    DaemonSetCondition DAEMON_SET_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastTransitionTime", 3, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
    DeploymentCondition DEPLOYMENT_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastUpdateTime", 6, Time),
        always("lastTransitionTime", 7, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
    ReplicaSetCondition REPLICA_SET_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastTransitionTime", 3, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
    StatefulSetCondition STATEFUL_SET_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastTransitionTime", 3, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
}
