//! Splits the text of a file into objects (documents, and the items of lists) without parsing them.
//!
//! One cheap pass, so that the expensive ones (the strict check and decoding) can run on all cores. It only finds where
//! one object ends and the next begins.

use std::borrow::Cow;
use std::fmt;

use hashbrown::HashSet;
use policy::objects::decode::Text;
use portcullis_apimachinery::json::{self, JsonError};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// One object of a file, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'t> {
    /// The object's text.
    pub(super) text: &'t str,
    /// The list item, if the object is in a list.
    pub(super) item: Option<Item>,
}

/// The position of an item: its list and its index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) list: u32,
    pub(super) index: u32,
}

/// The type of a list's items, if the list sets it for all of them as a `PodList` does.
#[derive(Clone, Debug)]
pub(super) struct ItemType {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct Pieces<'t> {
    /// The objects in the order of the file.
    pub(super) pieces: Vec<Piece<'t>>,
    /// The lists of the file.
    pub(super) lists: Vec<Option<ItemType>>,
}

/// Returns the offset of `part`, which is a substring of `text`.
pub(super) fn start_of(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Splits a file of one or more JSON values.
///
/// # Errors
/// The text is not JSON, a value is not an object, or a list is malformed.
pub(super) fn split(text: &str) -> Result<Pieces<'_>, JsonError> {
    let mut found = Pieces::default();
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Outline<'_>>();
    loop {
        let start = documents.byte_offset();
        let Some(outline) = documents.next() else { return Ok(found) };
        let end = documents.byte_offset();
        match outline {
            Ok(outline) => found.add(text, text.get(start..end).unwrap_or_default().trim_ascii(), outline)?,
            Err(error) => return Err(syntax_error(text, start, &error)),
        }
    }
}

/// Moves an error of the document at offset `start` to the lines of the file.
fn syntax_error(text: &str, start: usize, error: &serde_json::Error) -> JsonError {
    let whole = JsonError::of_decoding(text, error);
    let document = text.get(start..).unwrap_or_default();
    // The strict check returns the field. It stops at the same error or an earlier one, except that it accepts JSON
    // that is not an object.
    match json::check(document) {
        Err(strict) if !error.is_data() || start.saturating_add(strict.offset) <= whole.offset => {
            strict.within(text, start, "")
        }
        _ => whole,
    }
}

impl<'t> Pieces<'t> {
    fn add(&mut self, text: &'t str, document: &'t str, outline: Outline<'t>) -> Result<(), JsonError> {
        let start = start_of(text, document);
        let fault = |path: &str, reason: &str| JsonError::at(text, start.saturating_add(1), path, reason);
        let Outline { api_version, kind, items, rest } = outline;
        let kind = kind.as_deref().unwrap_or_default();
        let api_version = api_version.as_deref().unwrap_or_default();
        let is_generic = kind == "List" && api_version == "v1";
        let items = match (items, is_generic) {
            (Some(Items::List(items)), _) => items,
            (Some(Items::Null), _) if kind.ends_with("List") => Vec::new(),
            (Some(_), true) => return Err(fault("items", "must be a list")),
            (None, true) => return Err(fault("items", "is missing: a List has items")),
            _ => {
                self.pieces.push(Piece { text: document, item: None });
                return Ok(());
            }
        };
        if api_version.is_empty() {
            return Err(fault("apiVersion", "is missing or not a string: a list has apiVersion and kind"));
        }
        let item_type = match kind.strip_suffix("List") {
            Some("") if is_generic => None,
            Some(kind) if !kind.is_empty() => {
                Some(ItemType { api_version: api_version.to_owned(), kind: kind.to_owned() })
            }
            _ => return Err(fault("kind", "an object with items is a list, and its kind ends in List")),
        };
        self.check_rest(text, &rest)?;
        let list = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
        self.lists.push(item_type);
        self.pieces.extend(
            items
                .into_iter()
                .zip(0u32..)
                .map(|(item, index)| Piece { text: item.get(), item: Some(Item { list, index }) }),
        );
        Ok(())
    }

    /// Checks the other fields of a list.
    fn check_rest(&self, text: &str, rest: &[(Cow<'t, str>, &'t RawValue)]) -> Result<(), JsonError> {
        let mut keys = HashSet::new();
        for (key, value) in rest {
            let start = start_of(text, value.get());
            let mut path = String::new();
            json::push_key(&mut path, key);
            if !keys.insert(key) {
                return Err(JsonError::at(text, start, path, "the key is given twice"));
            }
            json::check(value.get()).map_err(|error| error.within(text, start, &path))?;
        }
        Ok(())
    }
}

/// The top-level fields of a document.
#[derive(Default)]
struct Outline<'t> {
    api_version: Option<Cow<'t, str>>,
    kind: Option<Cow<'t, str>>,
    items: Option<Items<'t>>,
    rest: Vec<(Cow<'t, str>, &'t RawValue)>,
}

/// The field `items`.
enum Items<'t> {
    List(Vec<&'t RawValue>),
    Null,
    /// Another value, so the document is not a list.
    Other,
}

impl<'de: 't, 't> Deserialize<'de> for Outline<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OutlineVisitor;
        impl<'de> Visitor<'de> for OutlineVisitor {
            type Value = Outline<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kubernetes object or list, as kubectl get -o json prints it")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut outline = Outline::default();
                while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
                    if key == "items" {
                        if outline.items.replace(map.next_value()?).is_some() {
                            return Err(A::Error::custom("the key `items` is given twice"));
                        }
                        continue;
                    }
                    let value: &'de RawValue = map.next_value()?;
                    match &*key {
                        "apiVersion" => outline.api_version = text(value),
                        "kind" => outline.kind = text(value),
                        _ => {}
                    }
                    outline.rest.push((key, value));
                }
                Ok(outline)
            }
        }
        deserializer.deserialize_any(OutlineVisitor)
    }
}

/// Returns the string in a value, if it is one.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0)
}

impl<'de: 't, 't> Deserialize<'de> for Items<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;
        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Items::List(items))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Items::Null)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Items::Other)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Items::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Items::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Items::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Items::Other)
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Items::Other)
            }
        }
        deserializer.deserialize_any(ItemsVisitor)
    }
}
