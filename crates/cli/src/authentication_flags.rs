//! The authentication flags. Names and meanings are kube-apiserver's.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args};
use portcullis_pki::KeyPair;
use portcullis_pki::jwt::{PublicKey, SigningKey};
use portcullis_policy::review::ReviewVersion;
use portcullis_server::authn::AuthenticationConfig;
use portcullis_server::authn::anonymous::Anonymous;
use portcullis_server::authn::configuration::AuthenticationFile;
use portcullis_server::authn::jwt::configuration::IssuerSettings;
use portcullis_server::authn::reload::AuthorityFiles;
use portcullis_server::authn::request_header::{Headers, RequestHeader};
use portcullis_server::authn::service_account::{DEFAULT_ISSUER, Issuer};
use portcullis_server::authn::token_file::TokenFile;
use portcullis_server::authn::token_webhook::{TokenWebhook, TokenWebhookConfig};
use portcullis_server::remote::kubeconfig;

use crate::failure::Failure;
use crate::limit_flags;

/// The range of `--service-account-max-token-expiration`, in seconds (AN-92).
const MAX_EXPIRATION: std::ops::RangeInclusive<i64> = 3600..=1 << 32;

/// The flag of the configuration file.
const CONFIG: &str = "--authentication-config";

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Authentication")]
pub struct AuthenticationFlags {
    /// Serve requests without credentials as system:anonymous. Defaults to true, unless --authentication-config says
    /// otherwise or --authorization-mode contains AlwaysAllow
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    anonymous_auth: Option<bool>,

    /// A file of kind AuthenticationConfiguration with the issuers whose tokens are accepted, and the paths on which requests
    /// without credentials are allowed. Issuers are reloaded when it changes
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,

    /// Accept user names and groups that begin with system: from tokens of the issuers in --authentication-config
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    jwt_allow_system_names: bool,

    /// Client certificate authorities in PEM, in addition to the one in the data directory. Reloaded when it changes
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// Accept bootstrap tokens, from secrets of type bootstrap.kubernetes.io/token in namespace kube-system
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_bootstrap_token_auth: bool,

    /// Static tokens: a CSV file with token, user name, user UID, and quoted groups. Read at startup
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// A kubeconfig with the webhook that is asked about tokens which nothing else here knows. It is sent every such token
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,

    /// The version of TokenReview that the webhook is sent: v1 or v1beta1
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authentication_token_webhook_version: ReviewVersion,

    /// How long answers of the webhook are kept. Accepted tokens are kept for at least 10s; 0s keeps no rejected ones
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = limit_flags::duration)]
    authentication_token_webhook_cache_ttl: Duration,

    /// Certificate authorities of front proxies, in PEM. Reloaded when it changes
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,

    /// The allowed common names of front proxies; any if none is given
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "requestheader_client_ca_file")]
    requestheader_allowed_names: Vec<String>,

    /// The headers with the user name from a front proxy; the first that is not empty is used
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', requires = "requestheader_client_ca_file")]
    requestheader_username_headers: Vec<String>,

    /// The headers with the user's UID from a front proxy; X-Remote-Uid must be among them
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', requires = "requestheader_client_ca_file")]
    requestheader_uid_headers: Vec<String>,

    /// The headers with the user's groups from a front proxy
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', requires = "requestheader_client_ca_file")]
    requestheader_group_headers: Vec<String>,

    /// The prefixes of headers with extra information about the user from a front proxy
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', requires = "requestheader_client_ca_file")]
    requestheader_extra_headers_prefix: Vec<String>,

    /// Additional keys for verifying service account tokens, in PEM, private or public, RSA or ECDSA. Repeatable
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,

    /// The private key for signing service account tokens [default: DIR/sa.key, which is created at the first start]
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,

    /// The issuer of service account tokens. Repeatable: the first one issues, all are accepted
    #[arg(long, value_name = "ISSUER", default_value = DEFAULT_ISSUER)]
    service_account_issuer: Vec<String>,

    /// The URL at which others find the public keys of tokens; by default a path below the issuer
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,

    /// The accepted audiences of tokens; the issuers if not given
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',')]
    api_audiences: Vec<String>,

    /// The maximum lifetime of a requested token, such as 24h: between 1h and 2^32 seconds
    #[arg(long, value_name = "DURATION", value_parser = max_expiration)]
    service_account_max_token_expiration: Option<i64>,

    /// Extend tokens that kubelets request for pods to one year, and log their use after the requested expiration
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    service_account_extend_token_expiration: bool,
}

