//! Reads an `EncryptionConfiguration` (ET-50).
//!
//! Decoding is strict, all errors are reported together, and no error shows a secret. KMS plug-ins are not called here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::{duration, json};
use portcullis_store::encryption::kms::{Kms, Pace, Settings};
use portcullis_store::encryption::{CipherError, Encryption, Key, Provider, Resources};
use serde::Deserialize;

use crate::state::yaml;

/// The maximum size of a file.
const MAX_BYTES: usize = 4 << 20;
/// The maximum number of resources, and of keys.
const MAX_ENTRIES: usize = 1_000;
const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// Resources that kube-apiserver stores and no API serves.
const WITHOUT_API: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    resources: Vec<RuleEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RuleEntry {
    resources: Vec<String>,
    providers: Vec<ProviderEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProviderEntry {
    aescbc: Option<Keys>,
    aesgcm: Option<Keys>,
    identity: Option<Identity>,
    kms: Option<KmsEntry>,
    secretbox: Option<Keys>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Identity {}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    keys: Vec<KeyEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct KmsEntry {
    api_version: String,
    name: String,
    endpoint: String,
    timeout: Option<String>,
    cachesize: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct KeyEntry {
    name: String,
    secret: String,
}

impl std::fmt::Debug for KeyEntry {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An invalid file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    /// The file is not an EncryptionConfiguration.
    #[error("{0}")]
    Unreadable(String),
    /// All errors in its fields.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(FieldErrors),
}

/// Reads a configuration, in YAML or JSON.
///
/// # Errors
/// The text is not exactly one valid EncryptionConfiguration. Unknown and duplicate fields are errors too.
pub fn read(bytes: &[u8]) -> Result<Encryption, EncryptionError> {
    let unreadable = EncryptionError::Unreadable;
    if bytes.len() > MAX_BYTES {
        return Err(unreadable(format!("larger than {MAX_BYTES} bytes")));
    }
    let text = json::utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    let json = yaml::to_json(text).map_err(|error| unreadable(error.to_string()))?;
    json::check(&json).map_err(|error| unreadable(format!("must be one object: {error}")))?;
    let document: Document =
        policy::objects::strict::from_str(&json).map_err(|error| unreadable(without_values(&error)))?;
    if document.api_version != API_VERSION || document.kind != KIND {
        return Err(unreadable(format!(
            "kind {:?} in version {:?}: expected {KIND} in {API_VERSION}",
            document.kind, document.api_version
        )));
    }
    let mut errors = FieldErrors::new();
    let encryption = document.encryption(&mut errors);
    if errors.is_empty() { Ok(encryption) } else { Err(EncryptionError::Invalid(errors)) }
}

/// A decoding error without values, because a value may be a misplaced secret.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let is_about_a_field = ["unknown field", "duplicate field"].iter().any(|about| text.starts_with(about));
    match is_about_a_field {
        true => text,
        false => format!("a value of another type than expected, at line {}", error.line()),
    }
}

impl Document {
    fn encryption(&self, errors: &mut FieldErrors) -> Encryption {
        let mut encryption = Encryption::none();
        if self.resources.is_empty() {
            errors.push(FieldError::required("resources", "name the resources to encrypt"));
        }
        let resources = self.resources.iter().map(|rule| rule.resources.len()).sum();
        let keys = self.resources.iter().flat_map(|rule| &rule.providers).flat_map(ProviderEntry::keyed);
        let keys = keys.map(|(_, keys, _)| keys.keys.len()).sum();
        for (count, what) in
            [(resources, "resources[*].resources"), (keys, "resources[*].providers[*].*.keys")]
        {
            if count > MAX_ENTRIES {
                errors.push(FieldError::too_many(what, count, MAX_ENTRIES));
                return encryption;
            }
        }
        // The resources of all rules before, in their order.
        let mut seen: Vec<(usize, Resources)> = Vec::new();
        let mut plugins = HashSet::new();
        for (at, rule) in self.resources.iter().enumerate() {
            let path = format!("resources[{at}]");
            if rule.resources.is_empty() {
                errors.push(FieldError::required(format!("{path}.resources"), "name at least one resource"));
            }
            if rule.providers.is_empty() {
                errors.push(FieldError::required(format!("{path}.providers"), "name at least one provider"));
            }
            let providers: Vec<_> =
                rule.providers.iter().filter_map(ProviderEntry::provider).map(Arc::new).collect();
            for (place, name) in rule.resources.iter().enumerate() {
                let path = format!("{path}.resources[{place}]");
                match parsed(name).and_then(|resources| apart(at, resources, &seen)) {
                    Ok(resources) => {
                        encryption.add(resources.clone(), providers.iter().cloned());
                        seen.push((at, resources));
                    }
                    Err(problem) => errors.push(FieldError::invalid(path, name, problem)),
                }
            }
            let mut names = HashMap::new();
            for (place, provider) in rule.providers.iter().enumerate() {
                let path = format!("{path}.providers[{place}]");
                provider.check(&path, &mut names, errors);
                if let Some(kms) = &provider.kms {
                    kms.check(&format!("{path}.kms"), &mut plugins, errors);
                }
            }
        }
        encryption
    }
}

/// Parses a name of `resources`.
fn parsed(name: &str) -> Result<Resources, String> {
    let problem = |problem: &str| Err(problem.to_owned());
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    match (resource, group) {
        ("*", "*") => Ok(Resources::All),
        ("*", "") if name == "*" => problem("write *. for the core group, or *.* for all resources"),
        (_, "*") => problem("a resource of all groups cannot be named"),
        ("", _) => problem("write RESOURCE, RESOURCE.GROUP, *.GROUP, *. or *.*"),
        (_, "extensions") => problem("there is no group extensions any more"),
        (_, "events.k8s.io") => problem("events of this group are stored in the core group: write events"),
        (resource, _) if resource.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            problem("resources are written in small letters, and in the plural")
        }
        (resource, "") if WITHOUT_API.contains(&resource) => problem("no API has this resource"),
        ("*", group) => Ok(Resources::Group(group.to_owned())),
        (resource, group) => Ok(Resources::One { group: group.to_owned(), resource: resource.to_owned() }),
    }
}

/// Refuses resources that an earlier name covers. A later rule may name the same resource again, and adds providers to it.
fn apart(rule: usize, resources: Resources, seen: &[(usize, Resources)]) -> Result<Resources, String> {
    for (earlier, other) in seen {
        let is_same_rule = *earlier == rule;
        if *other == resources {
            match is_same_rule {
                true => return Err("named twice".to_owned()),
                false => continue,
            }
        }
        let covers = |wide: &Resources, narrow: &Resources| match (wide, narrow) {
            (Resources::All, _) => true,
            (Resources::Group(wide), Resources::One { group, .. }) => wide == group,
            _ => false,
        };
        if covers(other, &resources) {
            return Err("an earlier name covers it: put the narrower rule first".to_owned());
        }
        if is_same_rule && covers(&resources, other) {
            return Err("it covers another name of this rule: leave one of them out".to_owned());
        }
    }
    Ok(resources)
}

/// The secrets of a rule so far, by provider and name of the key.
type Names<'n> = HashMap<(&'static str, &'n str), &'n str>;

/// Makes a key of a name and a secret.
type MakeKey = fn(&str, &[u8]) -> Result<Key, CipherError>;

impl ProviderEntry {
    /// The providers of this element that have keys: the name of the provider, its keys, and how to make one.
    fn keyed(&self) -> impl Iterator<Item = (&'static str, &Keys, MakeKey)> {
        let all: [(_, _, MakeKey); 3] = [
            ("aescbc", &self.aescbc, |name, secret| Key::aes_cbc(name, secret)),
            ("aesgcm", &self.aesgcm, |name, secret| Key::aes_gcm(name, secret)),
            ("secretbox", &self.secretbox, |name, secret| Key::secret_box(name, secret)),
        ];
        all.into_iter().filter_map(|(name, keys, make)| Some((name, keys.as_ref()?, make)))
    }

    /// Checks the element. `names` are the keys of the elements before it in the same rule.
    fn check<'n>(&'n self, path: &str, names: &mut Names<'n>, errors: &mut FieldErrors) {
        let others = [self.identity.is_some(), self.kms.is_some()];
        let others = others.into_iter().filter(|is_there| *is_there).count();
        let given = self.keyed().count().saturating_add(others);
        if given == 0 {
            let problem = "name one provider: aescbc, aesgcm, identity, kms or secretbox";
            errors.push(FieldError::required(path, problem));
        }
        if given > 1 {
            let problem = "one provider in each element: write the others as elements of their own";
            errors.push(FieldError::forbidden(path, problem));
        }
        for (name, keys, make) in self.keyed() {
            keys.check(&format!("{path}.{name}.keys"), (name, names), make, errors);
        }
    }

    /// The provider, without invalid keys.
    fn provider(&self) -> Option<Provider> {
        let Some((name, keys, make)) = self.keyed().next() else {
            let kms = || Some(Provider::Kms(Kms::new(self.kms.as_ref()?.settings()?)));
            return self.identity.as_ref().map(|_| Provider::Identity).or_else(kms);
        };
        let keys = keys.keys.iter().filter_map(|key| make(&key.name, &key.secret()?).ok()).collect();
        Some(match name {
            "aescbc" => Provider::AesCbc(keys),
            "aesgcm" => Provider::AesGcm(keys),
            _ => Provider::SecretBox(keys),
        })
    }
}

