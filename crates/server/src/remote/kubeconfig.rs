//! The connection file of a webhook, in kubeconfig format (WH-1): its text. What it says is read by
//! [`portcullis_client::kubeconfig::service`].

use std::path::Path;

use portcullis_apimachinery::json;
use portcullis_client::ConnectError;
use portcullis_client::kubeconfig::service::Connection;

use crate::state::yaml;

/// The maximum size of a file.
const MAX_BYTES: usize = 4 << 20;

/// Loads a file and everything that its current context names.
///
/// # Errors
/// See [`ConnectError`].
pub fn load(path: &Path) -> Result<Connection, ConnectError> {
    let bytes = std::fs::read(path)
        .map_err(|error| ConnectError::File { path: path.to_owned(), why: error.to_string() })?;
    let json = to_json(&bytes)
        .map_err(|why| ConnectError::Kubeconfig { origin: path.display().to_string(), why })?;
    Connection::from_json(&json, path)
}

/// Converts the text of a file, YAML or JSON, to JSON.
///
/// # Errors
/// It is not one object, with the reason.
pub fn to_json(bytes: &[u8]) -> Result<String, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    let text = json::utf8(bytes).map_err(|error| error.to_string())?;
    let json = yaml::to_json(text).map_err(|error| error.to_string())?;
    if json.trim().is_empty() {
        return Err(
            "the file is empty: write a kubeconfig with clusters, users, contexts and current-context"
                .to_owned(),
        );
    }
    json::check(&json).map_err(|error| format!("must be one kubeconfig: {error}"))?;
    Ok(json)
}
