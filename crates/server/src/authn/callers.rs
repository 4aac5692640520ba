//! Authentication of those who ask a webhook: client certificates with an allowed name, and tokens (BC-2).

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use hashbrown::HashSet;
use http::HeaderMap;
use pki::cert::VerifyError;
use pki::{CaBundle, sha256};
use policy::User;

use super::bearer;
use super::caller::Caller;
use super::certificate::Peer;
use super::reload::{AuthorityFileError, Followed};

/// The interval at which the token file is checked.
const PERIOD: Duration = Duration::from_secs(1);

/// The configuration of callers is invalid.
#[derive(Debug, thiserror::Error)]
pub enum CallersError {
    /// The authorities of client certificates.
    #[error("--client-ca-file: {0}")]
    Authorities(#[from] AuthorityFileError),
    /// The token file cannot be read.
    #[error("--caller-token-file: cannot read {}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The token file has no token.
    #[error("--caller-token-file: {} contains no token: write one in each line", .0.display())]
    NoToken(PathBuf),
    /// Names without authorities.
    #[error("--allowed-names and --allowed-organizations need --client-ca-file")]
    Names,
}

/// Why a caller is not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the client certificate is not valid: {0}")]
    Certificate(#[from] VerifyError),
    #[error("the name {0:?} in the client certificate is not allowed")]
    Name(String),
    #[error("the token is not known")]
    Token,
    #[error("no client certificate and no token")]
    Nothing,
}

/// See the module. Without authorities and tokens, only callers on the same host are answered.
pub struct Callers {
    authorities: Option<ArcSwap<CaBundle>>,
    names: Vec<String>,
    organizations: Vec<String>,
    /// The hashes of the tokens, so that comparing takes the same time for every token.
    tokens: Option<ArcSwap<HashSet<[u8; 32]>>>,
    /// The users of callers without a certificate.
    of_token: Arc<User>,
    local: Arc<User>,
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers")
            .field("authorities", &self.authorities.is_some())
            .field("names", &self.names)
            .field("organizations", &self.organizations)
            .field("tokens", &self.tokens.is_some())
            .finish_non_exhaustive()
    }
}

/// The files of [`Callers`], to be watched for changes.
pub struct CallerFiles {
    authorities: Option<Followed>,
    tokens: Option<TokenFile>,
}

struct TokenFile {
    path: PathBuf,
    last: Vec<u8>,
}

impl Callers {
    /// Reads the files of `--client-ca-file` and `--caller-token-file`. With names or organizations, a certificate must have
    /// one of them.
    ///
    /// # Errors
    /// See [`CallersError`].
    pub fn read(
        authorities: Option<PathBuf>,
        names: Vec<String>,
        organizations: Vec<String>,
        tokens: Option<PathBuf>,
    ) -> Result<(Self, CallerFiles), CallersError> {
        if authorities.is_none() && !(names.is_empty() && organizations.is_empty()) {
            return Err(CallersError::Names);
        }
        let (followed, bundle) = authorities.map(Followed::read).transpose()?.unzip();
        let (token_file, hashes) = tokens.map(TokenFile::read).transpose()?.unzip();
        let callers = Self {
            authorities: bundle.map(ArcSwap::from_pointee),
            names,
            organizations,
            tokens: hashes.map(ArcSwap::from_pointee),
            of_token: Arc::new(User::new("portcullis:caller-token", [""; 0])),
            local: Arc::new(User::new("portcullis:local-caller", [""; 0])),
        };
        Ok((callers, CallerFiles { authorities: followed, tokens: token_file }))
    }

    /// Whether nobody but callers on the same host is answered.
    pub fn is_local_only(&self) -> bool {
        self.authorities.is_none() && self.tokens.is_none()
    }

    /// Whether client certificates are asked for.
    pub fn asks_for_certificates(&self) -> bool {
        self.authorities.is_some()
    }

    /// Whether every client certificate of the authorities is answered.
    pub fn takes_every_certificate(&self) -> bool {
        self.authorities.is_some() && self.names.is_empty() && self.organizations.is_empty()
    }

