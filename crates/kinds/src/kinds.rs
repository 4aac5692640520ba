//! The kinds that a server has: a table of rows, which it is given when it starts, and custom kinds.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_apimachinery::text::is_same;

use crate::custom::CustomKinds;
use crate::resource::Resource;
use crate::resources::{self, autoscalers, pods, rbac};

/// Whether the kind of a row can have a definition: Machines are a part of other projects, and known here for the approver.
pub fn may_be_defined(row: &Resource) -> bool {
    row.kind == "Machine"
}

/// The table of kinds, each in every version that is served. Rows live as long as the program. Copies of a table share
/// their custom kinds, which come and go while the server runs.
#[derive(Clone, Debug)]
pub struct Kinds {
    custom: Arc<CustomKinds>,
    rows: Vec<&'static Resource>,
    /// The rows by plural name and version, which hardly any of other groups have as well.
    by_path: BTreeMap<(&'static str, &'static str), Vec<&'static Resource>>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Kinds {
    /// A table of these rows. Of two rows for the same path the first counts.
    pub fn of(rows: impl IntoIterator<Item = &'static Resource>) -> Self {
        let mut kinds = Self { custom: Arc::default(), rows: Vec::new(), by_path: BTreeMap::new() };
        for row in rows {
            let same_path = kinds.by_path.entry((row.plural, row.version)).or_default();
            if !same_path.iter().any(|other| other.group == row.group) {
                same_path.push(row);
                kinds.rows.push(row);
            }
        }
        kinds
    }

    /// The kinds of this crate, with the old versions of roles, bindings and autoscalers.
    pub fn built_in() -> Self {
        let old = rbac::old::V1BETA1.iter().chain(&rbac::old::V1ALPHA1);
        Self::of(resources::ALL.iter().copied().chain([&pods::BINDINGS, &autoscalers::V1]).chain(old))
    }

    /// The same table with one row more.
    #[must_use]
    pub fn with(self, row: &'static Resource) -> Self {
        Self { custom: self.custom, ..Self::of(self.rows.into_iter().chain([row])) }
    }

    /// Those of the rows for which this holds, and all custom kinds.
    #[must_use]
    pub fn only(&self, holds: impl Fn(&Resource) -> bool) -> Self {
        let rows = self.built_in_rows().filter(|row| holds(row));
        Self { custom: Arc::clone(&self.custom), ..Self::of(rows) }
    }

    /// All rows, those of custom kinds as there are now.
    pub fn rows(&self) -> impl Iterator<Item = &'static Resource> {
        self.built_in_rows().filter(|row| !self.is_replaced(row)).chain(self.custom.rows())
    }

    /// Whether a definition describes the kind better than the row that the table was given.
    fn is_replaced(&self, row: &Resource) -> bool {
        may_be_defined(row) && self.custom.defines(row)
    }

    /// Whether a row that the table was given has these names, and no definition can take its place.
    pub fn is_reserved(&self, group: &str, plural: &str) -> bool {
        let mut rows = self.built_in_rows();
        rows.any(|row| row.group == group && row.plural == plural && !may_be_defined(row))
    }

    /// The rows that the table was given.
    pub fn built_in_rows(&self) -> impl Iterator<Item = &'static Resource> {
        self.rows.iter().copied()
    }

    /// The custom kinds.
    pub fn custom(&self) -> &Arc<CustomKinds> {
        &self.custom
    }

    /// The kinds that are stored, each in its stored version alone.
    pub fn stored(&self) -> impl Iterator<Item = &'static Resource> {
        self.built_in_stored().filter(|row| !self.is_replaced(row)).chain(self.custom.stored())
    }

    /// The kinds that the table was given and that are stored, each in its stored version alone.
    pub fn built_in_stored(&self) -> impl Iterator<Item = &'static Resource> {
        self.built_in_rows().filter(|row| row.action.is_none() && row.version_of.is_none())
    }

    /// The row that a path names.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        let rows = self.by_path.get(&(plural, version));
        let built_in = rows.and_then(|rows| rows.iter().copied().find(|row| is_same(row.group, group)));
        built_in.filter(|row| !self.is_replaced(row)).or_else(|| self.custom.find(group, version, plural))
    }

    /// The row of a document of this `apiVersion` and kind.
    pub fn of_document(&self, api_version: &str, kind: &str) -> Option<&'static Resource> {
        self.rows().find(|row| row.kind == kind && row.action.is_none() && row.api_version() == api_version)
    }
}
