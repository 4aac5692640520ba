//! Schemas of leases.

use crate::schema::Shape::{Int32, MicroTime, Object, Text};
use crate::schema::table::{always, types, when_set};

types! {
    "coordination/v1";
    Lease LEASE object {
        always("spec", 2, Object(&LEASE_SPEC)),
    }
    LeaseSpec LEASE_SPEC {
        when_set("holderIdentity", 1, Text),
        when_set("leaseDurationSeconds", 2, Int32),
        when_set("acquireTime", 3, MicroTime),
        when_set("renewTime", 4, MicroTime),
        when_set("leaseTransitions", 5, Int32),
        when_set("strategy", 6, Text),
        when_set("preferredHolder", 7, Text),
    }
}
