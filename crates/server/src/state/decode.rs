//! Decodes one object of a file, strictly: for decisions, or for the audit (AU-11).

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::hash::Hash;

use kinds::resources::rbac::legacy;
use policy::audit::state::{Item, ItemKind};
use policy::objects::{Kind, Object};
use portcullis_apimachinery::json::{self, JsonError};
use serde_json::Value;

use super::split::{ItemType, Piece, Pieces, start_of};

/// What a state is read for: the kinds that are decoded, and what each object becomes.
pub trait Reading: Sync + 'static {
    /// A kind.
    type Kind: Copy + Ord + Hash + Display + Debug + Send;
    /// An object.
    type Object<'t>: Send;

    /// The kind with this `apiVersion` and `kind`, if it is read.
    fn kind(api_version: &str, kind: &str) -> Option<Self::Kind>;

    /// Decodes an object of a kind.
    ///
    /// # Errors
    /// A field that is read has a value of another type.
    fn parse(kind: Self::Kind, json: &str) -> Result<Self::Object<'_>, serde_json::Error>;

    /// Takes an object of the RBAC API over, which was upgraded from an old version.
    fn upgraded<'t>(object: Object<'static>) -> Self::Object<'t>;

    /// Checks name and namespace.
    ///
    /// # Errors
    /// The field at fault, and what is wrong with it.
    fn check_key(object: &Self::Object<'_>) -> Result<(), (&'static str, String)>;

    /// The kind, namespace (empty for cluster-scoped objects) and name.
    fn key<'o>(object: &'o Self::Object<'_>) -> (Self::Kind, &'o str, &'o str);
}

/// Reads what decisions use.
#[derive(Clone, Copy, Debug)]
pub struct ForDecisions;

/// Reads what the audit uses (AU-12).
#[derive(Clone, Copy, Debug)]
pub struct ForAudit;

impl Reading for ForDecisions {
    type Kind = Kind;
    type Object<'t> = Object<'t>;

    fn kind(api_version: &str, kind: &str) -> Option<Kind> {
        Kind::of(api_version, kind)
    }

    fn parse(kind: Kind, json: &str) -> Result<Object<'_>, serde_json::Error> {
        Object::parse(kind, json)
    }

    fn upgraded<'t>(object: Object<'static>) -> Object<'t> {
        object
    }

    fn check_key(object: &Object<'_>) -> Result<(), (&'static str, String)> {
        object.check_key()
    }

    fn key<'o>(object: &'o Object<'_>) -> (Kind, &'o str, &'o str) {
        let (namespace, name) = object.key();
        (object.kind(), namespace, name)
    }
}

impl Reading for ForAudit {
    type Kind = ItemKind;
    type Object<'t> = Item<'t>;

    fn kind(api_version: &str, kind: &str) -> Option<ItemKind> {
        ItemKind::of(api_version, kind)
    }

    fn parse(kind: ItemKind, json: &str) -> Result<Item<'_>, serde_json::Error> {
        Item::parse(kind, json)
    }

    fn upgraded<'t>(object: Object<'static>) -> Item<'t> {
        Item::of(object)
    }

    fn check_key(item: &Item<'_>) -> Result<(), (&'static str, String)> {
        item.check_key()
    }

    fn key<'o>(item: &'o Item<'_>) -> (ItemKind, &'o str, &'o str) {
        let (namespace, name) = item.key();
        (item.kind(), namespace, name)
    }
}

/// The result of decoding an object of a file.
#[derive(Debug)]
pub(super) enum Decoded<'t, O> {
    /// An object of a kind that is read.
    Object(O),
    /// An object of another kind.
    Ignored {
        /// The API group and version.
        api_version: Cow<'t, str>,
        /// Its kind.
        kind: Cow<'t, str>,
    },
}

/// Validates and decodes one piece of `text`.
///
/// # Errors
/// The piece is not strict JSON, not an object with a type, of a type that no state contains, or not decodable as its
/// kind; it has no name; or its namespace is missing, or set for a cluster-scoped kind.
pub(super) fn decode<'t, R: Reading>(
    text: &str,
    pieces: &'t Pieces<'t>,
    piece: Piece<'t>,
) -> Result<Decoded<'t, R::Object<'t>>, JsonError> {
    decode_alone::<R>(piece.text, item_type(pieces, piece)).map_err(|error| place(text, piece, error))
}

/// Creates an error at the start of a piece.
pub(super) fn fault(text: &str, piece: Piece<'_>, path: &str, reason: impl Into<String>) -> JsonError {
    place(text, piece, JsonError::at(piece.text, 1, path, reason))
}

fn place(text: &str, piece: Piece<'_>, error: JsonError) -> JsonError {
    let path = piece.item.map(|item| format!("items[{}]", item.index)).unwrap_or_default();
    error.within(text, start_of(text, piece.text), &path)
}

