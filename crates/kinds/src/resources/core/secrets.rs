//! Secrets, some of well-known types.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::config_maps::{MAX_SIZE, decoded_size, immutable_errors};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Resource, Selectable};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::data_key;
use crate::schema;
use crate::table::{Column, Row};

/// The row of Secrets.
pub static SECRETS: Resource = Resource {
    kind: "Secret",
    plural: "secrets",
    schema: &schema::core::small::SECRET,
    selectable: &[Selectable::new("type", |secret| Cow::Borrowed(secret.text("type")))],
    default,
    validate_create: validate,
    validate_update,
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// The annotation with the service account name of a token (AP-132).
pub const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";
/// The type of tokens of service accounts.
pub const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

/// Sets the default type Opaque, and merges `stringData` over `data`.
fn default(secret: &mut Map) {
    secret.default_text("type", "Opaque");
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let Some(data) = secret.object_or_new("data") else { return };
    for (key, value) in texts {
        data.insert(key, Value::from(STANDARD.encode(value.as_str().unwrap_or_default())));
    }
}

/// AP-132.
fn validate(secret: &Map) -> Errors {
    let data = secret.object("data");
    let mut errors: Errors = data.keys().flat_map(|key| data_key(&format!("data[{key}]"), key)).collect();
    errors.push_if(decoded_size(data) > MAX_SIZE, || FieldError::too_long("data", MAX_SIZE));
    errors.extend(type_errors(secret, data));
    errors
}

/// AP-132: secrets of well-known types must have their keys. Those of bootstrap tokens are not looked into (AN-106).
fn type_errors(secret: &Map, data: &Map) -> Errors {
    let required = |key: &str| FieldError::required(format!("data[{key}]"), "");
    let missing = |keys: &[&str]| -> Errors {
        keys.iter().filter(|key| !data.contains_key(**key)).map(|key| required(key)).collect()
    };
    match secret.text("type") {
        ACCOUNT_TOKEN if secret.metadata().object("annotations").text(ACCOUNT_ANNOTATION).is_empty() => {
            Errors::from([FieldError::required(format!("metadata.annotations[{ACCOUNT_ANNOTATION}]"), "")])
        }
        "kubernetes.io/dockercfg" => docker_errors(data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker_errors(data, ".dockerconfigjson"),
        // One of the two is enough.
        "kubernetes.io/basic-auth" => match missing(&["username", "password"]) {
            errors if errors.len() == 2 => errors,
            _ => Errors::new(),
        },
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            Errors::from([required("ssh-privatekey")])
        }
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        _ => Errors::new(),
    }
}

/// A registry configuration must be a JSON object (or `null`).
fn docker_errors(data: &Map, key: &str) -> Errors {
    let field = format!("data[{key}]");
    if !data.contains_key(key) {
        return Errors::from([FieldError::required(field, "")]);
    }
    let bytes = STANDARD.decode(data.text(key)).unwrap_or_default();
    match serde_json::from_slice::<Option<Map>>(&bytes) {
        Ok(_) => Errors::new(),
        Err(_) => {
            Errors::from([FieldError::invalid(field, "<secret contents redacted>", "must be a JSON object")])
        }
    }
}

/// AP-132: the type is immutable; an immutable secret keeps its data and stays immutable.
fn validate_update(secret: &Map, old: &Map) -> Errors {
    let mut errors = Errors::new();
    if secret.text("type") != old.text("type") {
        errors.push(FieldError::invalid("type", secret.text("type"), "field is immutable"));
    }
    errors.extend(immutable_errors(secret, old, &["data"]));
    errors.extend(validate(secret));
    errors
}

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Type", "Which keys the secret has, and who uses it."),
    text_column("Data", "How many keys there are."),
    AGE,
];

fn row(secret: &Map, now: i64) -> Row {
    let (kind, count) = (Value::from(secret.text("type")), Value::from(secret.object("data").len()));
    Row::of(vec![name(secret), kind, count, age(secret, now)])
}
