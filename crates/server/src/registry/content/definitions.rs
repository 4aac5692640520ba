//! The definitions of custom kinds in a store, by which it is known which other objects are somebody's.

use kinds::Map;
use kinds::custom::{RuleCompiler, Rules, Schema};
use kinds::resources::definitions::DEFINITIONS;
use portcullis_apimachinery::field_error::FieldErrors;
use portcullis_store::embedded::Reader;
use portcullis_store::etcd::Direct;
use portcullis_store::{Entry, Revision};

use super::{Bytes, Content, ContentError, Item};
use crate::match_conditions;
use crate::registry::{custom_kinds, storage};

/// Compiles no rules: what is stored already is not validated.
struct Unruled;

impl RuleCompiler for Unruled {
    fn compile(&self, _: &Schema, _: &str) -> Result<Box<dyn Rules>, FieldErrors> {
        Ok(Box::new(NoRules))
    }
}

/// See [`Unruled`].
#[derive(Debug)]
struct NoRules;

impl Rules for NoRules {
    fn check(&self, _: &Schema, _: &Map, _: Option<&Map>) -> FieldErrors {
        FieldErrors::new()
    }
}

impl Content {
    /// Whether a key is that of the definition of a custom kind.
    #[must_use]
    pub fn is_definition(key: &str) -> bool {
        key.starts_with(&storage::prefix(&DEFINITIONS, ""))
    }

    /// Takes in a definition in the form of [`Item::Object`], so that [`Content::read`] reads the objects of its kind.
    ///
    /// # Errors
    /// No server could serve the kind: a sentence that begins with the name of the definition.
    pub fn define(&self, key: &str, json: &Bytes) -> Result<(), String> {
        self.take_in(key, json, &match_conditions::RULES)
    }

    fn take_in(&self, key: &str, json: &Bytes, compiler: &dyn RuleCompiler) -> Result<(), String> {
        let (_, name) = storage::place(&DEFINITIONS, key);
        let entry = Entry::new(key, json.clone(), Revision(0), Revision(0));
        let definition = custom_kinds::read(&self.kinds, name, &entry, compiler)?;
        let change = self.kinds.custom().change([(name.into(), Some(definition))]);
        change.map_err(|error| format!("cannot be taken in: {error}"))
    }

    /// Takes in the definitions of an etcd at a revision. What cannot be served is left alone, with its objects.
    pub(super) async fn learn_from_etcd(&self, direct: &Direct, at: Revision) -> Result<(), ContentError> {
        let mut left = self.layout.folder(&DEFINITIONS).map(|folder| direct.below(&folder));
        while let Some(range) = left {
            let page = direct.page(&range, at).await?;
            for sealed in &page.found {
                if let Item::Object { key, json, .. } = self.item(self.location.prefix(), sealed) {
                    self.learn(&key, &json);
                }
            }
            left = page.rest;
        }
        Ok(())
    }

    /// As [`Content::learn_from_etcd`], of a file.
    pub(super) fn learn_from_file(&self, reader: &Reader) -> Result<(), ContentError> {
        let prefix = storage::prefix(&DEFINITIONS, "");
        let mut after = prefix.clone();
        loop {
            let page = reader.page(Some(&after))?;
            for record in &page {
                if !record.key.starts_with(&prefix) {
                    return Ok(());
                }
                if let Ok(opened) = self.open_record(&record.key, &record.sealed) {
                    self.learn(&record.key, &opened.value);
                }
            }
            let Some(last) = page.last() else { return Ok(()) };
            after = last.key.to_string();
        }
    }

    fn learn(&self, key: &str, json: &Bytes) {
        if let Err(why) = self.take_in(key, json, &Unruled) {
            tracing::warn!(key, why, "objects of this kind are left alone");
        }
    }
}
