//! Kinds of `coordination.k8s.io`.

use super::meta::MetadataOnly;

/// A lease: only its identity.
pub type Lease<'a> = MetadataOnly<'a>;
