//! The names of a custom kind.

/// The names of a kind besides those that its row has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The singular name: `crontab`.
    pub singular: String,
    /// The kind of lists: `CronTabList`.
    pub list_kind: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Categories for kubectl.
    pub categories: Vec<String>,
}
