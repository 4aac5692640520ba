//! Schemas of quotas and limits of namespaces.

use crate::schema::Shape::{List, Map, Object, Quantity, Text};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    LimitRange LIMIT_RANGE object {
        always("spec", 2, Object(&LIMIT_RANGE_SPEC)),
    }
    ResourceQuota RESOURCE_QUOTA object {
        always("spec", 2, Object(&RESOURCE_QUOTA_SPEC)),
        always("status", 3, Object(&RESOURCE_QUOTA_STATUS)),
    }
    LimitRangeSpec LIMIT_RANGE_SPEC {
        always("limits", 1, List(&Object(&LIMIT_RANGE_ITEM))),
    }
    LimitRangeItem LIMIT_RANGE_ITEM {
        always("type", 1, Text),
        unless_zero("max", 2, Map(&Quantity)),
        unless_zero("min", 3, Map(&Quantity)),
        unless_zero("default", 4, Map(&Quantity)),
        unless_zero("defaultRequest", 5, Map(&Quantity)),
        unless_zero("maxLimitRequestRatio", 6, Map(&Quantity)),
    }
    ResourceQuotaSpec RESOURCE_QUOTA_SPEC {
        unless_zero("hard", 1, Map(&Quantity)),
        unless_zero("scopes", 2, List(&Text)).one_of(values::QUOTA_SCOPES),
        when_set("scopeSelector", 3, Object(&SCOPE_SELECTOR)),
    }
    ResourceQuotaStatus RESOURCE_QUOTA_STATUS {
        unless_zero("hard", 1, Map(&Quantity)),
        unless_zero("used", 2, Map(&Quantity)),
    }
    ScopeSelector SCOPE_SELECTOR atomic {
        unless_zero("matchExpressions", 1, List(&Object(&SCOPED_RESOURCE_SELECTOR_REQUIREMENT))),
    }
    ScopedResourceSelectorRequirement SCOPED_RESOURCE_SELECTOR_REQUIREMENT atomic {
        always("scopeName", 1, Text).one_of(values::QUOTA_SCOPES),
        always("operator", 2, Text).one_of(values::SCOPE_OPERATORS),
        unless_zero("values", 3, List(&Text)),
    }
}
