//! The forms of the answer (AU-130).

use crate::output::Forms;

/// A form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    Sarif,
    Html,
}

impl Forms for Form {
    const FORMS: &'static [(&'static str, Self)] = &[
        ("table", Self::Table),
        ("wide", Self::Wide),
        ("json", Self::Json),
        ("yaml", Self::Yaml),
        ("name", Self::Name),
        ("sarif", Self::Sarif),
        ("html", Self::Html),
    ];
}

impl Form {
    /// Whether it shows the files and lines of the evidence.
    pub(super) fn has_places(self) -> bool {
        !matches!(self, Self::Table | Self::Name)
    }
}
