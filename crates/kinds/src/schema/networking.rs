//! Schemas of ingresses, network policies, and the addresses of services.

use crate::schema::Shape::{Int32, IntOrString, List, Object, Text};
use crate::schema::core::references::TYPED_LOCAL_OBJECT_REFERENCE;
use crate::schema::meta::{CONDITION, LABEL_SELECTOR};
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "networking/v1";
    Ingress INGRESS object {
        always("spec", 2, Object(&INGRESS_SPEC)),
        always("status", 3, Object(&INGRESS_STATUS)),
    }
    IngressClass INGRESS_CLASS object {
        always("spec", 2, Object(&INGRESS_CLASS_SPEC)),
    }
    IPAddress IP_ADDRESS object {
        always("spec", 2, Object(&IP_ADDRESS_SPEC)).required(),
    }
    NetworkPolicy NETWORK_POLICY object {
        always("spec", 2, Object(&NETWORK_POLICY_SPEC)),
    }
    ServiceCIDR SERVICE_CIDR object {
        always("spec", 2, Object(&SERVICE_CIDR_SPEC)),
        always("status", 3, Object(&SERVICE_CIDR_STATUS)),
    }
    IngressSpec INGRESS_SPEC {
        when_set("ingressClassName", 4, Text),
        when_set("defaultBackend", 1, Object(&INGRESS_BACKEND)),
        unless_zero("tls", 2, List(&Object(&INGRESS_TLS))),
        unless_zero("rules", 3, List(&Object(&INGRESS_RULE))),
    }
    IngressStatus INGRESS_STATUS {
        always("loadBalancer", 1, Object(&INGRESS_LOAD_BALANCER_STATUS)),
    }
    IngressTLS INGRESS_TLS {
        unless_zero("hosts", 1, List(&Text)),
        unless_zero("secretName", 2, Text),
    }
    IngressRule INGRESS_RULE {
        unless_zero("host", 1, Text),
        when_set("http", 1, Object(&HTTP_INGRESS_RULE_VALUE)).within(&[2]),
    }
    HTTPIngressRuleValue HTTP_INGRESS_RULE_VALUE {
        always("paths", 1, List(&Object(&HTTP_INGRESS_PATH))),
    }
    HTTPIngressPath HTTP_INGRESS_PATH {
        unless_zero("path", 1, Text),
        or_null("pathType", 3, Text).one_of(values::PATH_TYPES).required(),
        always("backend", 2, Object(&INGRESS_BACKEND)).required(),
    }
    IngressBackend INGRESS_BACKEND {
        when_set("service", 4, Object(&INGRESS_SERVICE_BACKEND)),
        when_set("resource", 3, Object(&TYPED_LOCAL_OBJECT_REFERENCE)),
    }
    IngressServiceBackend INGRESS_SERVICE_BACKEND {
        always("name", 1, Text),
        always("port", 2, Object(&SERVICE_BACKEND_PORT)),
    }
    ServiceBackendPort SERVICE_BACKEND_PORT atomic {
        unless_zero("name", 1, Text),
        unless_zero("number", 2, Int32),
    }
    IngressLoadBalancerStatus INGRESS_LOAD_BALANCER_STATUS {
        unless_zero("ingress", 1, List(&Object(&INGRESS_LOAD_BALANCER_INGRESS))),
    }
    IngressLoadBalancerIngress INGRESS_LOAD_BALANCER_INGRESS {
        unless_zero("ip", 1, Text),
        unless_zero("hostname", 2, Text),
        unless_zero("ports", 4, List(&Object(&INGRESS_PORT_STATUS))),
    }
    IngressPortStatus INGRESS_PORT_STATUS {
        always("port", 1, Int32),
        always("protocol", 2, Text).one_of(values::PROTOCOLS),
        when_set("error", 3, Text),
    }
    IngressClassSpec INGRESS_CLASS_SPEC {
        unless_zero("controller", 1, Text),
        when_set("parameters", 2, Object(&INGRESS_CLASS_PARAMETERS_REFERENCE)),
    }
    IngressClassParametersReference INGRESS_CLASS_PARAMETERS_REFERENCE {
        when_set("apiGroup", 1, Text),
        always("kind", 2, Text),
        always("name", 3, Text),
        or_null("scope", 4, Text),
        when_set("namespace", 5, Text),
    }
    IPAddressSpec IP_ADDRESS_SPEC {
        when_set("parentRef", 1, Object(&PARENT_REFERENCE)).required(),
    }
    ParentReference PARENT_REFERENCE {
        unless_zero("group", 1, Text),
        unless_zero("resource", 2, Text).required(),
        unless_zero("namespace", 3, Text),
        unless_zero("name", 4, Text).required(),
    }
    NetworkPolicySpec NETWORK_POLICY_SPEC {
        always("podSelector", 1, Object(&LABEL_SELECTOR)),
        unless_zero("ingress", 2, List(&Object(&NETWORK_POLICY_INGRESS_RULE))),
        unless_zero("egress", 3, List(&Object(&NETWORK_POLICY_EGRESS_RULE))),
        unless_zero("policyTypes", 4, List(&Text)).one_of(values::NETWORK_POLICY_TYPES),
    }
    NetworkPolicyIngressRule NETWORK_POLICY_INGRESS_RULE {
        unless_zero("ports", 1, List(&Object(&NETWORK_POLICY_PORT))),
        unless_zero("from", 2, List(&Object(&NETWORK_POLICY_PEER))),
    }
    NetworkPolicyEgressRule NETWORK_POLICY_EGRESS_RULE {
        unless_zero("ports", 1, List(&Object(&NETWORK_POLICY_PORT))),
        unless_zero("to", 2, List(&Object(&NETWORK_POLICY_PEER))),
    }
    NetworkPolicyPort NETWORK_POLICY_PORT {
        when_set("protocol", 1, Text).one_of(values::PROTOCOLS),
        when_set("port", 2, IntOrString),
        when_set("endPort", 3, Int32),
    }
    NetworkPolicyPeer NETWORK_POLICY_PEER {
        when_set("podSelector", 1, Object(&LABEL_SELECTOR)),
        when_set("namespaceSelector", 2, Object(&LABEL_SELECTOR)),
        when_set("ipBlock", 3, Object(&IP_BLOCK)),
    }
    IPBlock IP_BLOCK {
        always("cidr", 1, Text),
        unless_zero("except", 2, List(&Text)),
    }
    ServiceCIDRSpec SERVICE_CIDR_SPEC {
        unless_zero("cidrs", 1, List(&Text)),
    }
    ServiceCIDRStatus SERVICE_CIDR_STATUS {
        unless_zero("conditions", 1, List(&Object(&CONDITION))).by_key("type"),
    }
}
