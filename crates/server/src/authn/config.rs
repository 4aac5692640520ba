//! The configuration of authentication, and the authentication that it makes over the objects of a store.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pki::cert::CaBundleError;
use pki::jwt::{PublicKey, SigningKey, TokenKeyError};
use tokio::sync::watch;

use super::anonymous::Anonymous;
use super::authentication::Authentication;
use super::bootstrap_token::BootstrapTokens;
use super::caller::join_authenticated;
use super::configuration::AuthenticationFile;
use super::jwt::Issuers;
use super::metrics::AuthenticationMetrics;
use super::reload::AuthorityFiles;
use super::request_header::RequestHeader;
use super::service_account::{Issuer, ServiceAccounts};
use super::token_file::TokenFile;
use super::token_webhook::TokenWebhook;
use super::tokens::Tokens;
use crate::bootstrap::{self, Bootstrap};
use crate::registry::backend::Backend;
use crate::registry::bootstrap_authorities::BootstrapAuthorities;

/// The configuration of authentication. Names follow the flags of kube-apiserver.
pub struct AuthenticationConfig {
    /// Where requests without credentials are allowed. If none is named, everywhere; nowhere if the modes of
    /// authorization allow everything (AN-111).
    pub anonymous: Option<Anonymous>,
    /// The CA files of clients and of front proxies, in addition to the server's own CA.
    pub authorities: AuthorityFiles,
    /// Front proxies, which name the user in headers (AN-30).
    pub front_proxy: Option<RequestHeader>,
    /// Static tokens (AN-60).
    pub tokens: TokenFile,
    /// Whether bootstrap tokens are accepted (AN-100).
    ///
    /// DIVERGES: they are by default. kube-apiserver disables them by default, and kubeadm enables them in every
    /// cluster. They have no effect without a secret of that type in kube-system.
    pub bootstrap_tokens: bool,
    /// The settings of service account tokens.
    pub issuer: Issuer,
    /// The key that signs service account tokens. If none, `sa.key` in the data directory.
    pub signing_key: Option<SigningKey>,
    /// Additional keys that verify service account tokens.
    pub keys: Vec<PublicKey>,
    /// The file with the issuers of other tokens (AN-10).
    pub file: Option<AuthenticationFile>,
    /// The webhook that is asked about all other tokens (AN-56).
    pub webhook: Option<TokenWebhook>,
}

impl Default for AuthenticationConfig {
    fn default() -> Self {
        Self {
            anonymous: None,
            authorities: AuthorityFiles::default(),
            front_proxy: None,
            tokens: TokenFile::default(),
            bootstrap_tokens: true,
            issuer: Issuer::default(),
            signing_key: None,
            keys: Vec::new(),
            file: None,
            webhook: None,
        }
    }
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// A CA that authenticates clients is also one of front proxies that may have any name (AN-36).
    #[error(
        "--requestheader-client-ca-file holds an authority that vouches for clients as well: every client could speak \
         for everybody. Use an authority of its own, or --requestheader-allowed-names"
    )]
    SharedAuthority,
    /// The client CAs are invalid.
    #[error("--client-ca-file: {0}")]
    Clients(#[from] CaBundleError),
    /// The key of the data directory cannot sign tokens.
    #[error("sa.key in --data-dir: {0}")]
    Key(#[from] TokenKeyError),
    /// The key of the data directory cannot be read or created.
    #[error(transparent)]
    DataDir(#[from] bootstrap::BootstrapError),
}

impl AuthenticationConfig {
    /// Creates the authentication over the objects of a store, and returns it with the files to watch. Must be called in a
    /// runtime: the keys of issuers are fetched from now on. With `allows_all`
    /// the modes of authorization allow everything.
    ///
    /// # Errors
    /// See [`AuthenticationError`].
    pub fn open(
        self,
        bootstrap: &Bootstrap,
        backend: &Arc<Backend>,
        bootstrappers: Arc<BootstrapAuthorities>,
        metrics: AuthenticationMetrics,
        allows_all: bool,
    ) -> Result<(Authentication, AuthorityFiles, Option<AuthenticationFile>), AuthenticationError> {
        let authorities = self.authorities.with_own(bootstrap.authority_pem());
        let is_any_proxy = self.front_proxy.as_ref().is_some_and(RequestHeader::allows_any_name);
        if is_any_proxy && authorities.share_one() {
            return Err(AuthenticationError::SharedAuthority);
        }
        let signing_key = match self.signing_key {
            Some(key) => key,
            None => SigningKey::new(&bootstrap.service_account_key()?)?,
        };
        let accounts = ServiceAccounts::new(
            Arc::clone(backend),
            signing_key,
            self.keys,
            self.issuer,
            metrics.tokens.clone(),
        );
        let issuers = Issuers::new(metrics.issuers.clone());
        let mut file = self.file;
        if let Some(file) = &mut file {
            issuers.replace(file.take_issuers());
        }
        let authentication = Authentication {
            backend: Arc::clone(backend),
            anonymous: anonymous(self.anonymous, allows_all),
            bootstrappers,
            clients: ArcSwap::from_pointee(authorities.clients()?),
            trust: watch::Sender::new(()),
            front_proxy: self.front_proxy,
            metrics,
            tokens: Tokens {
                file: self.tokens.map(join_authenticated),
                accounts: Arc::new(accounts),
                bootstrap: self.bootstrap_tokens.then(|| BootstrapTokens::new(Arc::clone(backend))),
                issuers,
                webhook: self.webhook,
            },
        };
        Ok((authentication, authorities, file))
    }
}

/// AN-111
fn anonymous(named: Option<Anonymous>, allows_all: bool) -> Anonymous {
    match named {
        Some(anonymous) => anonymous,
        None if allows_all => {
            tracing::warn!(
                "the authorization modes include AlwaysAllow: requests without credentials are not served"
            );
            Anonymous::Nowhere
        }
        None => Anonymous::Everywhere,
    }
}
