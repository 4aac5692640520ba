//! The warnings of admission for the client, and its annotations for the audit log.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most warnings that a request keeps. An answer shows fewer.
const WARNINGS: usize = 1000;

/// See the module.
#[derive(Default)]
pub(crate) struct Remarks(Mutex<Said>);

#[derive(Default)]
struct Said {
    warnings: Vec<String>,
    annotations: Vec<(Cow<'static, str>, String)>,
}

impl Remarks {
    /// Adds warnings, which the client also gets with a refusal.
    pub(super) fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        let mut said = self.said();
        let room = WARNINGS.saturating_sub(said.warnings.len());
        said.warnings.extend(warnings.into_iter().take(room));
    }

    /// Adds an annotation. Of two with the same key the last counts.
    pub(super) fn annotate(&self, key: impl Into<Cow<'static, str>>, value: String) {
        let key = key.into();
        let mut said = self.said();
        said.annotations.retain(|(known, _)| *known != key);
        said.annotations.push((key, value));
    }

    /// Takes the warnings.
    pub(super) fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.said().warnings)
    }

    /// Takes the annotations.
    pub(super) fn annotations(&self) -> Vec<(Cow<'static, str>, String)> {
        std::mem::take(&mut self.said().annotations)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
