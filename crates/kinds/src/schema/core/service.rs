//! Schemas of services and endpoints.

use crate::schema::Shape::{Bool, Int32, IntOrString, List, Map, Object, Text};
use crate::schema::core::references::OBJECT_REFERENCE;
use crate::schema::meta::CONDITION;
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    Service SERVICE object {
        always("spec", 2, Object(&SERVICE_SPEC)),
        always("status", 3, Object(&SERVICE_STATUS)),
    }
    Endpoints ENDPOINTS object {
        unless_zero("subsets", 2, List(&Object(&ENDPOINT_SUBSET))),
    }
    ServiceSpec SERVICE_SPEC {
        unless_zero("ports", 1, List(&Object(&SERVICE_PORT))).by_key("port").keyed(&["port", "protocol"]),
        unless_zero("selector", 2, Map(&Text)).atomic(),
        unless_zero("clusterIP", 3, Text),
        unless_zero("clusterIPs", 18, List(&Text)),
        unless_zero("type", 4, Text).one_of(values::SERVICE_TYPES),
        unless_zero("externalIPs", 5, List(&Text)),
        unless_zero("sessionAffinity", 7, Text).one_of(values::SESSION_AFFINITIES),
        unless_zero("loadBalancerIP", 8, Text),
        unless_zero("loadBalancerSourceRanges", 9, List(&Text)),
        unless_zero("externalName", 10, Text),
        unless_zero("externalTrafficPolicy", 11, Text).one_of(values::TRAFFIC_POLICIES),
        unless_zero("healthCheckNodePort", 12, Int32),
        unless_zero("publishNotReadyAddresses", 13, Bool),
        when_set("sessionAffinityConfig", 14, Object(&SESSION_AFFINITY_CONFIG)),
        unless_zero("ipFamilies", 19, List(&Text)).one_of(values::IP_FAMILIES),
        when_set("ipFamilyPolicy", 17, Text).one_of(values::IP_FAMILY_POLICIES),
        when_set("allocateLoadBalancerNodePorts", 20, Bool),
        when_set("loadBalancerClass", 21, Text),
        when_set("internalTrafficPolicy", 22, Text).one_of(values::TRAFFIC_POLICIES),
        when_set("trafficDistribution", 23, Text),
    }
    ServiceStatus SERVICE_STATUS {
        always("loadBalancer", 1, Object(&LOAD_BALANCER_STATUS)),
        unless_zero("conditions", 2, List(&Object(&CONDITION))).by_key("type"),
    }
    EndpointSubset ENDPOINT_SUBSET {
        unless_zero("addresses", 1, List(&Object(&ENDPOINT_ADDRESS))),
        unless_zero("notReadyAddresses", 2, List(&Object(&ENDPOINT_ADDRESS))),
        unless_zero("ports", 3, List(&Object(&ENDPOINT_PORT))),
    }
    ServicePort SERVICE_PORT {
        unless_zero("name", 1, Text),
        unless_zero("protocol", 2, Text).one_of(values::PROTOCOLS).defaults_to("TCP"),
        when_set("appProtocol", 6, Text),
        always("port", 3, Int32),
        always("targetPort", 4, IntOrString),
        unless_zero("nodePort", 5, Int32),
    }
    SessionAffinityConfig SESSION_AFFINITY_CONFIG {
        when_set("clientIP", 1, Object(&CLIENT_IP_CONFIG)),
    }
    LoadBalancerStatus LOAD_BALANCER_STATUS {
        unless_zero("ingress", 1, List(&Object(&LOAD_BALANCER_INGRESS))),
    }
    EndpointAddress ENDPOINT_ADDRESS atomic {
        always("ip", 1, Text),
        unless_zero("hostname", 3, Text),
        when_set("nodeName", 4, Text),
        when_set("targetRef", 2, Object(&OBJECT_REFERENCE)),
    }
    EndpointPort ENDPOINT_PORT atomic {
        unless_zero("name", 1, Text),
        always("port", 2, Int32),
        unless_zero("protocol", 3, Text).one_of(values::PROTOCOLS),
        when_set("appProtocol", 4, Text),
    }
    ClientIPConfig CLIENT_IP_CONFIG {
        when_set("timeoutSeconds", 1, Int32),
    }
    LoadBalancerIngress LOAD_BALANCER_INGRESS {
        unless_zero("ip", 1, Text),
        unless_zero("hostname", 2, Text),
        when_set("ipMode", 3, Text),
        unless_zero("ports", 4, List(&Object(&PORT_STATUS))),
    }
    PortStatus PORT_STATUS {
        always("port", 1, Int32),
        always("protocol", 2, Text).one_of(values::PROTOCOLS),
        when_set("error", 3, Text),
    }
}
