//! Schemas of evictions and of the budgets that limit them.

use crate::schema::Shape::{Int32, Int64, IntOrString, List, Map, Object, Text, Time};
use crate::schema::meta::{CONDITION, DELETE_OPTIONS, LABEL_SELECTOR};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "policy/v1";
    Eviction EVICTION object {
        when_set("deleteOptions", 2, Object(&DELETE_OPTIONS)),
    }
    PodDisruptionBudget POD_DISRUPTION_BUDGET object {
        always("spec", 2, Object(&POD_DISRUPTION_BUDGET_SPEC)),
        always("status", 3, Object(&POD_DISRUPTION_BUDGET_STATUS)),
    }
    PodDisruptionBudgetSpec POD_DISRUPTION_BUDGET_SPEC {
        when_set("minAvailable", 1, IntOrString),
        when_set("selector", 2, Object(&LABEL_SELECTOR)).replaced(),
        when_set("maxUnavailable", 3, IntOrString),
        when_set("unhealthyPodEvictionPolicy", 4, Text).one_of(values::EVICTION_POLICIES),
    }
    PodDisruptionBudgetStatus POD_DISRUPTION_BUDGET_STATUS {
        unless_zero("observedGeneration", 1, Int64),
        unless_zero("disruptedPods", 2, Map(&Time)),
        always("disruptionsAllowed", 3, Int32).optional(),
        always("currentHealthy", 4, Int32).optional(),
        always("desiredHealthy", 5, Int32).optional(),
        always("expectedPods", 6, Int32).optional(),
        unless_zero("conditions", 7, List(&Object(&CONDITION))).by_key("type"),
    }
}
