//! Kinds of `policy`.

use super::meta::MetadataOnly;

/// The wish to evict a pod: only which.
pub type Eviction<'a> = MetadataOnly<'a>;
