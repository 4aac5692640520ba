//! Schemas of priority and fairness of requests.

use crate::schema::Shape::{Bool, Int32, List, Object, Text, Time};
use crate::schema::table::{always, or_null, types, unless_zero, when_set};

types! {
    "flowcontrol/v1";
    FlowSchema FLOW_SCHEMA object {
        always("spec", 2, Object(&FLOW_SCHEMA_SPEC)),
        always("status", 3, Object(&FLOW_SCHEMA_STATUS)),
    }
    PriorityLevelConfiguration PRIORITY_LEVEL_CONFIGURATION object {
        always("spec", 2, Object(&PRIORITY_LEVEL_CONFIGURATION_SPEC)),
        always("status", 3, Object(&PRIORITY_LEVEL_CONFIGURATION_STATUS)),
    }
    FlowSchemaSpec FLOW_SCHEMA_SPEC {
        always("priorityLevelConfiguration", 1, Object(&PRIORITY_LEVEL_CONFIGURATION_REFERENCE)).required(),
        always("matchingPrecedence", 2, Int32).optional(),
        when_set("distinguisherMethod", 3, Object(&FLOW_DISTINGUISHER_METHOD)),
        unless_zero("rules", 4, List(&Object(&POLICY_RULES_WITH_SUBJECTS))),
    }
    FlowSchemaStatus FLOW_SCHEMA_STATUS {
        unless_zero("conditions", 1, List(&Object(&FLOW_SCHEMA_CONDITION))).by_key("type"),
    }
    PriorityLevelConfigurationReference PRIORITY_LEVEL_CONFIGURATION_REFERENCE {
        always("name", 1, Text),
    }
    FlowDistinguisherMethod FLOW_DISTINGUISHER_METHOD {
        always("type", 1, Text),
    }
    PolicyRulesWithSubjects POLICY_RULES_WITH_SUBJECTS {
        always("subjects", 1, List(&Object(&SUBJECT))),
        unless_zero("resourceRules", 2, List(&Object(&RESOURCE_POLICY_RULE))),
        unless_zero("nonResourceRules", 3, List(&Object(&NON_RESOURCE_POLICY_RULE))),
    }
    Subject SUBJECT {
        always("kind", 1, Text),
        when_set("user", 2, Object(&USER_SUBJECT)),
        when_set("group", 3, Object(&GROUP_SUBJECT)),
        when_set("serviceAccount", 4, Object(&SERVICE_ACCOUNT_SUBJECT)),
    }
    UserSubject USER_SUBJECT {
        always("name", 1, Text),
    }
    GroupSubject GROUP_SUBJECT {
        always("name", 1, Text),
    }
    ServiceAccountSubject SERVICE_ACCOUNT_SUBJECT {
        always("namespace", 1, Text),
        always("name", 2, Text),
    }
    ResourcePolicyRule RESOURCE_POLICY_RULE {
        always("verbs", 1, List(&Text)).owned_as_set(),
        always("apiGroups", 2, List(&Text)).owned_as_set(),
        always("resources", 3, List(&Text)).owned_as_set(),
        unless_zero("clusterScope", 4, Bool),
        always("namespaces", 5, List(&Text)).owned_as_set().optional(),
    }
    NonResourcePolicyRule NON_RESOURCE_POLICY_RULE {
        always("verbs", 1, List(&Text)).owned_as_set(),
        always("nonResourceURLs", 6, List(&Text)).owned_as_set(),
    }
    FlowSchemaCondition FLOW_SCHEMA_CONDITION {
        unless_zero("type", 1, Text),
        unless_zero("status", 2, Text),
        always("lastTransitionTime", 3, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
    PriorityLevelConfigurationSpec PRIORITY_LEVEL_CONFIGURATION_SPEC {
        always("type", 1, Text),
        when_set("limited", 2, Object(&LIMITED_PRIORITY_LEVEL_CONFIGURATION)),
        when_set("exempt", 3, Object(&EXEMPT_PRIORITY_LEVEL_CONFIGURATION)),
    }
    PriorityLevelConfigurationStatus PRIORITY_LEVEL_CONFIGURATION_STATUS {
        unless_zero("conditions", 1, List(&Object(&PRIORITY_LEVEL_CONFIGURATION_CONDITION))).by_key("type"),
    }
    LimitedPriorityLevelConfiguration LIMITED_PRIORITY_LEVEL_CONFIGURATION {
        or_null("nominalConcurrencyShares", 1, Int32),
        always("limitResponse", 2, Object(&LIMIT_RESPONSE)),
        when_set("lendablePercent", 3, Int32),
        when_set("borrowingLimitPercent", 4, Int32),
    }
    ExemptPriorityLevelConfiguration EXEMPT_PRIORITY_LEVEL_CONFIGURATION {
        when_set("nominalConcurrencyShares", 1, Int32),
        when_set("lendablePercent", 2, Int32),
    }
    LimitResponse LIMIT_RESPONSE {
        always("type", 1, Text),
        when_set("queuing", 2, Object(&QUEUING_CONFIGURATION)),
    }
    QueuingConfiguration QUEUING_CONFIGURATION {
        always("queues", 1, Int32).optional(),
        always("handSize", 2, Int32).optional(),
        always("queueLengthLimit", 3, Int32).optional(),
    }
    PriorityLevelConfigurationCondition PRIORITY_LEVEL_CONFIGURATION_CONDITION {
        unless_zero("type", 1, Text),
        unless_zero("status", 2, Text),
        always("lastTransitionTime", 3, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
}
