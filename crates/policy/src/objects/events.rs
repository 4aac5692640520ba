//! Events of the core group and of `events.k8s.io`: the same objects with different field names.

use serde::Deserialize;

use super::decode::{Text, or_default};

/// An event: only its source.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Event<'a> {
    /// The reporter, in an event of the core group.
    #[serde(deserialize_with = "or_default")]
    pub source: EventSource<'a>,
    /// The reporter, in an event of `events.k8s.io`.
    #[serde(deserialize_with = "or_default")]
    pub deprecated_source: EventSource<'a>,
    /// The instance of the reporting program, in both groups.
    pub reporting_instance: Text<'a>,
}

/// The source of an event.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct EventSource<'a> {
    /// The node on which the reporter runs.
    pub host: Text<'a>,
}
