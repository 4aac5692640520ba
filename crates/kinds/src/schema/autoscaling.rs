//! Schemas of horizontal pod autoscalers, and of the scale of what they change.

/// The first version: autoscalers by CPU alone, and `Scale`.
pub mod v1 {
    use crate::schema::Shape::{Int32, Int64, Object, Text, Time};
    use crate::schema::table::{always, types, unless_zero, when_set};

    types! {
        "autoscaling/v1";
        HorizontalPodAutoscaler HORIZONTAL_POD_AUTOSCALER object {
            always("spec", 2, Object(&HORIZONTAL_POD_AUTOSCALER_SPEC)).required(),
            always("status", 3, Object(&HORIZONTAL_POD_AUTOSCALER_STATUS)),
        }
        Scale SCALE object {
            always("spec", 2, Object(&SCALE_SPEC)),
            always("status", 3, Object(&SCALE_STATUS)),
        }
        HorizontalPodAutoscalerSpec HORIZONTAL_POD_AUTOSCALER_SPEC {
            always("scaleTargetRef", 1, Object(&CROSS_VERSION_OBJECT_REFERENCE)).required(),
            when_set("minReplicas", 2, Int32),
            always("maxReplicas", 3, Int32),
            when_set("targetCPUUtilizationPercentage", 4, Int32),
        }
        HorizontalPodAutoscalerStatus HORIZONTAL_POD_AUTOSCALER_STATUS {
            when_set("observedGeneration", 1, Int64),
            when_set("lastScaleTime", 2, Time),
            always("currentReplicas", 3, Int32),
            always("desiredReplicas", 4, Int32),
            when_set("currentCPUUtilizationPercentage", 5, Int32),
        }
        CrossVersionObjectReference CROSS_VERSION_OBJECT_REFERENCE atomic {
            always("kind", 1, Text),
            always("name", 2, Text),
            unless_zero("apiVersion", 3, Text),
        }
        ScaleSpec SCALE_SPEC {
            unless_zero("replicas", 1, Int32),
        }
        ScaleStatus SCALE_STATUS {
            always("replicas", 1, Int32),
            unless_zero("selector", 2, Text),
        }
    }
}

/// The current version: autoscalers by any metrics.
pub mod v2 {
    use crate::schema::Shape::{Int32, Int64, List, Object, Quantity, Text, Time};
    use crate::schema::meta::LABEL_SELECTOR;
    use crate::schema::table::{always, types, unless_zero, when_set};

