//! The file of `--authentication-config` (AN-112 to AN-115): where anonymous requests are allowed, and the issuers of tokens. The
//! file is read again when it changes.
//!
//! DIVERGES: the file is read every second; kube-apiserver follows file system events, and reads it once a minute. A changed file
//! is in force at once; kube-apiserver waits up to a minute for new issuers to answer, and keeps the old file if they do not. An
//! issuer that is taken out is not trusted any longer than needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use portcullis_apimachinery::json;
use serde::Deserialize;

use super::anonymous::Anonymous;
use super::authentication::Authentication;
use super::jwt::Issuer;
use super::jwt::configuration::{IssuerSettings, JwtEntry, validate};
use crate::metrics::ReloadMetrics;
use crate::state::yaml;

/// The interval at which the file is read.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum size of the file.
const MAX_BYTES: usize = 4 << 20;
const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

/// An invalid file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// AN-113.
    #[error("anonymous.conditions: enabled should be set to true when conditions are defined")]
    Conditions,
    /// All that is wrong with the issuers.
    #[error("{0}")]
    Issuers(String),
    /// A document of another kind.
    #[error(
        "kind {kind:?} in version {version:?}: expected AuthenticationConfiguration in apiserver.config.k8s.io/v1, v1beta1 or v1alpha1"
    )]
    Kind {
        /// The kind in the file.
        kind: String,
        /// The version of the review.
        version: String,
    },
    /// The path is missing or can never be requested.
    #[error("anonymous.conditions[{0}].path: expected a path that begins with /")]
    Path(usize),
    /// AN-115.
    #[error("anonymous: cannot be changed without a restart")]
    Changed,
    /// The file is not valid YAML, or has unknown fields.
    #[error("{0}")]
    Syntax(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    jwt: Option<Vec<JwtEntry>>,
    anonymous: Option<Stanza>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stanza {
    enabled: bool,
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Condition {
    path: String,
}

/// A valid file.
pub struct Configuration {
    /// Where anonymous requests are allowed, if the file says so.
    pub anonymous: Option<Anonymous>,
    /// The issuers of tokens.
    pub issuers: Vec<Issuer>,
}

impl Configuration {
    /// Reads the text of a file, YAML or JSON.
    ///
    /// # Errors
    /// See [`ConfigurationError`].
    pub fn read(text: &[u8], settings: &IssuerSettings) -> Result<Self, ConfigurationError> {
        Document::read(text)?.validate(settings)
    }
}

impl Document {
    fn read(bytes: &[u8]) -> Result<Self, ConfigurationError> {
        let unreadable = |why: String| ConfigurationError::Syntax(why);
        if bytes.len() > MAX_BYTES {
            return Err(unreadable(format!("larger than {MAX_BYTES} bytes")));
        }
        let text = json::utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        let json = yaml::to_json(text).map_err(|error| unreadable(error.to_string()))?;
        if json.trim().is_empty() {
            return Err(unreadable("the file is empty".to_owned()));
        }
        json::check(&json).map_err(|error| unreadable(format!("must be one object: {error}")))?;
        let document: Self = policy::objects::strict::from_str(&json)
            .map_err(|error| unreadable(format!("strict decoding error: {error}")))?;
        if document.kind != KIND || !VERSIONS.contains(&document.api_version.as_str()) {
            return Err(ConfigurationError::Kind { kind: document.kind, version: document.api_version });
        }
        Ok(document)
    }

    fn validate(&self, settings: &IssuerSettings) -> Result<Configuration, ConfigurationError> {
        let anonymous = self.anonymous.as_ref().map(Stanza::validate).transpose()?;
        let issuers = validate(self.jwt.as_deref().unwrap_or_default(), settings).map_err(|faults| {
            let faults: Vec<String> =
                faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message())).collect();
            ConfigurationError::Issuers(faults.join("; "))
        })?;
        Ok(Configuration { anonymous, issuers })
    }
}

impl Stanza {
    fn validate(&self) -> Result<Anonymous, ConfigurationError> {
        let conditions = self.conditions.as_deref().unwrap_or_default();
        match (self.enabled, conditions.is_empty()) {
            (false, false) => return Err(ConfigurationError::Conditions),
            (false, true) => return Ok(Anonymous::Nowhere),
            (true, true) => return Ok(Anonymous::Everywhere),
            (true, false) => {}
        }
        if let Some(i) = conditions.iter().position(|condition| !condition.path.starts_with('/')) {
            return Err(ConfigurationError::Path(i));
        }
        Ok(Anonymous::At(conditions.iter().map(|condition| condition.path.clone()).collect()))
    }
}

/// The file, which is followed while the server runs.
pub struct AuthenticationFile {
    path: PathBuf,
    settings: IssuerSettings,
    last_bytes: Vec<u8>,
    document: Document,
    anonymous: Option<Anonymous>,
    /// Until they are in force.
    issuers: Vec<Issuer>,
}

