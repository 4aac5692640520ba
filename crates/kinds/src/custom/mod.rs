//! Custom kinds: what a server makes of a CustomResourceDefinition. A definition is read once into schemas, columns and
//! rules; a row of the table of kinds then leads to it, so custom kinds take the same ways as all others.
//!
//! Never checks the definitions themselves: see [`crate::resources::definitions`].

mod columns;
mod defaults;
mod definition;
mod embedded;
mod field_path;
mod formats;
mod json_path;
mod lists;
mod names;
mod ownership;
mod path;
mod pattern;
mod prune;
mod ratchet;
mod row;
mod rules;
mod scale;
mod schema;
mod table;
#[cfg(test)]
mod tests;
mod values;
pub(crate) mod version;

pub use defaults::default;
pub use definition::Definition;
pub use field_path::FieldPath;
pub use formats::Format;
pub use json_path::JsonPath;
pub use names::Names;
pub use ownership::{ObjectSchema, Structural};
pub use prune::{prune, prune_telling};
pub use ratchet::{Old, OldEntries};
pub use rules::{RuleCompiler, Rules};
pub use schema::{Additional, JsonType, Limits, ListType, Rule, Schema};
pub use table::{CustomKinds, NoRoom};
pub use values::{WHOLE, validate};

pub(crate) use embedded::check_value as check_embedded;
pub(crate) use lists::check_value as check_lists;
pub(crate) use pattern::compile as compile_pattern;
pub(crate) use prune::prune_value;
pub(crate) use values::validate_at;
