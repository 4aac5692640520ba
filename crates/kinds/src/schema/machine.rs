//! Schemas of machines (NB-120, NB-123): only the fields that are read have types, all others are kept unchanged.

use crate::schema::Shape::{Bool, List, Object, Text, Time};
use crate::schema::meta::OBJECT_META;
use crate::schema::table::{API_VERSION, KIND, REST, always, types, when_set};

/// Defines the machine types of one group and version.
macro_rules! machines {
    ($package:literal; $machine:ident $spec:ident $status:ident $reference:ident $address:ident $condition:ident
        { $($more:expr),* $(,)? }) => {
        types! {
            $package;
            Machine $machine {
                KIND,
                API_VERSION,
                always("metadata", 0, Object(&OBJECT_META)),
                when_set("spec", 0, Object(&$spec)),
                when_set("status", 0, Object(&$status)),
            }
            MachineSpec $spec {
                when_set("clusterName", 0, Text),
                when_set("providerID", 0, Text),
                REST,
            }
            MachineStatus $status {
                when_set("nodeRef", 0, Object(&$reference)),
                when_set("addresses", 0, List(&Object(&$address))),
                when_set("phase", 0, Text),
                when_set("conditions", 0, List(&Object(&$condition))),
                $($more,)*
                REST,
            }
            MachineNodeReference $reference {
                when_set("kind", 0, Text),
                when_set("name", 0, Text),
                when_set("uid", 0, Text),
                REST,
            }
            MachineAddress $address {
                when_set("type", 0, Text),
                when_set("address", 0, Text),
                REST,
            }
            MachineCondition $condition {
                when_set("type", 0, Text),
                when_set("status", 0, Text),
                when_set("reason", 0, Text),
                when_set("message", 0, Text),
                when_set("lastTransitionTime", 0, Time),
                REST,
            }
        }
    };
}

machines! {
    "machine.openshift.io/v1beta1";
    OPENSHIFT_MACHINE OPENSHIFT_SPEC OPENSHIFT_STATUS OPENSHIFT_REFERENCE OPENSHIFT_ADDRESS OPENSHIFT_CONDITION {}
}

machines! {
    "cluster.x-k8s.io/v1beta1";
    CLUSTER_V1BETA1_MACHINE CLUSTER_V1BETA1_SPEC CLUSTER_V1BETA1_STATUS CLUSTER_V1BETA1_REFERENCE
    CLUSTER_V1BETA1_ADDRESS CLUSTER_V1BETA1_CONDITION {
        when_set("bootstrapReady", 0, Bool),
        when_set("infrastructureReady", 0, Bool),
    }
}

machines! {
    "cluster.x-k8s.io/v1beta2";
    CLUSTER_MACHINE CLUSTER_SPEC CLUSTER_STATUS CLUSTER_REFERENCE CLUSTER_ADDRESS CLUSTER_CONDITION {
        when_set("initialization", 0, Object(&CLUSTER_INITIALIZATION)),
    }
}

types! {
    "cluster.x-k8s.io/v1beta2";
    MachineInitializationStatus CLUSTER_INITIALIZATION {
        when_set("bootstrapDataSecretCreated", 0, Bool),
        when_set("infrastructureProvisioned", 0, Bool),
        REST,
    }
}
