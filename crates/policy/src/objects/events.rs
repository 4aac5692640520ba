//! Events, of the core group and of `events.k8s.io`: one thing under two groups, with two spellings.

use serde::Deserialize;

use super::decode::{Text, or_default};

/// An event: only who reported it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Event<'a> {
    /// The reporter, in an event of the core group.
    #[serde(borrow, deserialize_with = "or_default")]
    pub source: EventSource<'a>,
    /// The reporter, in an event of `events.k8s.io`.
    #[serde(borrow, deserialize_with = "or_default")]
    pub deprecated_source: EventSource<'a>,
    /// Which instance of the reporting program, in both groups.
    #[serde(borrow)]
    pub reporting_instance: Text<'a>,
}

/// Who reported an event.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct EventSource<'a> {
    /// The node that the reporter runs on.
    #[serde(borrow)]
    pub host: Text<'a>,
}
