//! Kinds of `policy`.

use super::meta::MetadataOnly;

/// An eviction of a pod: only the pod's identity.
pub type Eviction<'a> = MetadataOnly<'a>;