impl AuthenticationFlags {
    /// Reads all files that the flags name. Nothing is written before that.
    ///
    /// # Errors
    /// The error of an invalid flag or file.
    pub fn config(&self) -> Result<AuthenticationConfig, Failure> {
        let mut authorities = AuthorityFiles::default();
        if let Some(path) = &self.client_ca_file {
            authorities = authorities.with_clients(path.clone()).map_err(|e| of("--client-ca-file", e))?;
        }
        let front_proxy = match &self.requestheader_client_ca_file {
            None => None,
            Some(path) => {
                const FLAG: &str = "--requestheader-client-ca-file";
                authorities = authorities.with_front_proxies(path.clone()).map_err(|e| of(FLAG, e))?;
                let bundle = authorities.front_proxies().map_err(|e| of(FLAG, e))?;
                bundle.map(|bundle| self.front_proxy(bundle)).transpose()?
            }
        };
        let issuer = self.issuer()?;
        let file = self.file(&issuer)?;
        Ok(AuthenticationConfig {
            anonymous: self.anonymous(file.as_ref())?,
            file,
            authorities,
            front_proxy,
            bootstrap_tokens: self.enable_bootstrap_token_auth,
            issuer,
            signing_key: self.signing_key()?,
            keys: self.keys()?,
            tokens: self.token_auth_file.as_deref().map(tokens).transpose()?.unwrap_or_default(),
            webhook: self.token_webhook()?,
        })
    }

    /// AN-56
    fn token_webhook(&self) -> Result<Option<TokenWebhook>, Failure> {
        const FLAG: &str = "--authentication-token-webhook-config-file";
        let Some(path) = &self.authentication_token_webhook_config_file else { return Ok(None) };
        let config = TokenWebhookConfig {
            version: self.authentication_token_webhook_version,
            ttl: self.authentication_token_webhook_cache_ttl,
        };
        let connection = kubeconfig::load(path).map_err(|e| of(FLAG, e))?;
        TokenWebhook::new(config, connection).map(Some).map_err(|e| of(FLAG, e))
    }

    /// AN-112
    fn file(&self, issuer: &Issuer) -> Result<Option<AuthenticationFile>, Failure> {
        let Some(path) = &self.authentication_config else { return Ok(None) };
        let settings = IssuerSettings {
            service_account_issuers: issuer.issuers.clone(),
            allows_system_names: self.jwt_allow_system_names,
        };
        let file = AuthenticationFile::load(path, settings);
        file.map(Some).map_err(|error| Failure::input(format_args!("{CONFIG} {}: {error}", path.display())))
    }

    /// AN-110 to AN-113. `--anonymous-auth=true` is the default and names nothing (AN-111).
    fn anonymous(&self, file: Option<&AuthenticationFile>) -> Result<Option<Anonymous>, Failure> {
        match (file.and_then(AuthenticationFile::anonymous), self.anonymous_auth) {
            (Some(_), Some(_)) => {
                return Err(Failure::input(format_args!(
                    "--anonymous-auth and field anonymous of {CONFIG} are mutually exclusive: use one of them"
                )));
            }
            (Some(anonymous), None) => return Ok(Some(anonymous.clone())),
            (None, _) => {}
        }
        Ok(if self.anonymous_auth == Some(false) { Some(Anonymous::Nowhere) } else { None })
    }

    fn front_proxy(&self, bundle: portcullis_pki::CaBundle) -> Result<RequestHeader, Failure> {
        let headers = Headers {
            username: self.requestheader_username_headers.clone(),
            uid: self.requestheader_uid_headers.clone(),
            group: self.requestheader_group_headers.clone(),
            extra_prefix: self.requestheader_extra_headers_prefix.clone(),
        };
        let standard = [
            ("username-headers", &headers.username, "X-Remote-User"),
            ("group-headers", &headers.group, "X-Remote-Group"),
            ("extra-headers-prefix", &headers.extra_prefix, "X-Remote-Extra-"),
        ];
        for (flag, names, expected) in standard {
            if !names.iter().any(|name| name.trim().eq_ignore_ascii_case(expected)) {
                tracing::warn!("--requestheader-{flag} does not hold {expected}");
            }
        }
        let allowed = self.requestheader_allowed_names.clone();
        RequestHeader::new(bundle, allowed, &headers).map_err(Failure::input)
    }

