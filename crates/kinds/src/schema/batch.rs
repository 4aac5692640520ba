//! Schemas of jobs and cron jobs.

use crate::schema::Shape::{Bool, Int32, Int64, List, Object, Text, Time};
use crate::schema::core::pod::POD_TEMPLATE_SPEC;
use crate::schema::core::references::OBJECT_REFERENCE;
use crate::schema::meta::{LABEL_SELECTOR, OBJECT_META};
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "batch/v1";
    CronJob CRON_JOB object {
        always("spec", 2, Object(&CRON_JOB_SPEC)).required(),
        always("status", 3, Object(&CRON_JOB_STATUS)),
    }
    Job JOB object {
        always("spec", 2, Object(&JOB_SPEC)),
        always("status", 3, Object(&JOB_STATUS)),
    }
    CronJobSpec CRON_JOB_SPEC {
        always("schedule", 1, Text),
        when_set("timeZone", 8, Text),
        when_set("startingDeadlineSeconds", 2, Int64),
        unless_zero("concurrencyPolicy", 3, Text).one_of(values::CONCURRENCY_POLICIES),
        when_set("suspend", 4, Bool),
        always("jobTemplate", 5, Object(&JOB_TEMPLATE_SPEC)).required(),
        when_set("successfulJobsHistoryLimit", 6, Int32),
        when_set("failedJobsHistoryLimit", 7, Int32),
    }
    CronJobStatus CRON_JOB_STATUS {
        unless_zero("active", 1, List(&Object(&OBJECT_REFERENCE))),
        when_set("lastScheduleTime", 4, Time),
        when_set("lastSuccessfulTime", 5, Time),
    }
    JobTemplateSpec JOB_TEMPLATE_SPEC {
        always("metadata", 1, Object(&OBJECT_META)),
        always("spec", 2, Object(&JOB_SPEC)),
    }
    JobSpec JOB_SPEC {
        when_set("parallelism", 1, Int32),
        when_set("completions", 2, Int32),
        when_set("activeDeadlineSeconds", 3, Int64),
        when_set("podFailurePolicy", 11, Object(&POD_FAILURE_POLICY)),
        when_set("successPolicy", 16, Object(&SUCCESS_POLICY)),
        when_set("backoffLimit", 7, Int32),
        when_set("backoffLimitPerIndex", 12, Int32),
        when_set("maxFailedIndexes", 13, Int32),
        when_set("selector", 4, Object(&LABEL_SELECTOR)),
        when_set("manualSelector", 5, Bool),
        always("template", 6, Object(&POD_TEMPLATE_SPEC)).required(),
        when_set("ttlSecondsAfterFinished", 8, Int32),
        when_set("completionMode", 9, Text).one_of(values::COMPLETION_MODES),
        when_set("suspend", 10, Bool),
        when_set("podReplacementPolicy", 14, Text).one_of(values::POD_REPLACEMENT_POLICIES),
        when_set("managedBy", 15, Text),
    }
    JobStatus JOB_STATUS {
        unless_zero("conditions", 1, List(&Object(&JOB_CONDITION))).by_key("type").atomic(),
        when_set("startTime", 2, Time),
        when_set("completionTime", 3, Time),
        unless_zero("active", 4, Int32),
        unless_zero("succeeded", 5, Int32),
        unless_zero("failed", 6, Int32),
        when_set("terminating", 11, Int32),
        unless_zero("completedIndexes", 7, Text),
        when_set("failedIndexes", 10, Text),
        when_set("uncountedTerminatedPods", 8, Object(&UNCOUNTED_TERMINATED_PODS)),
        when_set("ready", 9, Int32),
    }
    JobCondition JOB_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastProbeTime", 3, Time),
        always("lastTransitionTime", 4, Time),
        unless_zero("reason", 5, Text),
        unless_zero("message", 6, Text),
    }
    UncountedTerminatedPods UNCOUNTED_TERMINATED_PODS {
        unless_zero("succeeded", 1, List(&Text)).owned_as_set(),
        unless_zero("failed", 2, List(&Text)).owned_as_set(),
    }
    PodFailurePolicy POD_FAILURE_POLICY {
        always("rules", 1, List(&Object(&POD_FAILURE_POLICY_RULE))),
    }
    PodFailurePolicyRule POD_FAILURE_POLICY_RULE {
        always("action", 1, Text).one_of(values::JOB_FAILURE_ACTIONS),
        or_null("onExitCodes", 2, Object(&POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT)),
        always("onPodConditions", 3, List(&Object(&POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN))).optional(),
    }
    PodFailurePolicyOnExitCodesRequirement POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT {
        or_null("containerName", 1, Text),
        always("operator", 2, Text).one_of(values::SET_OPERATORS),
        always("values", 3, List(&Int32)).owned_as_set(),
    }
    PodFailurePolicyOnPodConditionsPattern POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN {
        always("type", 1, Text),
        always("status", 2, Text).optional(),
    }
    SuccessPolicy SUCCESS_POLICY {
        always("rules", 1, List(&Object(&SUCCESS_POLICY_RULE))),
    }
    SuccessPolicyRule SUCCESS_POLICY_RULE {
        when_set("succeededIndexes", 1, Text),
        when_set("succeededCount", 2, Int32),
    }
}
