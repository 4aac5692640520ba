//! Schemas of the definitions of custom kinds. They have no protobuf form here.

use crate::schema::Shape::{Any, Bool, Bytes, Int32, Int64, List, Map, Object, Text, Time};
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "apiextensions.k8s.io/v1";
    CustomResourceDefinition CUSTOM_RESOURCE_DEFINITION object {
        always("spec", 0, Object(&CUSTOM_RESOURCE_DEFINITION_SPEC)).required(),
        always("status", 0, Object(&CUSTOM_RESOURCE_DEFINITION_STATUS)),
    }
    CustomResourceDefinitionSpec CUSTOM_RESOURCE_DEFINITION_SPEC {
        always("group", 0, Text),
        always("names", 0, Object(&CUSTOM_RESOURCE_DEFINITION_NAMES)).required(),
        always("scope", 0, Text),
        always("versions", 0, List(&Object(&CUSTOM_RESOURCE_DEFINITION_VERSION))),
        when_set("conversion", 0, Object(&CUSTOM_RESOURCE_CONVERSION)),
        unless_zero("preserveUnknownFields", 0, Bool),
    }
    CustomResourceDefinitionNames CUSTOM_RESOURCE_DEFINITION_NAMES {
        always("plural", 0, Text),
        unless_zero("singular", 0, Text),
        unless_zero("shortNames", 0, List(&Text)),
        always("kind", 0, Text),
        unless_zero("listKind", 0, Text),
        unless_zero("categories", 0, List(&Text)),
    }
    CustomResourceDefinitionVersion CUSTOM_RESOURCE_DEFINITION_VERSION {
        always("name", 0, Text),
        always("served", 0, Bool),
        always("storage", 0, Bool),
        unless_zero("deprecated", 0, Bool),
        when_set("deprecationWarning", 0, Text),
        when_set("schema", 0, Object(&CUSTOM_RESOURCE_VALIDATION)),
        when_set("subresources", 0, Object(&CUSTOM_RESOURCE_SUBRESOURCES)),
        unless_zero("additionalPrinterColumns", 0, List(&Object(&CUSTOM_RESOURCE_COLUMN_DEFINITION))),
        unless_zero("selectableFields", 0, List(&Object(&SELECTABLE_FIELD))),
    }
    CustomResourceValidation CUSTOM_RESOURCE_VALIDATION {
        when_set("openAPIV3Schema", 0, Object(&JSON_SCHEMA_PROPS)),
    }
    CustomResourceSubresources CUSTOM_RESOURCE_SUBRESOURCES {
        when_set("status", 0, Object(&CUSTOM_RESOURCE_SUBRESOURCE_STATUS)),
        when_set("scale", 0, Object(&CUSTOM_RESOURCE_SUBRESOURCE_SCALE)),
    }
    CustomResourceSubresourceStatus CUSTOM_RESOURCE_SUBRESOURCE_STATUS {
    }
    CustomResourceSubresourceScale CUSTOM_RESOURCE_SUBRESOURCE_SCALE {
        always("specReplicasPath", 0, Text),
        always("statusReplicasPath", 0, Text),
        when_set("labelSelectorPath", 0, Text),
    }
    CustomResourceColumnDefinition CUSTOM_RESOURCE_COLUMN_DEFINITION {
        always("name", 0, Text),
        always("type", 0, Text),
        unless_zero("format", 0, Text),
        unless_zero("description", 0, Text),
        unless_zero("priority", 0, Int32),
        always("jsonPath", 0, Text),
    }
    SelectableField SELECTABLE_FIELD {
        always("jsonPath", 0, Text),
    }
    CustomResourceConversion CUSTOM_RESOURCE_CONVERSION {
        always("strategy", 0, Text),
        when_set("webhook", 0, Object(&WEBHOOK_CONVERSION)),
    }
    WebhookConversion WEBHOOK_CONVERSION {
        when_set("clientConfig", 0, Object(&WEBHOOK_CLIENT_CONFIG)),
        always("conversionReviewVersions", 0, List(&Text)),
    }
    WebhookClientConfig WEBHOOK_CLIENT_CONFIG {
        when_set("url", 0, Text),
        when_set("service", 0, Object(&SERVICE_REFERENCE)),
        unless_zero("caBundle", 0, Bytes),
    }
    ServiceReference SERVICE_REFERENCE {
        always("namespace", 0, Text),
        always("name", 0, Text),
        when_set("path", 0, Text),
        when_set("port", 0, Int32),
    }
    CustomResourceDefinitionStatus CUSTOM_RESOURCE_DEFINITION_STATUS {
        always("conditions", 0, List(&Object(&CUSTOM_RESOURCE_DEFINITION_CONDITION))).optional(),
        always("acceptedNames", 0, Object(&CUSTOM_RESOURCE_DEFINITION_NAMES)),
        always("storedVersions", 0, List(&Text)).optional(),
        unless_zero("observedGeneration", 0, Int64),
    }
    CustomResourceDefinitionCondition CUSTOM_RESOURCE_DEFINITION_CONDITION {
        always("type", 0, Text),
        always("status", 0, Text),
        unless_zero("lastTransitionTime", 0, Time),
        unless_zero("reason", 0, Text),
        unless_zero("message", 0, Text),
        unless_zero("observedGeneration", 0, Int64),
    }
    JSONSchemaProps JSON_SCHEMA_PROPS {
        unless_zero("id", 0, Text),
        unless_zero("$schema", 0, Text),
        when_set("$ref", 0, Text),
        unless_zero("description", 0, Text),
        unless_zero("type", 0, Text),
        unless_zero("format", 0, Text),
        unless_zero("title", 0, Text),
        when_set("default", 0, Any),
        when_set("maximum", 0, Any),
        unless_zero("exclusiveMaximum", 0, Bool),
        when_set("minimum", 0, Any),
        unless_zero("exclusiveMinimum", 0, Bool),
        when_set("maxLength", 0, Int64),
        when_set("minLength", 0, Int64),
        unless_zero("pattern", 0, Text),
        when_set("maxItems", 0, Int64),
        when_set("minItems", 0, Int64),
        unless_zero("uniqueItems", 0, Bool),
        when_set("multipleOf", 0, Any),
        unless_zero("enum", 0, List(&Any)),
        when_set("maxProperties", 0, Int64),
        when_set("minProperties", 0, Int64),
        unless_zero("required", 0, List(&Text)),
        when_set("items", 0, Any),
        unless_zero("allOf", 0, List(&Object(&JSON_SCHEMA_PROPS))),
        unless_zero("oneOf", 0, List(&Object(&JSON_SCHEMA_PROPS))),
        unless_zero("anyOf", 0, List(&Object(&JSON_SCHEMA_PROPS))),
        when_set("not", 0, Object(&JSON_SCHEMA_PROPS)),
        unless_zero("properties", 0, Map(&Object(&JSON_SCHEMA_PROPS))),
        when_set("additionalProperties", 0, Any),
        unless_zero("patternProperties", 0, Map(&Object(&JSON_SCHEMA_PROPS))),
        unless_zero("dependencies", 0, Map(&Any)),
        when_set("additionalItems", 0, Any),
        unless_zero("definitions", 0, Map(&Object(&JSON_SCHEMA_PROPS))),
        when_set("externalDocs", 0, Object(&EXTERNAL_DOCUMENTATION)),
        when_set("example", 0, Any),
        unless_zero("nullable", 0, Bool),
        when_set("x-kubernetes-preserve-unknown-fields", 0, Bool),
        unless_zero("x-kubernetes-embedded-resource", 0, Bool),
        unless_zero("x-kubernetes-int-or-string", 0, Bool),
        unless_zero("x-kubernetes-list-map-keys", 0, List(&Text)),
        when_set("x-kubernetes-list-type", 0, Text),
        when_set("x-kubernetes-map-type", 0, Text),
        unless_zero("x-kubernetes-validations", 0, List(&Object(&VALIDATION_RULE))).by_key("rule"),
    }
    ExternalDocumentation EXTERNAL_DOCUMENTATION {
        unless_zero("description", 0, Text),
        unless_zero("url", 0, Text),
    }
    ValidationRule VALIDATION_RULE {
        always("rule", 0, Text),
        unless_zero("message", 0, Text),
        unless_zero("messageExpression", 0, Text),
        when_set("reason", 0, Text),
        unless_zero("fieldPath", 0, Text),
        when_set("optionalOldSelf", 0, Bool),
    }
}
