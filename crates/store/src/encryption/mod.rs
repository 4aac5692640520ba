//! Encryption at rest, in the formats of Kubernetes (ET-50, ET-51).
//!
//! An [`Encryption`] has rules: for some resources, the providers that encrypt their values. The first provider writes with
//! its first key, and all of them read. An encrypted value begins with `k8s:enc:PROVIDER:v1:KEY:`. A resource without a
//! rule is written as it is.
//!
//! All cryptography is that of `aws-lc-rs` and `crypto_secretbox`. This module never reads files and never logs keys.

mod cipher;
mod provider;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

pub use self::cipher::CipherError;
pub use self::provider::{Key, Provider};

use crate::transform::{Opened, TransformError, Transformer};

/// The start of every encrypted value. No JSON and no protobuf of Kubernetes begins with it.
pub const PREFIX: &[u8] = b"k8s:enc:";

/// The resources that a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resources {
    /// One resource.
    One {
        /// The API group; empty for the core group.
        group: String,
        /// The plural name, such as `secrets`.
        resource: String,
    },
    /// All resources of an API group; the empty one is the core group.
    Group(String),
    /// All resources.
    All,
}

/// Providers by the resources that they encrypt. As a [`Transformer`] it takes keys of the embedded store:
/// `/core/secrets/default/web`.
#[derive(Debug, Default)]
pub struct Encryption {
    rules: HashMap<Resources, Vec<Arc<Provider>>>,
}

impl Encryption {
    /// No rules: every value is written as it is, and an encrypted value is an error.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds providers for resources, after those that they have.
    pub fn add(&mut self, resources: Resources, providers: impl IntoIterator<Item = Arc<Provider>>) {
        self.rules.entry(resources).or_default().extend(providers);
    }

    /// The resources that the rules name.
    pub fn resources(&self) -> impl Iterator<Item = &Resources> {
        self.rules.keys()
    }

    /// The providers of a resource: those of the narrowest rule.
    #[must_use]
    pub fn providers(&self, group: &str, resource: &str) -> Providers<'_> {
        if self.rules.is_empty() {
            return Providers(&[]);
        }
        let one = Resources::One { group: group.to_owned(), resource: resource.to_owned() };
        let narrowest = [one, Resources::Group(group.to_owned()), Resources::All];
        let found = narrowest.iter().find_map(|resources| self.rules.get(resources));
        Providers(found.map_or(&[], Vec::as_slice))
    }
}

impl Transformer for Encryption {
    fn seal<'v>(&self, key: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError> {
        let (group, resource) = resource_of(key);
        self.providers(group, resource).seal(key, value)
    }

    fn open<'v>(&self, key: &str, sealed: &'v [u8]) -> Result<Opened<'v>, TransformError> {
        let (group, resource) = resource_of(key);
        self.providers(group, resource).open(key, sealed)
    }
}

/// The API group and the resource of a key of the embedded store.
fn resource_of(key: &str) -> (&str, &str) {
    let mut parts = key.split('/').skip(1);
    let (group, resource) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    (if group == "core" { "" } else { group }, resource)
}

/// The providers of one resource. Without any, values are written as they are.
#[derive(Clone, Copy, Debug)]
pub struct Providers<'e>(&'e [Arc<Provider>]);

impl Providers<'_> {
    /// Whether values are written encrypted.
    #[must_use]
    pub fn encrypt(self) -> bool {
        self.0.first().is_some_and(|first| !first.is_identity())
    }

    /// Encrypts a value with the first provider. The key is that of the value in the store.
    ///
    /// # Errors
    /// There is no randomness, or the value begins as an encrypted one does.
    pub fn seal<'v>(self, key: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError> {
        let failed = |problem: &str| TransformError { key: key.into(), problem: problem.to_owned() };
        if value.starts_with(PREFIX) {
            return Err(failed("begins as an encrypted value does, and is none"));
        }
        let Some(first) = self.0.first() else { return Ok(Cow::Borrowed(value)) };
        first.seal(key, value).map_err(|error| failed(&format!("cannot be encrypted: {error}")))
    }

    /// Decrypts a value with whichever provider wrote it.
    ///
    /// # Errors
    /// No provider has the key of the value, the value was changed, or it is not encrypted although it has to be.
    pub fn open<'v>(self, key: &str, sealed: &'v [u8]) -> Result<Opened<'v>, TransformError> {
        let failed = |problem: String| TransformError { key: key.into(), problem };
        let Some(body) = sealed.strip_prefix(PREFIX) else {
            return match self.0.is_empty() || self.0.iter().any(|provider| provider.is_identity()) {
                true => Ok(Opened { value: Cow::Borrowed(sealed), is_stale: self.encrypt() }),
                false => Err(failed(
                    "is not encrypted, and its resource has no provider identity: add it as the last one"
                        .to_owned(),
                )),
            };
        };
        let mut last = None;
        for (at, provider) in self.0.iter().enumerate() {
            match provider.open(key, body) {
                Some(Ok((value, is_first))) => {
                    return Ok(Opened { value: Cow::Owned(value), is_stale: at > 0 || !is_first });
                }
                Some(Err(error)) => last = Some(error),
                None => {}
            }
        }
        let with = written_with(body);
        Err(failed(match last {
            Some(error) => format!("was encrypted {with}, and cannot be decrypted: {error}"),
            None => format!(
                "was encrypted {with}, which its resource does not have: add them to --encryption-provider-config"
            ),
        }))
    }
}

/// What the start of an encrypted value says about its provider.
fn written_with(body: &[u8]) -> String {
    let mut parts = body.split(|byte| *byte == b':');
    let mut part =
        || String::from_utf8_lossy(parts.next().unwrap_or_default()).chars().take(64).collect::<String>();
    let (provider, version, key) = (part(), part(), part());
    format!("by the provider {provider:?} ({version}) with the key {key:?}")
}