    types! {
        "autoscaling/v2";
        HorizontalPodAutoscaler HORIZONTAL_POD_AUTOSCALER object {
            always("spec", 2, Object(&HORIZONTAL_POD_AUTOSCALER_SPEC)).required(),
            always("status", 3, Object(&HORIZONTAL_POD_AUTOSCALER_STATUS)),
        }
        HorizontalPodAutoscalerSpec HORIZONTAL_POD_AUTOSCALER_SPEC {
            always("scaleTargetRef", 1, Object(&CROSS_VERSION_OBJECT_REFERENCE)).required(),
            when_set("minReplicas", 2, Int32),
            always("maxReplicas", 3, Int32),
            unless_zero("metrics", 4, List(&Object(&METRIC_SPEC))),
            when_set("behavior", 5, Object(&HORIZONTAL_POD_AUTOSCALER_BEHAVIOR)),
        }
        HorizontalPodAutoscalerStatus HORIZONTAL_POD_AUTOSCALER_STATUS {
            when_set("observedGeneration", 1, Int64),
            when_set("lastScaleTime", 2, Time),
            unless_zero("currentReplicas", 3, Int32),
            always("desiredReplicas", 4, Int32),
            always("currentMetrics", 5, List(&Object(&METRIC_STATUS))).optional(),
            unless_zero("conditions", 6, List(&Object(&HORIZONTAL_POD_AUTOSCALER_CONDITION))).by_key("type"),
        }
        CrossVersionObjectReference CROSS_VERSION_OBJECT_REFERENCE {
            always("kind", 1, Text),
            always("name", 2, Text),
            unless_zero("apiVersion", 3, Text),
        }
        MetricSpec METRIC_SPEC {
            always("type", 1, Text),
            when_set("object", 2, Object(&OBJECT_METRIC_SOURCE)),
            when_set("pods", 3, Object(&PODS_METRIC_SOURCE)),
            when_set("resource", 4, Object(&RESOURCE_METRIC_SOURCE)),
            when_set("containerResource", 7, Object(&CONTAINER_RESOURCE_METRIC_SOURCE)),
            when_set("external", 5, Object(&EXTERNAL_METRIC_SOURCE)),
        }
        HorizontalPodAutoscalerBehavior HORIZONTAL_POD_AUTOSCALER_BEHAVIOR {
            when_set("scaleUp", 1, Object(&HPA_SCALING_RULES)),
            when_set("scaleDown", 2, Object(&HPA_SCALING_RULES)),
        }
        MetricStatus METRIC_STATUS {
            always("type", 1, Text),
            when_set("object", 2, Object(&OBJECT_METRIC_STATUS)),
            when_set("pods", 3, Object(&PODS_METRIC_STATUS)),
            when_set("resource", 4, Object(&RESOURCE_METRIC_STATUS)),
            when_set("containerResource", 7, Object(&CONTAINER_RESOURCE_METRIC_STATUS)),
            when_set("external", 5, Object(&EXTERNAL_METRIC_STATUS)),
        }
        HorizontalPodAutoscalerCondition HORIZONTAL_POD_AUTOSCALER_CONDITION {
            always("type", 1, Text),
            always("status", 2, Text),
            always("lastTransitionTime", 3, Time),
            unless_zero("reason", 4, Text),
            unless_zero("message", 5, Text),
        }
        HPAScalingRules HPA_SCALING_RULES {
            when_set("stabilizationWindowSeconds", 3, Int32),
            when_set("selectPolicy", 1, Text),
            unless_zero("policies", 2, List(&Object(&HPA_SCALING_POLICY))),
            when_set("tolerance", 4, Quantity),
        }
        HPAScalingPolicy HPA_SCALING_POLICY {
            always("type", 1, Text),
            always("value", 2, Int32),
            always("periodSeconds", 3, Int32),
        }
        ObjectMetricSource OBJECT_METRIC_SOURCE {
            always("describedObject", 1, Object(&CROSS_VERSION_OBJECT_REFERENCE)).required(),
            always("target", 2, Object(&METRIC_TARGET)).required(),
            always("metric", 3, Object(&METRIC_IDENTIFIER)).required(),
        }
        PodsMetricSource PODS_METRIC_SOURCE {
            always("metric", 1, Object(&METRIC_IDENTIFIER)).required(),
            always("target", 2, Object(&METRIC_TARGET)).required(),
        }
        ResourceMetricSource RESOURCE_METRIC_SOURCE {
            always("name", 1, Text),
            always("target", 2, Object(&METRIC_TARGET)).required(),
        }
        ContainerResourceMetricSource CONTAINER_RESOURCE_METRIC_SOURCE {
            always("name", 1, Text),
            always("target", 2, Object(&METRIC_TARGET)).required(),
            always("container", 3, Text),
        }
        ExternalMetricSource EXTERNAL_METRIC_SOURCE {
            always("metric", 1, Object(&METRIC_IDENTIFIER)).required(),
            always("target", 2, Object(&METRIC_TARGET)).required(),
        }
        ObjectMetricStatus OBJECT_METRIC_STATUS {
            always("metric", 1, Object(&METRIC_IDENTIFIER)).required(),
            always("current", 2, Object(&METRIC_VALUE_STATUS)).required(),
            always("describedObject", 3, Object(&CROSS_VERSION_OBJECT_REFERENCE)).required(),
        }
        PodsMetricStatus PODS_METRIC_STATUS {
            always("metric", 1, Object(&METRIC_IDENTIFIER)).required(),
            always("current", 2, Object(&METRIC_VALUE_STATUS)).required(),
        }
        ResourceMetricStatus RESOURCE_METRIC_STATUS {
            always("name", 1, Text),
            always("current", 2, Object(&METRIC_VALUE_STATUS)).required(),
        }
        ContainerResourceMetricStatus CONTAINER_RESOURCE_METRIC_STATUS {
            always("name", 1, Text),
            always("current", 2, Object(&METRIC_VALUE_STATUS)).required(),
            always("container", 3, Text),
        }
        ExternalMetricStatus EXTERNAL_METRIC_STATUS {
            always("metric", 1, Object(&METRIC_IDENTIFIER)).required(),
            always("current", 2, Object(&METRIC_VALUE_STATUS)).required(),
        }
        MetricTarget METRIC_TARGET {
            always("type", 1, Text),
            when_set("value", 2, Quantity),
            when_set("averageValue", 3, Quantity),
            when_set("averageUtilization", 4, Int32),
        }
        MetricValueStatus METRIC_VALUE_STATUS {
            when_set("value", 1, Quantity),
            when_set("averageValue", 2, Quantity),
            when_set("averageUtilization", 3, Int32),
        }
        MetricIdentifier METRIC_IDENTIFIER {
            always("name", 1, Text),
            when_set("selector", 2, Object(&LABEL_SELECTOR)),
        }
    }
}
