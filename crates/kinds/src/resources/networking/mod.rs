//! Kinds of `networking.k8s.io`: ingresses, network policies, and the addresses of services.
//!
//! They are kept for those who carry them out: nothing here routes or blocks traffic.
//!
//! DIVERGES: services get their addresses from a fixed range. Other ServiceCIDRs add nothing to it, and an address that is
//! taken has no IPAddress.

mod addresses;
mod ingresses;
mod policies;

pub use addresses::{IP_ADDRESSES, SERVICE_CIDRS};
pub use ingresses::{INGRESS_CLASSES, INGRESSES};
pub use policies::NETWORK_POLICIES;

use crate::resource::{MetadataChecks, Resource};

/// The values shared by the kinds of the group.
const USUAL: Resource = Resource {
    group: "networking.k8s.io",
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    ..Resource::USUAL
};