    /// Returns who asks.
    ///
    /// # Errors
    /// Why nobody does whom the configuration allows.
    pub(crate) fn identify(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        remote: Option<IpAddr>,
        now: SystemTime,
    ) -> Result<Caller, Refused> {
        if self.is_local_only() {
            let is_local = remote.is_some_and(|address| address.to_canonical().is_loopback());
            return if is_local { Ok(Caller::of(Arc::clone(&self.local))) } else { Err(Refused::Nothing) };
        }
        let mut refused = Refused::Nothing;
        if let Some(authorities) = &self.authorities {
            match peer.client(&authorities.load(), now) {
                Ok(Some(user)) if self.allows(&user) => return Ok(Caller::of(user)),
                Ok(Some(user)) => refused = Refused::Name(user.name.clone()),
                Ok(None) => {}
                Err(error) => refused = error.into(),
            }
        }
        if let Some(tokens) = &self.tokens
            && let Some(token) = bearer::token(headers)
        {
            if tokens.load().contains(&sha256(token)) {
                return Ok(Caller::of(Arc::clone(&self.of_token)));
            }
            refused = Refused::Token;
        }
        Err(refused)
    }

    fn allows(&self, user: &User) -> bool {
        if self.names.is_empty() && self.organizations.is_empty() {
            return true;
        }
        self.names.contains(&user.name) || self.organizations.iter().any(|name| user.in_group(name))
    }
}

impl TokenFile {
    fn read(path: PathBuf) -> Result<(Self, HashSet<[u8; 32]>), CallersError> {
        let last =
            std::fs::read(&path).map_err(|source| CallersError::File { path: path.clone(), source })?;
        match hashes(&last) {
            Some(hashes) => Ok((Self { path, last }, hashes)),
            None => Err(CallersError::NoToken(path)),
        }
    }

    /// The hashes of the new tokens, if the file has changed. A file without a token changes nothing.
    async fn changed(&mut self) -> HashSet<[u8; 32]> {
        loop {
            tokio::time::sleep(PERIOD).await;
            let Ok(new) = tokio::fs::read(&self.path).await else { continue };
            if new == self.last {
                continue;
            }
            let found = hashes(&new);
            self.last = new;
            match found {
                Some(hashes) => return hashes,
                None => tracing::error!("--caller-token-file contains no token; the last ones remain in use"),
            }
        }
    }
}

/// The hashes of the tokens, one in each line; none if there is no token.
fn hashes(text: &[u8]) -> Option<HashSet<[u8; 32]>> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let hashes: HashSet<_> = lines.filter(|line| !line.is_empty()).map(sha256).collect();
    (!hashes.is_empty()).then_some(hashes)
}

impl CallerFiles {
    /// Applies changes of the files until the future is dropped. Invalid contents change nothing.
    pub async fn follow(self, callers: Arc<Callers>) {
        let Self { authorities, tokens } = self;
        let of_authorities = async {
            let Some(mut file) = authorities else { return };
            loop {
                match (file.changed().await, &callers.authorities) {
                    (Ok(bundle), Some(known)) => {
                        known.store(Arc::new(bundle));
                        tracing::info!("the authorities of callers have changed");
                    }
                    (Ok(_), None) => return,
                    (Err(error), _) => tracing::error!(
                        %error,
                        "--client-ca-file is invalid; its previous contents remain in use"
                    ),
                }
            }
        };
        let of_tokens = async {
            let (Some(mut file), Some(known)) = (tokens, &callers.tokens) else { return };
            loop {
                known.store(Arc::new(file.changed().await));
                tracing::info!("the tokens of callers have changed");
            }
        };
        tokio::join!(of_authorities, of_tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_tokens(text: &str) -> Callers {
        Callers {
            authorities: None,
            names: Vec::new(),
            organizations: Vec::new(),
            tokens: hashes(text.as_bytes()).map(ArcSwap::from_pointee),
            of_token: Arc::new(User::new("token", [""; 0])),
            local: Arc::new(User::new("local", [""; 0])),
        }
    }

    fn ask(callers: &Callers, header: Option<&str>, remote: &str) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(http::header::AUTHORIZATION, value.parse().unwrap());
        }
        let remote = Some(remote.parse().unwrap());
        callers.identify(&Peer::new(None), &headers, remote, SystemTime::now()).is_ok()
    }

    #[test]
    fn without_credentials_only_the_same_host_is_answered_bc_2() {
        let callers = with_tokens("");
        assert!(callers.is_local_only());
        for (remote, expected) in
            [("127.0.0.1", true), ("::1", true), ("::ffff:127.0.0.1", true), ("192.0.2.1", false)]
        {
            assert_eq!(ask(&callers, None, remote), expected, "{remote}");
        }
    }

    #[test]
    fn a_token_must_be_one_of_the_file_bc_2() {
        let callers = with_tokens("first\n\n second \r\n");
        for (header, expected) in [
            (Some("Bearer first"), true),
            (Some("bearer second"), true),
            (Some("Bearer "), false),
            (Some("Bearer third"), false),
            (Some("Basic first"), false),
            (None, false),
        ] {
            assert_eq!(ask(&callers, header, "127.0.0.1"), expected, "{header:?}");
        }
    }
}