    fn issuer(&self) -> Result<Issuer, Failure> {
        let named = [
            ("--service-account-issuer", &self.service_account_issuer),
            ("--api-audiences", &self.api_audiences),
        ];
        for (flag, texts) in named {
            if texts.iter().any(String::is_empty) {
                return Err(Failure::input(format_args!("{flag}: a name is empty")));
            }
        }
        // An issuer with a colon must be a URL (RFC 7519, 2).
        if let Some(bad) = self.service_account_issuer.iter().find(|text| text.contains(':') && !is_url(text))
        {
            return Err(Failure::input(format_args!(
                "--service-account-issuer {bad:?}: a name with a colon must be a URL"
            )));
        }
        if let Some(uri) = self.service_account_jwks_uri.as_deref().filter(|uri| !uri.starts_with("https://"))
        {
            return Err(Failure::input(format_args!(
                "--service-account-jwks-uri {uri:?}: must begin with https://"
            )));
        }
        Ok(Issuer {
            issuers: self.service_account_issuer.clone(),
            api_audiences: self.api_audiences.clone(),
            max_expiration: self.service_account_max_token_expiration,
            extends_expiration: self.service_account_extend_token_expiration,
            jwks_uri: self.service_account_jwks_uri.clone(),
        })
    }

    fn signing_key(&self) -> Result<Option<SigningKey>, Failure> {
        const FLAG: &str = "--service-account-signing-key-file";
        let Some(path) = &self.service_account_signing_key_file else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| {
            Failure::input(format_args!("{FLAG} {}: {error}", path.display()))
        };
        let key = KeyPair::from_pem(&read(FLAG, path)?).map_err(|error| failed(&error))?;
        SigningKey::new(&key).map(Some).map_err(|error| failed(&error))
    }

    fn keys(&self) -> Result<Vec<PublicKey>, Failure> {
        const FLAG: &str = "--service-account-key-file";
        let mut keys = Vec::new();
        for path in &self.service_account_key_file {
            let found = PublicKey::all_from_pem(&read(FLAG, path)?);
            keys.extend(
                found.map_err(|error| Failure::input(format_args!("{FLAG} {}: {error}", path.display())))?,
            );
        }
        Ok(keys)
    }
}

fn of(flag: &str, error: impl std::fmt::Display) -> Failure {
    Failure::input(format_args!("{flag}: {error}"))
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path)
        .map_err(|error| Failure::input(format_args!("cannot read {flag} {}: {error}", path.display())))
}

fn tokens(path: &Path) -> Result<TokenFile, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::input(format_args!("cannot read --token-auth-file {name}: {error}")))?;
    TokenFile::read(&text).map_err(|error| Failure::input(format_args!("--token-auth-file {name}: {error}")))
}

/// Returns whether a text has a scheme, a colon and more text.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(is_scheme)
        && !rest.is_empty()
        && !rest.contains(char::is_whitespace)
}

/// Parses a duration in the notation of kube-apiserver's flags into seconds: `24h`, `1h30m`, `5400s`.
fn max_expiration(text: &str) -> Result<i64, String> {
    let expected = || format!("{text:?} is not a duration: write it like 24h or 1h30m");
    let mut rest = text;
    let mut seconds: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
        let (number, after) = rest.split_at_checked(digits).ok_or_else(expected)?;
        let number: i64 = number.parse().map_err(|_| expected())?;
        let unit = after.chars().next().ok_or_else(expected)?;
        let length = match unit {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(expected()),
        };
        rest = after.strip_prefix(unit).unwrap_or_default();
        seconds =
            number.checked_mul(length).and_then(|more| seconds.checked_add(more)).ok_or_else(expected)?;
    }
    match MAX_EXPIRATION.contains(&seconds) {
        true => Ok(seconds),
        false => Err(format!("{text:?} is out of range: between 1h and 2^32 seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_life_of_a_token_is_between_an_hour_and_an_age_an_92() {
        assert_eq!(max_expiration("24h"), Ok(86_400));
        assert_eq!(max_expiration("1h30m"), Ok(5_400));
        assert_eq!(max_expiration("3600s"), Ok(3_600));
        assert_eq!(max_expiration("4294967296s"), Ok(1 << 32));
        for bad in [
            "",
            "1",
            "h",
            "59m",
            "3599s",
            "4294967297s",
            "-1h",
            "1d",
            "1.5h",
            "99999999999999999999h",
            "1h 2h",
        ] {
            assert!(max_expiration(bad).is_err(), "{bad:?}");
        }
    }
}
