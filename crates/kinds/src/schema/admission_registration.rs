//! Schemas of webhooks and policies of admission.

use crate::schema::Shape::{Bytes, Int32, Int64, List, Object, Text};
use crate::schema::meta::{CONDITION, LABEL_SELECTOR};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "admissionregistration/v1";
    MutatingAdmissionPolicy MUTATING_ADMISSION_POLICY object {
        always("spec", 2, Object(&MUTATING_ADMISSION_POLICY_SPEC)),
    }
    MutatingAdmissionPolicyBinding MUTATING_ADMISSION_POLICY_BINDING object {
        always("spec", 2, Object(&MUTATING_ADMISSION_POLICY_BINDING_SPEC)),
    }
    MutatingWebhookConfiguration MUTATING_WEBHOOK_CONFIGURATION object {
        unless_zero("webhooks", 2, List(&Object(&MUTATING_WEBHOOK))).by_key("name"),
    }
    ValidatingAdmissionPolicy VALIDATING_ADMISSION_POLICY object {
        always("spec", 2, Object(&VALIDATING_ADMISSION_POLICY_SPEC)),
        always("status", 3, Object(&VALIDATING_ADMISSION_POLICY_STATUS)),
    }
    ValidatingAdmissionPolicyBinding VALIDATING_ADMISSION_POLICY_BINDING object {
        always("spec", 2, Object(&VALIDATING_ADMISSION_POLICY_BINDING_SPEC)).required(),
    }
    ValidatingWebhookConfiguration VALIDATING_WEBHOOK_CONFIGURATION object {
        unless_zero("webhooks", 2, List(&Object(&VALIDATING_WEBHOOK))).by_key("name"),
    }
    MutatingAdmissionPolicySpec MUTATING_ADMISSION_POLICY_SPEC {
        when_set("paramKind", 1, Object(&PARAM_KIND)),
        when_set("matchConstraints", 2, Object(&MATCH_RESOURCES)),
        unless_zero("variables", 3, List(&Object(&VARIABLE))),
        unless_zero("mutations", 4, List(&Object(&MUTATION))),
        when_set("failurePolicy", 5, Text).one_of(values::FAILURE_POLICIES),
        unless_zero("matchConditions", 6, List(&Object(&MATCH_CONDITION))).by_key("name"),
        unless_zero("reinvocationPolicy", 7, Text).one_of(values::REINVOCATION_POLICIES),
    }
    MutatingAdmissionPolicyBindingSpec MUTATING_ADMISSION_POLICY_BINDING_SPEC {
        unless_zero("policyName", 1, Text),
        when_set("paramRef", 2, Object(&PARAM_REF)),
        when_set("matchResources", 3, Object(&MATCH_RESOURCES)),
    }
    ValidatingAdmissionPolicySpec VALIDATING_ADMISSION_POLICY_SPEC {
        when_set("paramKind", 1, Object(&PARAM_KIND)),
        when_set("matchConstraints", 2, Object(&MATCH_RESOURCES)),
        unless_zero("validations", 3, List(&Object(&VALIDATION))),
        when_set("failurePolicy", 4, Text).one_of(values::FAILURE_POLICIES),
        unless_zero("auditAnnotations", 5, List(&Object(&AUDIT_ANNOTATION))),
        unless_zero("matchConditions", 6, List(&Object(&MATCH_CONDITION))).by_key("name"),
        unless_zero("variables", 7, List(&Object(&VARIABLE))).by_key("name"),
    }
    ValidatingAdmissionPolicyStatus VALIDATING_ADMISSION_POLICY_STATUS {
        unless_zero("observedGeneration", 1, Int64),
        when_set("typeChecking", 2, Object(&TYPE_CHECKING)),
        unless_zero("conditions", 3, List(&Object(&CONDITION))).keyed(&["type"]),
    }
    ValidatingAdmissionPolicyBindingSpec VALIDATING_ADMISSION_POLICY_BINDING_SPEC {
        unless_zero("policyName", 1, Text).required(),
        when_set("paramRef", 2, Object(&PARAM_REF)),
        when_set("matchResources", 3, Object(&MATCH_RESOURCES)),
        unless_zero("validationActions", 4, List(&Text)).one_of(values::VALIDATION_ACTIONS).owned_as_set().required(),
    }
    MutatingWebhook MUTATING_WEBHOOK {
        always("name", 1, Text),
        always("clientConfig", 2, Object(&WEBHOOK_CLIENT_CONFIG)).required(),
        unless_zero("rules", 3, List(&Object(&RULE_WITH_OPERATIONS))),
        when_set("failurePolicy", 4, Text).one_of(values::FAILURE_POLICIES),
        when_set("matchPolicy", 9, Text).one_of(values::MATCH_POLICIES),
        when_set("namespaceSelector", 5, Object(&LABEL_SELECTOR)),
        when_set("objectSelector", 11, Object(&LABEL_SELECTOR)),
        when_set("sideEffects", 6, Text).one_of(values::SIDE_EFFECTS).required(),
        when_set("timeoutSeconds", 7, Int32),
        always("admissionReviewVersions", 8, List(&Text)),
        when_set("reinvocationPolicy", 10, Text).one_of(values::REINVOCATION_POLICIES),
        unless_zero("matchConditions", 12, List(&Object(&MATCH_CONDITION))).by_key("name"),
    }
    ValidatingWebhook VALIDATING_WEBHOOK {
        always("name", 1, Text),
        always("clientConfig", 2, Object(&WEBHOOK_CLIENT_CONFIG)).required(),
        unless_zero("rules", 3, List(&Object(&RULE_WITH_OPERATIONS))),
        when_set("failurePolicy", 4, Text).one_of(values::FAILURE_POLICIES),
        when_set("matchPolicy", 9, Text).one_of(values::MATCH_POLICIES),
        when_set("namespaceSelector", 5, Object(&LABEL_SELECTOR)),
        when_set("objectSelector", 10, Object(&LABEL_SELECTOR)),
        when_set("sideEffects", 6, Text).one_of(values::SIDE_EFFECTS).required(),
        when_set("timeoutSeconds", 7, Int32),
        always("admissionReviewVersions", 8, List(&Text)),
        unless_zero("matchConditions", 11, List(&Object(&MATCH_CONDITION))).by_key("name"),
    }
    WebhookClientConfig WEBHOOK_CLIENT_CONFIG {
        when_set("url", 3, Text),
        when_set("service", 1, Object(&SERVICE_REFERENCE)),
        unless_zero("caBundle", 2, Bytes),
    }
    ServiceReference SERVICE_REFERENCE {
        always("namespace", 1, Text),
        always("name", 2, Text),
        when_set("path", 3, Text),
        when_set("port", 4, Int32),
    }
    RuleWithOperations RULE_WITH_OPERATIONS {
        unless_zero("operations", 1, List(&Text)).one_of(values::OPERATIONS),
        unless_zero("apiGroups", 1, List(&Text)).within(&[2]),
        unless_zero("apiVersions", 2, List(&Text)).within(&[2]),
        unless_zero("resources", 3, List(&Text)).within(&[2]),
        when_set("scope", 4, Text).one_of(values::RULE_SCOPES).within(&[2]),
    }
    NamedRuleWithOperations NAMED_RULE_WITH_OPERATIONS atomic {
        unless_zero("resourceNames", 1, List(&Text)),
        unless_zero("operations", 1, List(&Text)).one_of(values::OPERATIONS).within(&[2]),
        unless_zero("apiGroups", 1, List(&Text)).within(&[2, 2]),
        unless_zero("apiVersions", 2, List(&Text)).within(&[2, 2]),
        unless_zero("resources", 3, List(&Text)).within(&[2, 2]),
        when_set("scope", 4, Text).one_of(values::RULE_SCOPES).within(&[2, 2]),
    }
    MatchCondition MATCH_CONDITION {
        always("name", 1, Text),
        always("expression", 2, Text),
    }
    MatchResources MATCH_RESOURCES atomic {
        when_set("namespaceSelector", 1, Object(&LABEL_SELECTOR)),
        when_set("objectSelector", 2, Object(&LABEL_SELECTOR)),
        unless_zero("resourceRules", 3, List(&Object(&NAMED_RULE_WITH_OPERATIONS))),
        unless_zero("excludeResourceRules", 4, List(&Object(&NAMED_RULE_WITH_OPERATIONS))),
        when_set("matchPolicy", 7, Text).one_of(values::MATCH_POLICIES),
    }
    ParamKind PARAM_KIND atomic {
        unless_zero("apiVersion", 1, Text),
        unless_zero("kind", 2, Text),
    }
    ParamRef PARAM_REF atomic {
        unless_zero("name", 1, Text),
        unless_zero("namespace", 2, Text),
        when_set("selector", 3, Object(&LABEL_SELECTOR)),
        when_set("parameterNotFoundAction", 4, Text).one_of(values::PARAMETER_NOT_FOUND_ACTIONS),
    }
    Variable VARIABLE atomic {
        always("name", 1, Text),
        always("expression", 2, Text),
    }
    Validation VALIDATION {
        always("expression", 1, Text),
        unless_zero("message", 2, Text),
        when_set("reason", 3, Text),
        unless_zero("messageExpression", 4, Text),
    }
    AuditAnnotation AUDIT_ANNOTATION {
        always("key", 1, Text),
        always("valueExpression", 2, Text),
    }
    TypeChecking TYPE_CHECKING {
        unless_zero("expressionWarnings", 1, List(&Object(&EXPRESSION_WARNING))),
    }
    ExpressionWarning EXPRESSION_WARNING {
        always("fieldRef", 2, Text),
        always("warning", 3, Text),
    }
    Mutation MUTATION {
        always("patchType", 2, Text).one_of(values::PATCH_TYPES),
        when_set("applyConfiguration", 3, Object(&APPLY_CONFIGURATION)),
        when_set("jsonPatch", 4, Object(&JSON_PATCH)),
    }
    ApplyConfiguration APPLY_CONFIGURATION {
        unless_zero("expression", 1, Text),
    }
    JSONPatch JSON_PATCH {
        unless_zero("expression", 1, Text),
    }
}