fn item_type<'t>(pieces: &'t Pieces<'t>, piece: Piece<'t>) -> Option<&'t ItemType> {
    pieces.lists.get(usize::try_from(piece.item?.list).ok()?)?.as_ref()
}

/// Returns the `apiVersion` and `kind` of one piece of `text`, and checks that it is strict JSON.
///
/// # Errors
/// See [`decode`], except that nothing is decoded.
pub(super) fn type_of<'t>(
    text: &str,
    pieces: &'t Pieces<'t>,
    piece: Piece<'t>,
) -> Result<(Cow<'t, str>, Cow<'t, str>), JsonError> {
    type_alone(piece.text, item_type(pieces, piece)).map_err(|error| place(text, piece, error))
}

fn type_alone<'t>(
    json: &'t str,
    list: Option<&'t ItemType>,
) -> Result<(Cow<'t, str>, Cow<'t, str>), JsonError> {
    let fault = |path: &str, reason: String| JsonError::at(json, 1, path, reason);
    if !json.starts_with('{') {
        json::check(json)?;
        return Err(fault("", "not an object: a state holds Kubernetes objects".to_owned()));
    }
    let found = json::type_meta(json)?;
    let api_version = type_field("apiVersion", found.api_version, list.map(|l| l.api_version.as_str()))
        .map_err(|reason| fault("apiVersion", reason))?;
    let kind = type_field("kind", found.kind, list.map(|l| l.kind.as_str()))
        .map_err(|reason| fault("kind", reason))?;
    if let Some(reason) = misplaced(&api_version, &kind) {
        return Err(fault("kind", reason.to_owned()));
    }
    Ok((api_version, kind))
}

fn decode_alone<'t, R: Reading>(
    json: &'t str,
    list: Option<&'t ItemType>,
) -> Result<Decoded<'t, R::Object<'t>>, JsonError> {
    let fault = |path: &str, reason: String| JsonError::at(json, 1, path, reason);
    let (api_version, kind) = type_alone(json, list)?;
    let Some(known) = R::kind(&api_version, &kind) else {
        return Ok(Decoded::Ignored { api_version, kind });
    };
    let object = match upgraded(&api_version, &kind, json)? {
        Some(object) => R::upgraded(object),
        None => R::parse(known, json).map_err(|error| JsonError::of_decoding(json, &error))?,
    };
    R::check_key(&object).map_err(|(field, reason)| fault(field, reason))?;
    Ok(Decoded::Object(object))
}

/// Converts an RBAC object of an old version (RB-121 to RB-124); none for an object of another version.
fn upgraded(api_version: &str, kind: &str, json: &str) -> Result<Option<Object<'static>>, JsonError> {
    if !matches!(api_version, legacy::V1ALPHA1 | legacy::V1BETA1) {
        return Ok(None);
    }
    let wrong_kind = || JsonError::at(json, 1, "kind", "not a kind of that API version");
    let known = Kind::of(api_version, kind).ok_or_else(wrong_kind)?;
    let undecodable = |error: serde_json::Error| JsonError::of_decoding(json, &error);
    let mut document: Value = serde_json::from_str(json).map_err(undecodable)?;
    if let Some(fields) = document.as_object_mut() {
        fields.insert("apiVersion".to_owned(), Value::String(api_version.to_owned()));
    }
    legacy::upgrade(&mut document);
    let upgraded = document.to_string();
    let object =
        Object::parse(known, &upgraded).map_err(|error| JsonError::at(json, 1, "", error.to_string()))?;
    object.into_owned_rbac().map(Some).ok_or_else(wrong_kind)
}

/// Returns a type field of an object, or of its list; if both are set they must agree.
fn type_field<'t>(
    field: &str,
    own: Option<Cow<'t, str>>,
    list: Option<&'t str>,
) -> Result<Cow<'t, str>, String> {
    match (own.filter(|own| !own.is_empty()), list) {
        (Some(own), Some(list)) if own != list => {
            Err(format!("the {field} {own:?} does not match the list, whose items are {list:?}"))
        }
        (Some(own), _) => Ok(own),
        (None, Some(list)) => Ok(Cow::Borrowed(list)),
        (None, None) => Err("is missing or not a string: every object has apiVersion and kind".to_owned()),
    }
}

/// Returns why objects of a type can never be part of a state, if so.
fn misplaced(api_version: &str, kind: &str) -> Option<&'static str> {
    match (api_version, kind) {
        ("v1", "Status") => Some("a Status is the answer to a failed request, not an object: ask again"),
        ("v1", "List") => Some("a list within a list: include only its items"),
        (version, "Table") if version.starts_with("meta.k8s.io/") => {
            Some("a Table is for people: use the output format json or yaml")
        }
        _ => None,
    }
}
