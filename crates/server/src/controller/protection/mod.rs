//! Volumes and claims in use are not removed: finalizers hold them until nobody uses them (AP-57).

mod claims;
mod volumes;

use kinds::Map;
use memchr::memmem;

use crate::registry::meta;

pub(super) use claims::ClaimProtection;
pub(super) use volumes::VolumeProtection;

/// The action for a finalizer that protects an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Todo {
    /// Nothing.
    Nothing,
    /// It is added, because the object is not being deleted and lacks it: it is older than the plugin that adds it.
    Add,
    /// It is removed when the object is unused.
    Remove,
}

impl Todo {
    fn of(object: &Map, finalizer: &str) -> Self {
        match (meta::is_terminating(object), meta::finalizers(object).contains(&finalizer)) {
            (true, true) => Self::Remove,
            (false, false) => Self::Add,
            _ => Self::Nothing,
        }
    }

    /// Returns what may have to be done about a stored object, without reading it.
    fn at_first_sight(object: &[u8], finalizer: &str) -> Self {
        let has = |word: &str| memmem::find(object, word.as_bytes()).is_some();
        match (has(finalizer), has("\"deletionTimestamp\":\"")) {
            (false, _) => Self::Add,
            (true, true) => Self::Remove,
            (true, false) => Self::Nothing,
        }
    }
}
