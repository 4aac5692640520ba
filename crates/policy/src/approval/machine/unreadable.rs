//! Machines that exist but cannot be read. They are never taken for absent (NB-89, NB-114).

/// A Machine that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    name: String,
    texts: Vec<String>,
}

impl Unreadable {
    /// Creates one with the name for people, and all texts that its JSON contains; no texts if the JSON is unknown.
    pub fn new(name: String, texts: Vec<String>) -> Self {
        Self { name, texts }
    }

    /// The name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The texts in the object.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    /// Returns whether it may be the Machine of this name.
    pub fn may_be(&self, name: &str) -> bool {
        self.texts.is_empty() || self.texts().any(|text| super::names::same_host(text, name))
    }
}