/// The default of `timeout`.
const TIMEOUT: &str = "3s";
/// The most bytes of a path of a Unix socket.
const MOST_PATH: usize = 107;

impl KmsEntry {
    /// Checks the entry. `names` are the names of the plug-ins before it.
    fn check<'n>(&'n self, path: &str, names: &mut HashSet<&'n str>, errors: &mut FieldErrors) {
        match self.api_version.as_str() {
            "v2" => {}
            // As in kube-apiserver, an entry without a version is of v1.
            "" | "v1" => errors.push(FieldError::invalid(
                format!("{path}.apiVersion"),
                &self.api_version,
                "KMS v1 is not supported: write v2, and use a plug-in for it",
            )),
            _ => errors.push(FieldError::not_supported(
                format!("{path}.apiVersion"),
                &self.api_version,
                &["v2"],
            )),
        }
        let name = format!("{path}.name");
        if self.name.is_empty() {
            errors.push(FieldError::required(name, "values name the plug-in that reads them"));
        } else if self.name.contains(':') {
            errors.push(FieldError::invalid(name, &self.name, "must not contain a colon"));
        } else if !names.insert(&self.name) {
            errors.push(FieldError::duplicate(name, &self.name));
        }
        if let Err(problem) = self.socket() {
            errors.push(FieldError::invalid(format!("{path}.endpoint"), &self.endpoint, problem));
        }
        if self.limit().is_none() {
            let given = self.timeout.as_deref().unwrap_or_default();
            let problem = "must be a positive duration, such as 3s, of at most 1m";
            errors.push(FieldError::invalid(format!("{path}.timeout"), given, problem));
        }
        if let Some(size) = self.cachesize {
            let problem = "v2 has no cachesize";
            errors.push(FieldError::invalid(format!("{path}.cachesize"), size, problem));
        }
    }

    /// The path of the socket.
    ///
    /// DIVERGES: kube-apiserver also takes sockets without a file (`unix:///@NAME`), and escaped characters. Any process of the
    /// machine can listen on a socket without a file.
    fn socket(&self) -> Result<&str, String> {
        let path = self.endpoint.strip_prefix("unix://").filter(|path| path.starts_with('/'));
        let Some(path) = path else { return Err("write unix:///PATH, with an absolute path".to_owned()) };
        match () {
            () if path.starts_with("/@") => Err("a socket must have a file".to_owned()),
            () if path.contains(['%', '?', '#', '\0']) => {
                Err("the path must not contain any of %, ?, # and NUL".to_owned())
            }
            () if path.len() > MOST_PATH => Err(format!("the path has more than {MOST_PATH} bytes")),
            () => Ok(path),
        }
    }

    /// How long a call may take. A caller that waits for an unknown seed waits that long.
    fn limit(&self) -> Option<Duration> {
        let limit = duration::parse_unsigned(self.timeout.as_deref().unwrap_or(TIMEOUT))?;
        (!limit.is_zero() && limit <= Duration::from_secs(60)).then_some(limit)
    }

    /// The settings of a valid entry.
    fn settings(&self) -> Option<Settings> {
        let socket = self.socket().ok()?.to_owned();
        Some(Settings { name: self.name.clone(), socket, timeout: self.limit()?, pace: Pace::default() })
    }
}