impl AuthenticationFile {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is invalid. The text does not name the file.
    pub fn load(path: &Path, settings: IssuerSettings) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        let document = Document::read(&bytes).map_err(|error| error.to_string())?;
        let Configuration { anonymous, issuers } =
            document.validate(&settings).map_err(|error| error.to_string())?;
        Ok(Self { path: path.to_owned(), settings, last_bytes: bytes, document, anonymous, issuers })
    }

    /// Where anonymous requests are allowed, if the file says so.
    pub fn anonymous(&self) -> Option<&Anonymous> {
        self.anonymous.as_ref()
    }

    /// The issuers, which are given out once.
    pub(super) fn take_issuers(&mut self) -> Vec<Issuer> {
        std::mem::take(&mut self.issuers)
    }

    /// Applies changes of the file until the future is dropped. An invalid file changes nothing.
    pub async fn follow(mut self, authentication: Arc<Authentication>, metrics: ReloadMetrics) {
        metrics.in_force(&pki::sha256(&self.last_bytes));
        let mut was_readable = true;
        loop {
            tokio::time::sleep(EVERY).await;
            let bytes = match tokio::fs::read(&self.path).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    metrics.reloaded(false, SystemTime::now());
                    if std::mem::take(&mut was_readable) {
                        self.complain(&error.to_string());
                    }
                    continue;
                }
            };
            was_readable = true;
            if bytes == self.last_bytes {
                continue;
            }
            self.last_bytes = bytes;
            match self.take(&authentication) {
                Ok(is_other) => {
                    metrics.reloaded(true, SystemTime::now());
                    metrics.in_force(&pki::sha256(&self.last_bytes));
                    if is_other {
                        tracing::info!(path = %self.path.display(), "the authentication configuration was reloaded");
                    }
                }
                Err(error) => {
                    metrics.reloaded(false, SystemTime::now());
                    self.complain(&error.to_string());
                }
            }
        }
    }

    fn complain(&self, error: &str) {
        let path = self.path.display();
        tracing::error!(
            %path,
            error,
            "the authentication configuration cannot be used; the one in force stays"
        );
    }

    /// Puts the file in force; returns whether it says anything else than before.
    fn take(&mut self, authentication: &Authentication) -> Result<bool, ConfigurationError> {
        let document = Document::read(&self.last_bytes)?;
        let Configuration { anonymous, issuers } = document.validate(&self.settings)?;
        // AN-115
        if anonymous != self.anonymous {
            return Err(ConfigurationError::Changed);
        }
        if document == self.document {
            return Ok(false);
        }
        self.document = document;
        authentication.replace_issuers(issuers);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

    fn read(text: &str) -> Result<Option<Anonymous>, ConfigurationError> {
        let read = Configuration::read(text.as_bytes(), &IssuerSettings::default());
        read.map(|configuration| configuration.anonymous)
    }

    #[test]
    fn the_stanza_says_where_anonymous_requests_are_served_an_112_an_113() {
        let of = |rest: &str| read(&format!("{HEAD}{rest}"));
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("anonymous: {enabled: true}"), Ok(Some(Anonymous::Everywhere)));
        assert_eq!(of("anonymous: {enabled: false}"), Ok(Some(Anonymous::Nowhere)));
        assert_eq!(of("anonymous: {}"), Ok(Some(Anonymous::Nowhere)));
        let paths = Anonymous::At(vec!["/livez".to_owned(), "/readyz".to_owned()]);
        assert_eq!(
            of("anonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n  - path: /readyz\n"),
            Ok(Some(paths))
        );
        let refused = |rest: &str| of(rest).unwrap_err();
        assert_eq!(
            refused("anonymous: {enabled: false, conditions: [{path: /a}]}"),
            ConfigurationError::Conditions
        );
        assert_eq!(
            refused("anonymous: {enabled: true, conditions: [{path: a}]}"),
            ConfigurationError::Path(0)
        );
        assert!(matches!(refused("anonymous: {enable: true}"), ConfigurationError::Syntax(_)));
        assert!(matches!(read("kind: AuthenticationConfiguration"), Err(ConfigurationError::Kind { .. })));
    }

    #[test]
    fn what_is_wrong_with_issuers_is_told_by_field() {
        let text = format!("{HEAD}jwt: [{{issuer: {{url: 'http://a', audiences: [x, z]}}}}]");
        let error = read(&text).unwrap_err();
        let ConfigurationError::Issuers(text) = &error else { panic!("{error:?}") };
        for part in [
            "jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https",
            "jwt[0].issuer.audienceMatchPolicy: Invalid value",
            "jwt[0].claimMappings.username: Required value",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}
