//! The lookups of NodeRestriction (NR-8), and the facts that they return.

use std::fmt;
use std::sync::Arc;

/// The lookups of cluster objects. They are served from memory, never from a live read, and may be stale (NR-8).
pub trait Lookup {
    /// A pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodFacts>>;
    /// The unique id of a node.
    fn node(&self, name: &str) -> Option<Uid>;
    /// The unique id of a service account.
    fn service_account(&self, namespace: &str, name: &str) -> Option<Uid>;
    /// The volume that a persistent volume claim is bound to, or empty.
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<str>>;
    /// A persistent volume.
    fn volume(&self, name: &str) -> Option<VolumeFacts>;
    /// The audiences of the tokens that a CSI driver gets (NR-71).
    fn csi_driver(&self, name: &str) -> Option<Arc<[Box<str>]>>;
}

/// The facts about a pod that rules use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// The pod's unique id.
    pub uid: Uid,
    /// The node that it is bound to, or empty.
    pub node_name: Arc<str>,
    /// Its service account, or empty.
    pub service_account: Arc<str>,
    /// Whether it is a mirror pod (MP-1).
    pub is_mirror: bool,
    /// The token sources of its volumes (NR-67, NR-68), in no particular order.
    pub token_sources: Box<[TokenSource]>,
}

/// A token source of a pod's volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TokenSource {
    /// A projected token for this audience; empty means the API server (NR-67).
    Audience(Arc<str>),
    /// The driver that serves this claim (NR-68, 1 and 2).
    Claim(Box<str>),
    /// This driver (NR-68, 3 and 4).
    Driver(Arc<str>),
}

/// The facts about a persistent volume that rules use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFacts {
    /// The CSI driver that serves the volume (NR-69), if any does.
    pub driver: Option<Arc<str>>,
}

/// The UID of an object. It compares byte for byte with text; the usual form takes 16 bytes instead of 36 on the heap.
#[derive(Clone, PartialEq, Eq)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    /// A UUID in lower case with hyphens; exactly one text has this value.
    Uuid([u8; 16]),
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| Form::Other(text.into()), Form::Uuid))
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, text: &str) -> bool {
        match &self.0 {
            Form::Uuid(bytes) => uuid(text).as_ref() == Some(bytes),
            Form::Other(other) => &**other == text,
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(bytes) => write!(f, "{:032x}", u128::from_be_bytes(*bytes)),
            Form::Other(text) => f.write_str(text),
        }
    }
}

/// Parses a UUID in its usual form only.
fn uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut value = 0_u128;
    for (at, byte) in text.bytes().enumerate() {
        let digit = match (at, byte) {
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => byte - b'0',
            (_, b'a'..=b'f') => byte - b'a' + 10,
            _ => return None,
        };
        value = value << 4 | u128::from(digit);
    }
    Some(value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_uid_equals_its_own_text_and_no_other(
            a in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9A-Fa-f-]{35,37}|.{0,5}",
            b in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9A-Fa-f-]{35,37}|.{0,5}",
        ) {
            let uid = Uid::from(a.as_str());
            prop_assert!(uid == *a);
            prop_assert_eq!(uid == *b, a == b);
            prop_assert_eq!(uid == *a.to_uppercase(), a == a.to_uppercase());
        }
    }
}