impl Keys {
    /// Checks the keys of a provider.
    ///
    /// DIVERGES: kube-apiserver accepts two secrets with one name, and names with colons. Then the prefix of a value does not
    /// say which key reads it: a key `a` would also try the values of a key `a:b`. With `aescbc`, which has no checksum, the
    /// wrong key can return garbage instead of an error.
    fn check<'n>(
        &'n self,
        path: &str,
        (provider, names): (&'static str, &mut Names<'n>),
        make: MakeKey,
        errors: &mut FieldErrors,
    ) {
        if self.keys.is_empty() {
            errors.push(FieldError::required(path, "at least one key"));
        }
        for (at, key) in self.keys.iter().enumerate() {
            let path = format!("{path}[{at}]");
            if key.name.is_empty() {
                errors.push(FieldError::required(
                    format!("{path}.name"),
                    "values name the key that reads them",
                ));
            } else if key.name.contains(':') {
                errors.push(FieldError::invalid(
                    format!("{path}.name"),
                    &key.name,
                    "must not contain a colon",
                ));
            } else if *names.entry((provider, &key.name)).or_insert(&key.secret) != key.secret {
                errors.push(FieldError::duplicate(format!("{path}.name"), &key.name));
            }
            let path = format!("{path}.secret");
            match key.secret() {
                _ if key.secret.is_empty() => {
                    errors.push(FieldError::required(path, "random bytes in base64"))
                }
                None => errors.push(FieldError::invalid(path, "HIDDEN", "not base64")),
                Some(secret) => {
                    if let Err(error) = make(&key.name, &secret) {
                        errors.push(FieldError::invalid(path, "HIDDEN", error.to_string()));
                    }
                }
            }
        }
    }
}

impl KeyEntry {
    fn secret(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.secret.as_bytes()).ok()
    }
}
