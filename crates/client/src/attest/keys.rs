//! The keys of the challenges, in a Secret that all replicas share (AT-102).

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_apimachinery::time::Instant;
use portcullis_attestation::challenge::Keys;
use portcullis_attestation::time::{instant, system_time};
use portcullis_pki::key::KeyError;
use portcullis_pki::random_bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::Resource;
use crate::connect::Connection;

const NAME: &str = "portcullis-attestation-keys";
/// How long a key issues challenges. The key before it still verifies them.
const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// The Secret with the keys.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct ChallengeKeys {
    metadata: Metadata,
    data: Data,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Data {
    current: String,
    previous: String,
    rotated: String,
}

/// Reads the keys; creates them if there are none, and rotates them if they are old. Another replica that does the same at
/// the same time wins or loses as a whole.
///
/// # Errors
/// The Secret cannot be read or written, or is malformed.
pub(super) async fn load(connection: &Connection, namespace: &str, now: SystemTime) -> Result<Keys, String> {
    let secrets = Resource::new("", "v1", "secrets").within(namespace);
    let failed = |error: &dyn std::fmt::Display| format!("Secret {namespace}/{NAME}: {error}");
    let found: Option<ChallengeKeys> =
        connection.find(&secrets, NAME).await.map_err(|error| failed(&error))?;
    let Some(found) = found else {
        let keys = ChallengeKeys::unknown().map_err(|error| failed(&error))?;
        return match connection.create::<Value>(&secrets, &object(&keys, "", now)).await {
            Ok(_) => Ok(keys),
            Err(error) if error.is_already_exists() => {
                let other: ChallengeKeys =
                    connection.get(&secrets, NAME).await.map_err(|error| failed(&error))?;
                other.keys().map_err(|error| failed(&error))
            }
            Err(error) => Err(failed(&error)),
        };
    };
    let keys = found.keys().map_err(|error| failed(&error))?;
    if !found.is_due(now) {
        return Ok(keys);
    }
    let rotated =
        Keys { current: random_bytes().map_err(|error| failed(&error))?, previous: Some(keys.current) };
    let object = object(&rotated, &found.metadata.resource_version, now);
    match connection.replace::<Value>(&secrets.object(NAME), &object).await {
        Ok(_) => Ok(rotated),
        // Another replica was first. Its keys verify the same challenges.
        Err(error) if error.is_conflict() => Ok(keys),
        Err(error) => Err(failed(&error)),
    }
}

impl ChallengeKeys {
    /// Keys that no challenge was issued with.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn unknown() -> Result<Keys, KeyError> {
        Ok(Keys { current: random_bytes()?, previous: None })
    }

    /// The keys in the Secret.
    ///
    /// # Errors
    /// Which field is malformed.
    pub fn keys(&self) -> Result<Keys, &'static str> {
        let key = |text: &str| -> Option<[u8; 32]> { STANDARD.decode(text).ok()?.try_into().ok() };
        let previous = Some(self.data.previous.as_str()).filter(|text| !text.is_empty());
        Ok(Keys {
            current: key(&self.data.current).ok_or("data.current must be 32 bytes")?,
            previous: previous.map(|text| key(text).ok_or("data.previous must be 32 bytes")).transpose()?,
        })
    }

    /// Whether the current key is old, or has a date that cannot be read.
    fn is_due(&self, now: SystemTime) -> bool {
        let text = STANDARD.decode(&self.data.rotated).ok().and_then(|text| String::from_utf8(text).ok());
        let rotated = text.and_then(|text| Instant::parse(&text).ok()).map(system_time);
        rotated.is_none_or(|at| now.duration_since(at).is_ok_and(|age| age >= PERIOD))
    }
}

fn object(keys: &Keys, version: &str, now: SystemTime) -> Value {
    let mut metadata = json!({"name": NAME});
    if let (false, Some(metadata)) = (version.is_empty(), metadata.as_object_mut()) {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "data": {
            "current": STANDARD.encode(keys.current),
            "previous": keys.previous.map(|key| STANDARD.encode(key)).unwrap_or_default(),
            "rotated": STANDARD.encode(instant(now).to_string()),
        },
    })
}
