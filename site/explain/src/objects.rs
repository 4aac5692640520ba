//! Finds the objects in a text: JSON documents one after the other, lists as `kubectl get -o json` prints them, and arrays.
//!
//! It decodes no object, and passes over nothing: what is no list is an object, whatever it is.

use std::borrow::Cow;

use portcullis_apimachinery::json::JsonError;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The text of one object, and where it stands.
#[derive(Debug)]
pub(crate) struct Piece<'t> {
    /// The object.
    pub(crate) json: &'t str,
    /// Its path in the document, such as `items[3]`; empty for the document itself.
    path: String,
}

impl Piece<'_> {
    /// An error of this object, with the place in the whole text.
    pub(crate) fn placed(&self, text: &str, error: JsonError) -> JsonError {
        error.within(text, self.offset(text), &self.path)
    }

    /// An error of a field of this object.
    pub(crate) fn fault(&self, text: &str, field: &str, reason: String) -> String {
        self.placed(text, JsonError::at(self.json, 1, field, reason)).to_string()
    }

    /// The line on which the object begins, from 1.
    pub(crate) fn line(&self, text: &str) -> usize {
        JsonError::at(text, self.offset(text).saturating_add(1), "", "").line
    }

    /// The object is a part of the text.
    fn offset(&self, text: &str) -> usize {
        self.json.as_ptr().addr().saturating_sub(text.as_ptr().addr())
    }
}

/// The fields of a document that say whether it is a list.
#[derive(Deserialize)]
struct Outline<'t> {
    #[serde(borrow)]
    kind: Option<&'t RawValue>,
    #[serde(borrow)]
    items: Option<&'t RawValue>,
}

/// The objects of a text, in its order.
///
/// # Errors
/// The text is not JSON. Without its end, nobody can say what belongs to which object.
pub(crate) fn find(text: &str) -> Result<Vec<Piece<'_>>, JsonError> {
    let mut found = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let json = document.map_err(|error| JsonError::of_decoding(text, &error))?.get();
        match elements(json) {
            Some(elements) => elements
                .into_iter()
                .zip(0u32..)
                .for_each(|(element, at)| add(element, format!("[{at}]"), &mut found)),
            None => add(json, String::new(), &mut found),
        }
    }
    Ok(found)
}

/// Adds an object, or the items of a list.
fn add<'t>(json: &'t str, path: String, found: &mut Vec<Piece<'t>>) {
    let Some(items) = items(json) else { return found.push(Piece { json, path }) };
    let dot = if path.is_empty() { "" } else { "." };
    found.extend(
        items
            .into_iter()
            .zip(0u32..)
            .map(|(json, at)| Piece { json, path: format!("{path}{dot}items[{at}]") }),
    );
}

/// The items, if this is a list. What has the kind of a list and no items is left whole; reading it fails.
fn items(json: &str) -> Option<Vec<&str>> {
    let outline: Outline<'_> = json.starts_with('{').then(|| serde_json::from_str(json).ok())??;
    let kind: Cow<'_, str> = serde_json::from_str(outline.kind?.get()).ok()?;
    if kind.ends_with("List") { elements(outline.items?.get()) } else { None }
}

fn elements(json: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = json.starts_with('[').then(|| serde_json::from_str(json).ok())??;
    Some(elements.into_iter().map(RawValue::get).collect())
}
