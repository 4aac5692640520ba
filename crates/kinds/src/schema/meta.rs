//! Schemas shared by all kinds.

use crate::schema::Field;
use crate::schema::Shape::{Any, Bool, Int32, Int64, List, Map, Object, Text, Time};
use crate::schema::table::{API_VERSION, KIND, always, types, unless_zero, when_set};

/// The metadata of an object, as its document holds it.
pub(super) const METADATA: Field = always("metadata", 1, Object(&OBJECT_META));

/// The kind of a resource, which is a field of its own here.
const KIND_OF_RESOURCE: Field = always("kind", 3, Text);

/// The verbs of a resource. In protobuf they are a message with the verbs under number 1.
const VERBS: Field = always("verbs", 1, List(&Text)).within(&[4]);

types! {
    "meta/v1";
    ObjectMeta OBJECT_META {
        unless_zero("name", 1, Text),
        unless_zero("generateName", 2, Text),
        unless_zero("namespace", 3, Text),
        unless_zero("selfLink", 4, Text),
        unless_zero("uid", 5, Text),
        unless_zero("resourceVersion", 6, Text),
        unless_zero("generation", 7, Int64),
        unless_zero("creationTimestamp", 8, Time),
        when_set("deletionTimestamp", 9, Time),
        when_set("deletionGracePeriodSeconds", 10, Int64),
        unless_zero("labels", 11, Map(&Text)),
        unless_zero("annotations", 12, Map(&Text)),
        unless_zero("ownerReferences", 13, List(&Object(&OWNER_REFERENCE))).by_key("uid"),
        unless_zero("finalizers", 14, List(&Text)).as_set(),
        // A list without entries is a request to forget all of them.
        when_set("managedFields", 17, List(&Object(&MANAGED_FIELDS_ENTRY))),
    }
    ListMeta LIST_META {
        unless_zero("selfLink", 1, Text),
        unless_zero("resourceVersion", 2, Text),
        unless_zero("continue", 3, Text),
        when_set("remainingItemCount", 4, Int64),
        when_set("shardInfo", 5, Object(&SHARD_INFO)),
    }
    DeleteOptions DELETE_OPTIONS {
        KIND,
        API_VERSION,
        when_set("gracePeriodSeconds", 1, Int64),
        when_set("preconditions", 2, Object(&PRECONDITIONS)),
        when_set("orphanDependents", 3, Bool),
        when_set("propagationPolicy", 4, Text),
        unless_zero("dryRun", 5, List(&Text)),
        when_set("ignoreStoreReadErrorWithClusterBreakingPotential", 6, Bool),
    }
    CreateOptions CREATE_OPTIONS {
        KIND,
        API_VERSION,
        unless_zero("dryRun", 1, List(&Text)),
        unless_zero("fieldManager", 3, Text),
        unless_zero("fieldValidation", 4, Text),
    }
    UpdateOptions UPDATE_OPTIONS {
        KIND,
        API_VERSION,
        unless_zero("dryRun", 1, List(&Text)),
        unless_zero("fieldManager", 2, Text),
        unless_zero("fieldValidation", 3, Text),
    }
    PatchOptions PATCH_OPTIONS {
        KIND,
        API_VERSION,
        unless_zero("dryRun", 1, List(&Text)),
        when_set("force", 2, Bool),
        unless_zero("fieldManager", 3, Text),
        unless_zero("fieldValidation", 4, Text),
    }
    Status STATUS {
        KIND,
        API_VERSION,
        always("metadata", 1, Object(&LIST_META)),
        unless_zero("status", 2, Text),
        unless_zero("message", 3, Text),
        unless_zero("reason", 4, Text),
        when_set("details", 5, Object(&STATUS_DETAILS)),
        unless_zero("code", 6, Int32),
    }
    PartialObjectMetadata PARTIAL_OBJECT_METADATA object {}
    APIVersions API_VERSIONS {
        KIND,
        API_VERSION,
        always("versions", 1, List(&Text)),
        always("serverAddressByClientCIDRs", 2, List(&Object(&SERVER_ADDRESS_BY_CLIENT_CIDR))),
    }
    APIGroupList API_GROUP_LIST {
        KIND,
        API_VERSION,
        always("groups", 1, List(&Object(&API_GROUP))),
    }
    APIGroup API_GROUP {
        KIND,
        API_VERSION,
        always("name", 1, Text),
        always("versions", 2, List(&Object(&GROUP_VERSION_FOR_DISCOVERY))),
        unless_zero("preferredVersion", 3, Object(&GROUP_VERSION_FOR_DISCOVERY)),
        unless_zero("serverAddressByClientCIDRs", 4, List(&Object(&SERVER_ADDRESS_BY_CLIENT_CIDR))),
    }
    APIResourceList API_RESOURCE_LIST {
        KIND,
        API_VERSION,
        always("groupVersion", 1, Text),
        always("resources", 2, List(&Object(&API_RESOURCE))),
    }
    LabelSelector LABEL_SELECTOR atomic {
        unless_zero("matchLabels", 1, Map(&Text)),
        unless_zero("matchExpressions", 2, List(&Object(&LABEL_SELECTOR_REQUIREMENT))),
    }
    Condition CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        unless_zero("observedGeneration", 3, Int64),
        always("lastTransitionTime", 4, Time).required(),
        always("reason", 5, Text),
        always("message", 6, Text),
    }
    OwnerReference OWNER_REFERENCE atomic {
        always("apiVersion", 5, Text),
        always("kind", 1, Text),
        always("name", 3, Text),
        always("uid", 4, Text),
        when_set("controller", 6, Bool),
        when_set("blockOwnerDeletion", 7, Bool),
    }
    ManagedFieldsEntry MANAGED_FIELDS_ENTRY {
        unless_zero("manager", 1, Text),
        unless_zero("operation", 2, Text),
        unless_zero("apiVersion", 3, Text),
        when_set("time", 4, Time),
        unless_zero("fieldsType", 6, Text),
        when_set("fieldsV1", 7, Any),
        unless_zero("subresource", 8, Text),
    }
    ServerAddressByClientCIDR SERVER_ADDRESS_BY_CLIENT_CIDR {
        always("clientCIDR", 1, Text),
        always("serverAddress", 2, Text),
    }
    GroupVersionForDiscovery GROUP_VERSION_FOR_DISCOVERY {
        always("groupVersion", 1, Text),
        always("version", 2, Text),
    }
    APIResource API_RESOURCE {
        always("name", 1, Text),
        always("singularName", 6, Text),
        always("namespaced", 2, Bool),
        unless_zero("group", 8, Text),
        unless_zero("version", 9, Text),
        KIND_OF_RESOURCE,
        VERBS,
        unless_zero("shortNames", 5, List(&Text)),
        unless_zero("categories", 7, List(&Text)),
        unless_zero("storageVersionHash", 10, Text),
    }
    ShardInfo SHARD_INFO {
        always("selector", 1, Text),
    }
    Preconditions PRECONDITIONS {
        when_set("uid", 1, Text),
        when_set("resourceVersion", 2, Text),
    }
    StatusDetails STATUS_DETAILS {
        unless_zero("name", 1, Text),
        unless_zero("group", 2, Text),
        unless_zero("kind", 3, Text),
        unless_zero("uid", 6, Text),
        unless_zero("causes", 4, List(&Object(&STATUS_CAUSE))),
        unless_zero("retryAfterSeconds", 5, Int32),
    }
    LabelSelectorRequirement LABEL_SELECTOR_REQUIREMENT {
        always("key", 1, Text),
        always("operator", 2, Text),
        unless_zero("values", 3, List(&Text)),
    }
    StatusCause STATUS_CAUSE {
        unless_zero("reason", 1, Text),
        unless_zero("message", 2, Text),
        unless_zero("field", 3, Text),
    }
    FieldSelectorRequirement FIELD_SELECTOR_REQUIREMENT {
        always("key", 1, Text),
        always("operator", 2, Text),
        unless_zero("values", 3, List(&Text)),
    }
}
