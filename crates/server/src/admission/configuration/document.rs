//! Reads a document of a configuration, strictly.

use policy::objects::strict;
use portcullis_apimachinery::field_error::FieldErrors;
use portcullis_apimachinery::json;
use portcullis_apimachinery::quote::quoted;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::state::yaml;

/// The maximum size of a file, in bytes.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// A version and a kind that a document may have.
pub(super) type Form = (&'static str, &'static str);

/// A configuration of a plugin, and the errors in its fields. The configuration is used only if there are no errors.
pub(super) type Taken<T> = Result<(T, FieldErrors), String>;

/// Reads one document.
pub(super) fn read(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    let text = json::utf8(bytes).map_err(|error| error.to_string())?;
    let json = yaml::to_json(text).map_err(|error| error.to_string())?;
    json::check(&json).map_err(|error| format!("must be one object: {error}"))?;
    strict::from_str(&json).map_err(|error| format!("must be one object: {error}"))
}

/// Decodes a document of one of these forms.
pub(super) fn decoded<T: DeserializeOwned>(
    mut document: Map<String, Value>,
    forms: &[Form],
) -> Result<T, String> {
    let mut take = |field: &str| document.remove(field).and_then(|value| value.as_str().map(str::to_owned));
    let (version, kind) = (take("apiVersion").unwrap_or_default(), take("kind").unwrap_or_default());
    if !forms.contains(&(&*version, &*kind)) {
        let known: Vec<String> = forms.iter().map(|(version, kind)| format!("{kind} in {version}")).collect();
        return Err(format!(
            "kind {} in version {}: expected {}",
            quoted(&kind),
            quoted(&version),
            known.join(" or ")
        ));
    }
    strict::from_map(&document).map_err(|error| format!("strict decoding error: {error}"))
}
