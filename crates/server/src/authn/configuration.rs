//! The file of `--authentication-config` (AN-112 to AN-114). Only its field `anonymous` is supported.

use serde::Deserialize;

use super::anonymous::Anonymous;

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

/// An invalid file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// AN-113.
    #[error("anonymous.conditions: enabled should be set to true when conditions are defined")]
    Conditions,
    /// A part that this server does not support.
    #[error("jwt: tokens of other issuers are not accepted by this server: leave this part out")]
    Jwt,
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
    /// The file is not valid YAML, or has unknown fields.
    #[error("{0}")]
    Syntax(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    jwt: Option<Vec<serde_json::Value>>,
    #[serde(default)]
    anonymous: Option<Stanza>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stanza {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    #[serde(default)]
    path: String,
}

/// Parses the file and returns its settings for anonymous requests, if any.
///
/// DIVERGES: kube-apiserver rereads the file (AN-115) and takes over changes of `jwt`; here the file is read at the start, and one
/// with `jwt` is refused.
///
/// # Errors
/// See [`ConfigurationError`].
pub fn read(text: &str) -> Result<Option<Anonymous>, ConfigurationError> {
    let document: Document =
        serde_saphyr::from_str(text).map_err(|error| ConfigurationError::Syntax(error.to_string()))?;
    if document.kind != KIND || !VERSIONS.contains(&document.api_version.as_str()) {
        return Err(ConfigurationError::Kind { kind: document.kind, version: document.api_version });
    }
    if document.jwt.is_some_and(|jwt| !jwt.is_empty()) {
        return Err(ConfigurationError::Jwt);
    }
    let Some(stanza) = document.anonymous else { return Ok(None) };
    let conditions = stanza.conditions.unwrap_or_default();
    match (stanza.enabled, conditions.is_empty()) {
        (false, false) => return Err(ConfigurationError::Conditions),
        (false, true) => return Ok(Some(Anonymous::Nowhere)),
        (true, true) => return Ok(Some(Anonymous::Everywhere)),
        (true, false) => {}
    }
    if let Some(i) = conditions.iter().position(|condition| !condition.path.starts_with('/')) {
        return Err(ConfigurationError::Path(i));
    }
    Ok(Some(Anonymous::At(conditions.into_iter().map(|condition| condition.path).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

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
        assert_eq!(refused("jwt: [{issuer: {url: https://a}}]"), ConfigurationError::Jwt);
        assert!(matches!(refused("anonymous: {enable: true}"), ConfigurationError::Syntax(_)));
        assert!(matches!(read("kind: AuthenticationConfiguration"), Err(ConfigurationError::Kind { .. })));
    }
}
