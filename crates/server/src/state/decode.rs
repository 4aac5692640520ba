//! Decodes one object of a file, strictly.

use std::borrow::Cow;

use kinds::resources::rbac::legacy;
use policy::objects::{Kind, Object};
use portcullis_apimachinery::json::{self, JsonError};
use serde_json::Value;

use super::split::{ItemType, Piece, Pieces, start_of};

/// The result of decoding an object of a file.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are objects, and each is handed on at once")]
pub(super) enum Decoded<'t> {
    /// An object that the engine uses.
    Object(Object<'t>),
    /// An object of a kind that it does not use.
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
pub(super) fn decode<'t>(
    text: &str,
    pieces: &'t Pieces<'t>,
    piece: Piece<'t>,
) -> Result<Decoded<'t>, JsonError> {
    decode_alone(piece.text, item_type(pieces, piece)).map_err(|error| place(text, piece, error))
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

fn decode_alone<'t>(json: &'t str, list: Option<&'t ItemType>) -> Result<Decoded<'t>, JsonError> {
    let fault = |path: &str, reason: String| JsonError::at(json, 1, path, reason);
    let (api_version, kind) = type_alone(json, list)?;
    let Some(known) = Kind::of(&api_version, &kind) else {
        return Ok(Decoded::Ignored { api_version, kind });
    };
    let object = parse(known, &api_version, json)?;
    object.check_key().map_err(|(field, reason)| fault(field, reason))?;
    Ok(Decoded::Object(object))
}

/// Decodes an object; RBAC objects of old versions are converted (RB-121 to RB-124).
fn parse<'t>(kind: Kind, api_version: &str, json: &'t str) -> Result<Object<'t>, JsonError> {
    let undecodable = |error: serde_json::Error| JsonError::of_decoding(json, &error);
    if !matches!(api_version, legacy::V1ALPHA1 | legacy::V1BETA1) {
        return Object::parse(kind, json).map_err(undecodable);
    }
    let mut document: Value = serde_json::from_str(json).map_err(undecodable)?;
    if let Some(fields) = document.as_object_mut() {
        fields.insert("apiVersion".to_owned(), Value::String(api_version.to_owned()));
    }
    legacy::upgrade(&mut document);
    let upgraded = document.to_string();
    let object =
        Object::parse(kind, &upgraded).map_err(|error| JsonError::at(json, 1, "", error.to_string()))?;
    object.into_owned_rbac().ok_or_else(|| JsonError::at(json, 1, "kind", "not a kind of that API version"))
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
