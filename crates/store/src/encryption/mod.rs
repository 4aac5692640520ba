//! Encryption at rest, in the formats of Kubernetes (ET-50, ET-51).
//!
//! An [`Encryption`] has rules. A rule names resources and the providers of their values. The first key of the first provider
//! encrypts; all keys of all providers decrypt. An encrypted value begins with `k8s:enc:PROVIDER:VERSION:KEY:`. Values of a
//! resource without a rule are not encrypted.
//!
//! All cryptography comes from `aws-lc-rs` and `crypto_secretbox`. This module never reads files and never logs keys. Only a
//! KMS plug-in is called over a socket, by a thread of its own: see [`kms`].

mod cipher;
pub mod kms;
mod live;
mod provider;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub use self::cipher::CipherError;
pub use self::live::LiveEncryption;
pub use self::provider::{Key, PREFIX, Provider};

use self::kms::{Kms, KmsError};
use self::provider::ProviderError;
use crate::transform::{Opened, TransformError, Transformer};

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

/// The rules of an EncryptionConfiguration (ET-50). Used as a [`Transformer`], it expects keys of the embedded store, such as
/// `/core/secrets/default/web` (ET-51).
#[derive(Debug, Default)]
pub struct Encryption {
    rules: HashMap<Resources, Vec<Arc<Provider>>>,
}

impl Encryption {
    /// No rules: nothing is encrypted, and an encrypted value cannot be read.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds providers for resources, after the providers that earlier rules gave them.
    pub fn add(&mut self, resources: Resources, providers: impl IntoIterator<Item = Arc<Provider>>) {
        self.rules.entry(resources).or_default().extend(providers);
    }

    /// The resources that the rules name.
    pub fn resources(&self) -> impl Iterator<Item = &Resources> {
        self.rules.keys()
    }

    /// The KMS plug-ins, each once and in no order.
    pub fn plugins(&self) -> impl Iterator<Item = &Kms> {
        let mut seen = HashSet::new();
        self.rules.values().flatten().filter_map(move |provider| match &**provider {
            Provider::Kms(kms) => seen.insert(Arc::as_ptr(provider).addr()).then_some(kms),
            _ => None,
        })
    }

    /// Starts the KMS plug-ins, and waits until they are healthy (ET-50).
    ///
    /// # Errors
    /// One of them is not healthy after the time of [`kms::Pace::start`].
    pub async fn start(&self) -> Result<(), KmsError> {
        for kms in self.plugins() {
            kms.start()?;
        }
        for kms in self.plugins() {
            kms.ready().await?;
        }
        Ok(())
    }

    /// Whether all KMS plug-ins are healthy (ET-50). Does not wait.
    ///
    /// # Errors
    /// What is wrong, for each that is not.
    pub fn health(&self) -> Result<(), String> {
        let failed: Vec<String> =
            self.plugins().filter_map(|kms| kms.health().err()).map(|error| error.to_string()).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    /// The providers of a resource. The narrowest rule that matches applies: the resource, its group, then all resources.
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
    fn check(&self, key: &str) -> Result<(), TransformError> {
        let (group, resource) = resource_of(key);
        self.providers(group, resource).check(key)
    }

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

/// The providers of one resource. If there are none, values are not encrypted.
#[derive(Clone, Copy, Debug)]
pub struct Providers<'e>(&'e [Arc<Provider>]);

impl Providers<'_> {
    /// Whether new values are encrypted.
    #[must_use]
    pub fn encrypt(self) -> bool {
        self.0.first().is_some_and(|first| !first.is_identity())
    }

    /// Whether a value can be encrypted now. `key` is the key of the value in the store.
    ///
    /// # Errors
    /// The first provider is a KMS plug-in that has failed for too long.
    pub fn check(self, key: &str) -> Result<(), TransformError> {
        let checked = self.0.first().map_or(Ok(()), |first| first.check());
        checked.map_err(|error| unsealed(key, &error))
    }

    /// Encrypts a value with the first provider. `key` is the key of the value in the store.
    ///
    /// # Errors
    /// See [`Providers::check`], the system has no random numbers, or the value starts with [`PREFIX`]: it could not be told from an encrypted one.
    pub fn seal<'v>(self, key: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError> {
        if value.starts_with(PREFIX) {
            let problem = "starts with k8s:enc:, which marks encrypted values".to_owned();
            return Err(TransformError { key: key.into(), problem });
        }
        let Some(first) = self.0.first() else { return Ok(Cow::Borrowed(value)) };
        first.seal(key, value).map_err(|error| unsealed(key, &error))
    }

    /// Decrypts a value with the provider and the key that it names.
    ///
    /// # Errors
    /// No provider has the key, its KMS plug-in does not decrypt it, the value was changed, or the value is not encrypted and there is no provider `identity`.
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

fn unsealed(key: &str, error: &ProviderError) -> TransformError {
    TransformError { key: key.into(), problem: format!("cannot be encrypted: {error}") }
}

/// Describes the provider and the key that an encrypted value names.
fn written_with(body: &[u8]) -> String {
    let mut parts = body.split(|byte| *byte == b':');
    let mut part =
        || String::from_utf8_lossy(parts.next().unwrap_or_default()).chars().take(64).collect::<String>();
    let (provider, version, key) = (part(), part(), part());
    format!("by the provider {provider:?} ({version}) with the key {key:?}")
}
