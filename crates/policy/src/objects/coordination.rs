//! Kinds of `coordination.k8s.io`.

use super::meta::MetadataOnly;

/// A lease: only whose it is.
pub type Lease<'a> = MetadataOnly<'a>;
