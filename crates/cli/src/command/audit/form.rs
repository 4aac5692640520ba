//! The forms of the answer (AU-130).

use clap::ValueEnum;

/// A form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    Sarif,
    Html,
}

impl Form {
    /// Whether it shows the files and lines of the evidence.
    pub(super) fn has_places(self) -> bool {
        !matches!(self, Self::Table | Self::Name)
    }
}
